//! Flags as they reach the client, and containers that are gone afterwards: against a fake client, and a real engine if one answers.

use super::*;
use crate::container::engine::EngineState;
use crate::container::{leftovers, sweep};
use crate::failure::code_of;
use std::path::Path;

/// A `docker` that writes its arguments down and then does what `script` says.
fn fake(dir: &Path, script: &str) -> DockerRuntime {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../fixtures/fake:/usr/bin:/bin").to_owned();
    let log = dir.join("calls").display().to_string();
    let env = [("PATH", path), ("FAKE_LOG", log), ("FAKE_DO", script.to_owned())];
    let engine = Engine::with(env.map(|(key, value)| (key.to_owned(), value)).to_vec()).unwrap();
    runtime(Engine { removal: Duration::from_secs(5), ..engine }, ImageId::new("sha256:abc"))
}

fn runtime(engine: Engine, image: ImageId) -> DockerRuntime {
    DockerRuntime {
        engine,
        image,
        user: (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw()),
        limits: LIMITS.iter().map(|limit| (*limit).to_owned()).collect(),
        gpu_access: GpuAccess::Gpus,
        env: vec![("HOME".into(), "/tmp".into())],
        readable: vec![],
    }
}

fn task(dir: &Path, script: &str) -> Task {
    Task {
        label: "test".into(),
        program: "sh".into(),
        args: vec!["-c".into(), script.into()],
        env: vec![("ADDED".into(), "1".into())],
        readable: vec!["/usr/share".into()],
        writable: dir.to_owned(),
        gpu: false,
        deadline: Duration::from_secs(30),
        hold_stdin: false,
    }
}

fn calls(dir: &Path) -> Vec<String> {
    std::fs::read_to_string(dir.join("calls")).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn the_client_is_called_with_every_hardening_flag() {
    let dir = tempfile::tempdir().unwrap();
    let runtime = fake(dir.path(), "[ $1 = run ] && echo hello; true");
    let wanted = Task { hold_stdin: true, gpu: true, ..task(dir.path(), "true") };
    assert_eq!(runtime.run(&wanted, &mut |_| {}).unwrap().stdout, "hello\n");
    let call = &calls(dir.path())[0];
    let writable = dir.path().display();
    let pid = std::process::id();
    let flags = [
        "run --pull=never --name=assay-test-",
        "--label=assay.name=assay-test-",
        "--shm-size=1g --ulimit=memlock=-1:-1",
        &format!("--label=assay.owner={pid}:"),
        "--network=none --cap-drop=ALL --security-opt=no-new-privileges --read-only --tmpfs=/tmp:rw,exec",
        "--pids-limit=",
        &format!("--user={}:{}", runtime.user.0, runtime.user.1),
        "--interactive",
        "--volume=/usr/share:/usr/share:ro",
        &format!("--volume={writable}:{writable}:rw --workdir={writable}"),
        "--gpus all",
        "--env=HOME=/tmp --env=ADDED=1 sha256:abc sh -c true",
    ];
    for flag in flags {
        assert!(call.contains(flag), "{flag} not in {call}");
    }
    assert!(!call.contains("--privileged") && !call.contains("--rm"));
}

#[test]
fn without_need_there_is_no_gpu_and_no_stdin() {
    let dir = tempfile::tempdir().unwrap();
    fake(dir.path(), "").run(&task(dir.path(), "true"), &mut |_| {}).unwrap();
    let call = &calls(dir.path())[0];
    assert!(!call.contains("--gpus") && !call.contains("--interactive"));
}

#[test]
fn a_folder_that_is_not_there_is_refused_before_docker_makes_it() {
    let dir = tempfile::tempdir().unwrap();
    let missing = dir.path().join("missing");
    let wanted = Task { readable: vec![missing.clone()], ..task(dir.path(), "true") };
    let error = fake(dir.path(), "").run(&wanted, &mut |_| {}).unwrap_err();
    assert!(error.to_string().contains("missing cannot be mounted"), "{error}");
    assert!(!missing.exists() && !dir.path().join("calls").exists());
}

/// The name that a call of `run` gave its container.
fn name_in(call: &str) -> &str {
    call.split_whitespace().find_map(|word| word.strip_prefix("--name=")).unwrap()
}

/// The container of the first call was removed by its own name, and then looked for.
#[track_caller]
fn check_removed(dir: &Path) {
    let calls = calls(dir);
    let name = name_in(&calls[0]);
    let at = calls.iter().position(|call| *call == format!("rm --force --volumes {name}")).expect("it is removed");
    let looked = format!("ps --all --quiet --filter label=assay.name={name}");
    assert!(calls[at..].contains(&looked), "{calls:#?}");
    assert!(calls[0].contains(&format!("--label=assay.name={name} ")), "{}", calls[0]);
}

fn refused(dir: &Path, script: &str) -> anyhow::Error {
    let error = fake(dir, script).run(&task(dir, "true"), &mut |_| {}).unwrap_err();
    assert_eq!(code_of(&error), ExitCode::Environment, "{error:#}");
    error
}

#[test]
fn a_container_past_its_deadline_is_removed_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let runtime = fake(dir.path(), "[ $1 = run ] && sleep 60; [ $1 = rm ] && echo $4; true");
    let wanted = Task { deadline: Duration::from_millis(100), ..task(dir.path(), "true") };
    assert!(runtime.run(&wanted, &mut |_| {}).unwrap().timed_out);
    check_removed(dir.path());
}

