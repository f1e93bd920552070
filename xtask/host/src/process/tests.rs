//! Children end as they should, with what they should.

use super::*;
use crate::failure::code_of;

fn sh(script: &str) -> Child {
    Child {
        program: "sh".into(),
        args: vec!["-c".into(), script.into()],
        env: vec![("PATH".into(), "/usr/bin:/bin".into()), ("STATED".into(), "yes".into())],
        dir: std::env::temp_dir(),
        deadline: Duration::from_secs(10),
        hold_stdin: false,
    }
}

fn run(child: &Child) -> Ended {
    child.run(&mut |_| {}).unwrap()
}

/// Whether a process is gone, or dead and waiting for whoever inherits it.
fn is_gone(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.is_empty() || stat.contains(") Z ") || stat.contains(") X ")
}

#[test]
fn output_lines_and_code_come_back() {
    let mut lines = Vec::new();
    let ended = sh("echo one; echo two; echo bad >&2; exit 3").run(&mut |line| lines.push(line.to_owned())).unwrap();
    assert_eq!((ended.code, ended.timed_out), (Some(3), false));
    assert_eq!(lines, ["one", "two"]);
    assert_eq!((ended.stdout.as_str(), ended.stderr.as_str()), ("one\ntwo\n", "bad\n"));
}

#[test]
fn the_environment_is_what_is_stated() {
    let ended = run(&Child { program: "/usr/bin/env".into(), args: vec![], ..sh("") });
    let mut seen: Vec<&str> = ended.stdout.lines().collect();
    seen.sort_unstable();
    assert_eq!(seen, ["LC_ALL=C", "PATH=/usr/bin:/bin", "STATED=yes", "TZ=UTC"]);
}

#[test]
fn a_program_writes_its_numbers_plainly_whatever_this_user_s_locale() {
    let localised =
        r#"if [ "$LC_ALL" = C ] && [ -z "$LANG$LANGUAGE$LC_NUMERIC" ]; then echo 118.34; else echo 118,34; fi"#;
    assert_eq!(run(&sh(localised)).stdout, "118.34\n");
    let stated = Child { env: vec![("LC_ALL".into(), "C.UTF-8".into())], ..sh("") };
    let ended = run(&Child { program: "/usr/bin/env".into(), args: vec![], ..stated });
    assert!(ended.stdout.contains("LC_ALL=C.UTF-8\n"), "{}", ended.stdout);
}

#[test]
fn a_program_that_is_not_there_is_an_environment_failure() {
    let error = Child { program: "no-such-program".into(), ..sh("") }.run(&mut |_| {}).unwrap_err();
    assert_eq!(code_of(&error), ExitCode::Environment);
    assert!(error.to_string().contains("no-such-program"));
}

#[test]
fn a_path_that_cannot_be_run_is_an_environment_failure() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("tool");
    std::fs::write(&file, "#!/bin/sh\n").unwrap();
    for (program, dir) in
        [(file, dir.path()), (dir.path().join("absent"), dir.path()), ("/bin/sh".into(), "/no/such/dir".as_ref())]
    {
        let error = Child { program: program.clone(), dir: dir.to_owned(), ..sh("") }.run(&mut |_| {}).unwrap_err();
        assert_eq!(code_of(&error), ExitCode::Environment, "{error:#}");
        assert!(error.to_string().contains(program.to_str().unwrap()), "{error:#}");
    }
}

#[test]
fn what_switches_checks_or_adds_flags_never_reaches_a_child() {
    // Setting them here would race with other tests; a shell that has them set starts the check above instead.
    let set =
        "NVCC_APPEND_FLAGS=-lineinfo NVCC_PREPEND_FLAGS=-G NV_COMPUTE_SANITIZER_MAX_RACECHECK_HAZARDS=1 LD_PRELOAD=";
    let program = std::env::current_exe().unwrap();
    let script = format!("{set} {} --exact process::tests::the_environment_is_what_is_stated", program.display());
    let ended = run(&sh(&script));
    assert_eq!(ended.code, Some(0), "{}{}", ended.stdout, ended.stderr);
    assert!(ended.stdout.contains("1 passed"), "{}", ended.stdout);
}

