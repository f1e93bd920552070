//! Flags as they reach the client, and containers that are gone afterwards: against a fake client, and a real engine if one answers.

use super::*;
use crate::failure::code_of;
use crate::world::container::engine::EngineState;
use crate::world::container::{leftovers, sweep};
use std::path::Path;

/// A `docker` that writes its arguments down and then does what `script` says.
fn fake(dir: &Path, script: &str) -> DockerRuntime {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/fake:/usr/bin:/bin").to_owned();
    let log = dir.join("calls").display().to_string();
    let env = [("PATH", path), ("FAKE_LOG", log), ("FAKE_DO", script.to_owned())];
    runtime(Engine::with(env.map(|(key, value)| (key.to_owned(), value)).to_vec()).unwrap(), "sha256:abc")
}

fn runtime(engine: Engine, image: &str) -> DockerRuntime {
    DockerRuntime {
        engine,
        image: image.into(),
        user: (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw()),
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
    let runtime = fake(dir.path(), "echo hello");
    let wanted = Task { hold_stdin: true, gpu: true, ..task(dir.path(), "true") };
    assert_eq!(runtime.run(&wanted, &mut |_| {}).unwrap().stdout, "hello\n");
    let call = &calls(dir.path())[0];
    let writable = dir.path().display();
    let pid = std::process::id();
    let flags = [
        "run --rm --name=assay-test-",
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
    assert!(!call.contains("--privileged"));
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

#[test]
fn a_container_past_its_deadline_is_removed_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let runtime = fake(dir.path(), "[ \"$1\" = rm ] || sleep 60");
    let wanted = Task { deadline: Duration::from_millis(100), ..task(dir.path(), "true") };
    assert!(runtime.run(&wanted, &mut |_| {}).unwrap().timed_out);
    let calls = calls(dir.path());
    let name = calls[0].split_whitespace().find_map(|word| word.strip_prefix("--name=")).unwrap();
    assert_eq!(calls[1], format!("rm --force --volumes {name}"));
}

#[test]
fn what_docker_refuses_is_an_environment_failure_that_says_what_it_said() {
    let dir = tempfile::tempdir().unwrap();
    // As client 28.2.2 prints it.
    let said = "docker: Error response from daemon: No such image: sha256:abc";
    let runtime = fake(dir.path(), &format!("[ \"$1\" = rm ] && exit 0; echo '{said}' >&2; exit 125"));
    let error = runtime.run(&task(dir.path(), "true"), &mut |_| {}).unwrap_err();
    assert_eq!(code_of(&error), ExitCode::Environment);
    assert!(error.to_string().contains(said), "{error}");
    assert_eq!(calls(dir.path()).len(), 2);
}

#[test]
fn the_programs_own_127_is_not_dockers() {
    let dir = tempfile::tempdir().unwrap();
    let runtime = fake(dir.path(), "echo 'sh: 1: x: not found' >&2; exit 127");
    assert_eq!(runtime.run(&task(dir.path(), "x"), &mut |_| {}).unwrap().code, Some(127));
}

#[test]
fn a_container_that_cannot_be_removed_is_said() {
    let dir = tempfile::tempdir().unwrap();
    let runtime = fake(dir.path(), "echo 'Error: driver failed to remove' >&2; exit 125");
    let error = runtime.run(&task(dir.path(), "true"), &mut |_| {}).unwrap_err();
    assert!(error.to_string().contains("could not be removed"), "{error}");
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
    let image = engine.image(crate::steps::provision::LOCAL_BASE).unwrap();
    if image.is_none() {
        eprintln!("skipped: no local base image (cargo xtask provision --make-base)");
    }
    Some(DockerRuntime { gpu_access: GpuAccess::None, ..runtime(engine, &image?.id) })
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