#[test]
fn what_docker_refuses_is_an_environment_failure_that_says_what_it_said() {
    let dir = tempfile::tempdir().unwrap();
    // As client 28.2.2 prints it.
    let said = "docker: Error response from daemon: No such image: sha256:abc";
    let error = refused(dir.path(), &format!("[ $1 = run ] || exit 0; echo '{said}' >&2; exit 125"));
    assert!(error.to_string().contains(said), "{error}");
    check_removed(dir.path());
}

/// An id on stdout says nothing of a start, and what was left in state Created is removed.
#[test]
fn an_id_on_stdout_before_a_refusal_is_no_start() {
    for said in [
        "docker: Error response from daemon: unknown or invalid runtime name: nvidia.",
        "docker: Error response from daemon: Unknown runtime specified nvidia.",
        "docker: Error response from daemon: could not select device driver \"\" with capabilities: [[gpu]].",
    ] {
        let dir = tempfile::tempdir().unwrap();
        // The container is there until it is removed.
        let script = format!(
            "case $1 in run) touch $FAKE_LOG.there; echo 3f0c0c4be1c1b0f2; echo '{said}' >&2; exit 125;; \
             rm) rm $FAKE_LOG.there; echo $4;; ps) [ -e $FAKE_LOG.there ] && echo 3f0c0c4be1c1;; esac; true"
        );
        let error = refused(dir.path(), &script);
        assert!(error.to_string().contains("knows no GPU runtime"), "{error}");
        assert!(crate::failure::remedy_of(&error).unwrap().contains("nvidia-ctk runtime configure"));
        check_removed(dir.path());
        assert!(!dir.path().join("calls.there").exists());
    }
}

#[test]
fn the_last_clause_of_a_nested_refusal_is_what_is_said() {
    let dir = tempfile::tempdir().unwrap();
    let error = refused(
        dir.path(),
        "[ $1 = run ] || exit 0; echo 'docker: Error response from daemon: failed to create shim task: hook #0: Auto-detected' >&2
         echo 'nvidia-container-cli: initialization error: load library failed: libnvidia-ml.so.1: cannot open: unknown' >&2; exit 125",
    );
    assert!(error.to_string().contains("(nvidia-container-cli: initialization error: load library failed"), "{error}");
    assert!(crate::failure::remedy_of(&error).unwrap().contains("type -a docker"));
}

#[test]
fn a_refused_device_specification_says_how_to_make_it_anew() {
    let dir = tempfile::tempdir().unwrap();
    let said = "docker: Error response from daemon: failed to inject CDI devices: unresolvable CDI devices nvidia.com/gpu=all: unknown.";
    let error = refused(dir.path(), &format!("[ $1 = run ] || exit 0; echo '{said}' >&2; exit 125"));
    assert!(crate::failure::remedy_of(&error).unwrap().contains("nvidia-ctk cdi generate"));
}

#[test]
fn the_programs_own_125_to_127_are_not_dockers() {
    for code in 125..=127 {
        let dir = tempfile::tempdir().unwrap();
        let began = "2026-01-01T00:00:00Z";
        let script = format!(
            "case $1 in run) echo 'docker: words of its own' >&2; exit {code};; inspect) echo '{code} false \"\" {began} {began}';; esac"
        );
        let runtime = fake(dir.path(), &script);
        assert_eq!(runtime.run(&task(dir.path(), "x"), &mut |_| {}).unwrap().code, Some(code));
        check_removed(dir.path());
    }
    // Without an engine's record, its words tell.
    let dir = tempfile::tempdir().unwrap();
    let runtime = fake(dir.path(), "[ $1 = run ] || exit 0; echo 'sh: 1: x: not found' >&2; exit 127");
    assert_eq!(runtime.run(&task(dir.path(), "x"), &mut |_| {}).unwrap().code, Some(127));
}