#[test]
fn the_deadline_ends_the_whole_group() {
    let child = Child { deadline: Duration::from_millis(200), ..sh("sleep 60 & echo $!; wait") };
    let begun = Instant::now();
    let ended = run(&child);
    assert!(ended.timed_out && ended.code.is_none());
    assert!(begun.elapsed() < Duration::from_secs(3));
    assert!(is_gone(ended.stdout.trim()), "grandchild {} lives", ended.stdout.trim());
}

#[test]
fn a_child_that_ignores_sigterm_is_killed() {
    let child =
        Child { deadline: Duration::from_millis(100), ..sh("trap '' TERM; echo $$; while :; do sleep 0.1; done") };
    let ended = run(&child);
    assert!(ended.timed_out);
    assert!(is_gone(ended.stdout.trim()));
}

#[test]
fn what_a_child_leaves_in_its_group_is_ended_with_it() {
    let ended = run(&sh("sleep 60 & echo $!"));
    assert_eq!(ended.code, Some(0));
    assert!(is_gone(ended.stdout.trim()));
}

#[test]
fn a_held_stdin_stays_open_and_a_closed_one_is_empty() {
    let held = Child { hold_stdin: true, deadline: Duration::from_millis(200), ..sh("cat; echo end of file") };
    assert!(run(&held).timed_out);
    assert_eq!(run(&sh("cat; echo end of file")).stdout, "end of file\n");
}

#[test]
fn being_asked_to_stop_ends_the_child_with_the_documented_code() {
    for (signal, code) in [(2, ExitCode::Interrupted), (15, ExitCode::Terminated)] {
        let pid = std::cell::RefCell::new(String::new());
        let stop = || (!pid.borrow().is_empty()).then_some(signal);
        let error = sh("echo $$; sleep 60")
            .run_until(None, &mut in_words(&mut |line| line.clone_into(&mut pid.borrow_mut())), &stop, &|| false)
            .unwrap_err();
        assert_eq!(code_of(&error), code);
        assert!(is_gone(&pid.borrow()));
    }
}

#[test]
fn a_signal_of_its_own_is_no_exit_code() {
    let ended = run(&sh("kill -9 $$"));
    assert_eq!((ended.code, ended.timed_out), (None, false));
}

#[test]
fn a_silent_child_is_ended_when_the_caller_says_it_is_overdue() {
    let began = Instant::now();
    let heard = std::cell::Cell::new(false);
    let ended = sh("echo begun; sleep 60").run_watched(&mut |_| heard.set(true), &|| heard.get()).unwrap();
    assert_eq!((ended.timed_out, ended.code, ended.stdout.as_str()), (true, None, "begun\n"));
    assert!(began.elapsed() < Duration::from_secs(10));
}

/// A process held in the kernel ends on no signal. Here it is one that ignores the only signal it is sent.
#[test]
fn a_child_that_does_not_end_even_when_killed_is_left_and_said() {
    let began = Instant::now();
    let mut silent = |_: &[u8]| {};
    let stubborn = sh("trap '' TERM; echo begun; while :; do sleep 0.1; done");
    let mut running = Running::start(&stubborn, None, &mut silent).unwrap();
    running.name = "nvidia-smi".to_owned();
    while running.stdout.text().is_empty() {
        running.take(Duration::from_secs(5));
    }
    let error = running.finish(&[(Signal::TERM, Duration::from_millis(50))]).unwrap_err();
    assert_eq!(code_of(&error), ExitCode::Environment);
    let pid = running.group.as_raw_nonzero().to_string();
    assert!(error.to_string().contains(&format!("nvidia-smi (process {pid}) was killed and has not ended")), "{error}");
    assert!(crate::failure::remedy_of(&error).unwrap().contains("reboot"));
    assert!(began.elapsed() < Duration::from_secs(5));
    running.finish(&PATIENCE).unwrap();
    assert!(is_gone(&pid));
}

#[test]
fn a_process_that_left_the_group_with_the_pipes_delays_the_end_by_seconds_only() {
    let began = Instant::now();
    let child = Child { deadline: Duration::from_millis(200), ..sh("setsid sleep 15 & wait") };
    assert!(run(&child).timed_out);
    assert!(began.elapsed() < Duration::from_secs(10));
}