#[test]
fn memory_a_kill_from_outside_and_a_bus_error_have_their_own_words() {
    for (code, record, words) in [
        (137, "137 true \"\"", "memory ran out"),
        (137, "137 false \"\"", "killed from outside"),
        (137, "", "killed from outside"),
        (135, "135 false \"\"", "/dev/shm"),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let script = format!("case $1 in run) exit {code};; inspect) echo '{record}';; esac");
        let error = refused(dir.path(), &script);
        assert!(error.to_string().contains(words), "{error}");
        check_removed(dir.path());
        let calls = calls(dir.path());
        let at = |word: &str| calls.iter().position(|call| call.starts_with(word)).unwrap();
        assert!(at("inspect") < at("rm "), "its end is read before it is removed: {calls:#?}");
    }
}

#[test]
fn a_program_that_says_its_disk_is_full_has_failed_for_that() {
    let dir = tempfile::tempdir().unwrap();
    let error = refused(
        dir.path(),
        "case $1 in run) echo 'write x: No space left on device' >&2; exit 1;; inspect) echo '1 false \"\"';; esac",
    );
    assert!(error.to_string().contains("a disk is full"), "{error}");
    assert!(crate::failure::remedy_of(&error).unwrap().contains("df -i"));
}

#[test]
fn a_container_that_appears_after_its_client_was_killed_is_removed_too() {
    let dir = tempfile::tempdir().unwrap();
    // The first removal finds nothing; then the container is there, until a removal that comes after that.
    let script = "case $1 in
      run) trap '' TERM; sleep 60;;
      rm) n=$(grep -c '^rm' $FAKE_LOG); if [ $n -gt 2 ]; then rm -f $FAKE_LOG.there; echo $4; else
          [ $n = 1 ] && touch $FAKE_LOG.there; echo \"Error: No such container: $4\" >&2; exit 1; fi;;
      ps) [ -e $FAKE_LOG.there ] && [ $(grep -c '^ps' $FAKE_LOG) -gt 1 ] && echo a1b2c3d4e5f6; true;;
      esac";
    let wanted = Task { deadline: Duration::from_millis(100), ..task(dir.path(), "true") };
    assert!(fake(dir.path(), script).run(&wanted, &mut |_| {}).unwrap().timed_out);
    assert!(!dir.path().join("calls.there").exists(), "{:#?}", calls(dir.path()));
    assert!(calls(dir.path()).iter().filter(|call| call.starts_with("rm ")).count() >= 3);
}

#[test]
fn a_container_that_cannot_be_removed_is_said() {
    let dir = tempfile::tempdir().unwrap();
    // It refuses, hangs, or says that it removed what is still there.
    for removal in ["echo 'Error: driver failed to remove' >&2; exit 1", "trap '' TERM; sleep 60", "echo $4"] {
        let script = format!("case $1 in run) exit 125;; rm) {removal};; ps) echo a1b2c3d4e5f6;; esac");
        let runtime = fake(dir.path(), &script);
        let runtime =
            DockerRuntime { engine: Engine { removal: Duration::from_millis(300), ..runtime.engine }, ..runtime };
        let begun = std::time::Instant::now();
        let error = runtime.run(&task(dir.path(), "true"), &mut |_| {}).unwrap_err();
        assert_eq!(code_of(&error), ExitCode::Environment);
        assert!(format!("{error:#}").contains("could not be removed"), "{error:#}");
        assert!(begun.elapsed() < Duration::from_secs(15), "{removal}");
    }
}

#[test]
fn a_daemon_that_went_away_is_said_without_waiting_for_it() {
    let dir = tempfile::tempdir().unwrap();
    let down = "Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?";
    let begun = std::time::Instant::now();
    let error = refused(dir.path(), &format!("echo '{down}' >&2; [ $1 = run ] && exit 125; exit 1"));
    assert!(format!("{error:#}").contains("the docker daemon is down"), "{error:#}");
    assert!(begun.elapsed() < Duration::from_secs(3));
}

/// A runtime on a real engine with any image of ours that has a shell; said when there is none.
fn real() -> Option<DockerRuntime> {
    let Some(engine) = Engine::find() else {
        eprintln!("skipped: no docker client");
        return None;
    };
    if !matches!(engine.state(), EngineState::Ready(_)) {
        eprintln!("skipped: no docker daemon");
        return None;
    }
    let image = engine.image("assay-base:local").unwrap();
    if image.is_none() {
        eprintln!("skipped: no local base image (cargo xtask provision --make-base)");
    }
    // This engine may not be allowed to raise what may be locked.
    let limits = vec!["--shm-size=1g".to_owned()];
    Some(DockerRuntime { limits, gpu_access: GpuAccess::None, ..runtime(engine, image?.id) })
}

fn names(runtime: &DockerRuntime) -> String {
    runtime.engine.answer(&["ps", "--all", "--format", "{{.Names}}"], Duration::from_secs(10)).unwrap()
}

#[test]
fn a_real_container_is_held_to_what_is_promised() {
    let Some(runtime) = real() else { return };
    let dir = tempfile::tempdir().unwrap();
    let script = "touch /x 2>&1; touch /usr/share/x 2>&1; ls /sys/class/net; grep -E '^(CapEff|NoNewPrivs)' /proc/self/status; \
                  id -u; cp /bin/true /tmp/t && /tmp/t && echo exec; echo made > made";
    let ended = runtime.run(&task(dir.path(), script), &mut |_| {}).unwrap();
    let out = &ended.stdout;
    assert_eq!(ended.code, Some(0), "{out} {}", ended.stderr);
    assert_eq!(out.matches("Read-only file system").count(), 2, "{out}");
    assert!(out.contains("\nlo\n") && !out.contains("eth0"), "{out}");
    assert!(out.contains("CapEff:\t0000000000000000") && out.contains("NoNewPrivs:\t1"), "{out}");
    assert!(out.contains(&format!("\n{}\n", runtime.user.0)) && out.contains("exec"), "{out}");
    assert_eq!(std::fs::read_to_string(dir.path().join("made")).unwrap(), "made\n");
}

#[test]
fn a_real_engines_refusals_and_records_are_understood() {
    let Some(runtime) = real() else { return };
    let dir = tempfile::tempdir().unwrap();
    let said = |runtime: &DockerRuntime, program: &str| {
        let wanted = Task { program: program.into(), label: "refused".into(), ..task(dir.path(), "exit 125") };
        runtime.run(&wanted, &mut |_| {})
    };
    assert_eq!(said(&runtime, "sh").unwrap().code, Some(125));
    let no_program = said(&runtime, "no-such-program").unwrap_err();
    assert!(no_program.to_string().contains("the image has no such program"), "{no_program:#}");
    let no_image =
        said(&DockerRuntime { image: ImageId::new(format!("sha256:{}", "1".repeat(64))), ..runtime.clone() }, "sh");
    assert!(no_image.unwrap_err().to_string().contains("the engine has no such image"));
    let little = DockerRuntime { limits: vec!["--memory=32m".into(), "--memory-swap=32m".into()], ..runtime.clone() };
    let eats = Task { label: "refused".into(), ..task(dir.path(), "x=aaaaaaaaaaaaaaaa; while :; do x=$x$x; done") };
    let starved = little.run(&eats, &mut |_| {}).unwrap_err();
    assert!(starved.to_string().contains("memory ran out"), "{starved:#}");
    assert!(!names(&runtime).contains("assay-refused"));
}

#[test]
fn a_real_container_is_gone_after_its_deadline() {
    let Some(runtime) = real() else { return };
    let dir = tempfile::tempdir().unwrap();
    let label = "deadline".to_owned();
    let wanted = Task { label, deadline: Duration::from_millis(700), ..task(dir.path(), "trap '' TERM; sleep 60") };
    assert!(runtime.run(&wanted, &mut |_| {}).unwrap().timed_out);
    assert!(!names(&runtime).contains("assay-deadline"));
}

#[test]
fn a_real_container_whose_owner_is_gone_is_swept() {
    let Some(runtime) = real() else { return };
    let dir = tempfile::tempdir().unwrap();
    let name = format!("assay-orphan-{}", std::process::id());
    // The owner: a process that has ended, with this boot and namespace.
    let owner = Owner::this().to_string().replacen(&format!("{}:", std::process::id()), "4194304:", 1);
    let mut args = runtime.args(&task(dir.path(), "sleep 60"), &name, &Owner::this());
    args.iter_mut()
        .filter(|arg| arg.starts_with("--label="))
        .for_each(|arg| *arg = format!("--label={OWNER_LABEL}={owner}"));
    args.insert(1, "--detach".into());
    runtime.engine.child(args, Duration::from_secs(20)).run(&mut |_| {}).unwrap();
    assert!(leftovers(&runtime.engine).unwrap().iter().any(|left| left.name == name && left.orphan));
    assert!(sweep(&runtime.engine).unwrap().contains(&name));
    assert!(!names(&runtime).contains(&name));
}
