//! The first container: checks that a program in it can do what every later step needs. It writes a file that must
//! arrive outside, opens the GPU's device nodes, and reports its limits.
//!
//! If no GPU is needed, the answer is cached for this boot, engine, base and user.

use super::find::Base;
use anyhow::{Context, Result};
use host::cache;
use host::container::{DockerRuntime, EngineFacts, GpuAccess, HARDENING, LIMITS, Runtime, Task};
use host::failure::{Denied, fail, remedy_of};
use host::paths::Paths;
use host::process::Ended;
use schema::{Digest, ExitCode};
use serde::{Deserialize, Serialize};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;
use words::docker_says::{Kind, refusal};

/// What containers of this engine get.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Probed {
    /// What of [`LIMITS`] the engine may set.
    pub(super) limits: Vec<String>,
    /// Page-locked memory in kB as a program sees it, or `unlimited`; empty when it could not be asked.
    memlock: String,
    /// Size of /dev/shm in kB as a program sees it; empty when it could not be asked.
    shm_kb: String,
}

/// The file that must arrive outside.
const MARK: &str = "mark";

/// The file that must be seen inside.
const SEEN: &str = "seen";

/// The exit code of [`SCRIPT`] when [`SEEN`] is not there: another folder is mounted under the name of ours.
const NOT_OURS: i32 = 93;

/// The exit code of [`SCRIPT`] when [`MARK`] cannot be written.
const NOT_WRITABLE: i32 = 91;

/// The exit code of [`SCRIPT`] when a GPU node cannot be opened.
const NO_GPU: i32 = 92;

const SCRIPT: &str = r#"
read -r seen <seen && [ "$seen" = "$1" ] || exit 93
echo "$1" >mark || exit 91
for node in /dev/nvidiactl /dev/nvidia-uvm /dev/nvidia[0-9]*; do
  [ ! -e "$node" ] || (: <"$node") || exit 92
done
echo "memlock=$(ulimit -l 2>/dev/null)"
echo "shm_kb=$(df -k /dev/shm 2>/dev/null | while read -r _ size _; do last=$size; echo "$last"; done | tail -n 1)"
"#;

/// Runs the first container, or remembers it.
pub(super) fn probe(
    paths: &Paths,
    plain: &DockerRuntime,
    facts: &EngineFacts,
    base: &Base,
    gpu_access: &GpuAccess,
    need_gpu: bool,
) -> Result<Probed, Denied> {
    let named = [
        format!("{} {} {:?}", base.id, facts.line(), plain.user),
        format!("{HARDENING:?} {LIMITS:?}"),
        std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default(),
    ];
    let file = paths.state().join("bases").join(format!("probe-{}.json", Digest::of(named.join("\n")).short()));
    let gpu_access = if need_gpu { gpu_access.clone() } else { GpuAccess::None };
    if need_gpu {
        host::files::remove(&file)?;
    }
    let work = || with_most_limits(paths, &DockerRuntime { gpu_access, ..plain.clone() }, facts);
    Ok(cache::answer_in(&file, cache::key(&[("asked", SCRIPT.to_owned())]), work).map_err(Denied::of)?.0)
}

impl Probed {
    /// What a program sees, in one line.
    pub(super) fn line(&self) -> String {
        let or = |text: &str| if text.is_empty() { "unknown".to_owned() } else { text.to_owned() };
        format!("limits in a container: locked memory {} kB, /dev/shm {} kB", or(&self.memlock), or(&self.shm_kb))
    }
}

/// With every limit that the engine may set: one without root, or without the right to, may not raise locked memory.
fn with_most_limits(paths: &Paths, runtime: &DockerRuntime, facts: &EngineFacts) -> Result<Probed> {
    let owned = |limits: &[&str]| limits.iter().map(|limit| (*limit).to_owned()).collect::<Vec<_>>();
    let few: Vec<&str> = LIMITS.iter().copied().filter(|limit| !limit.contains("memlock")).collect();
    if !facts.rootless() {
        match ask(paths, &DockerRuntime { limits: owned(LIMITS), ..runtime.clone() }) {
            Err(error) if remedy_of(&error) == Some(Kind::Limit.remedy()) => {}
            done => return done,
        }
    }
    ask(paths, &DockerRuntime { limits: owned(&few), ..runtime.clone() })
}

fn ask(paths: &Paths, runtime: &DockerRuntime) -> Result<Probed> {
    fs_err::create_dir_all(paths.state())?;
    let dir = tempfile::tempdir_in(paths.state())?;
    let nonce = dir.path().file_name().unwrap_or_default().to_string_lossy().into_owned();
    fs_err::write(dir.path().join(SEEN), format!("{nonce}\n"))?;
    let task = Task {
        label: "probe".into(),
        program: "sh".into(),
        args: ["-c", SCRIPT, "sh", &nonce].map(String::from).to_vec(),
        env: Vec::new(),
        readable: Vec::new(),
        writable: dir.path().to_owned(),
        gpu: runtime.gpu_access != GpuAccess::None,
        deadline: Duration::from_secs(60),
        hold_stdin: false,
    };
    let ended = runtime.run(&task, &mut |_| {})?;
    if ended.code != Some(0) {
        return Err(failed(runtime, dir.path(), &ended));
    }
    arrived(runtime, dir.path(), &nonce)?;
    let value = |key: &str| {
        let line = ended.stdout.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
        line.unwrap_or_default().trim().to_owned()
    };
    let limits = runtime.limits.clone();
    Ok(Probed { limits, memlock: value("memlock"), shm_kb: value("shm_kb") })
}

fn failed(runtime: &DockerRuntime, dir: &Path, ended: &Ended) -> anyhow::Error {
    let said = refusal(ended.code, &ended.stderr, &ended.stdout);
    let code = ended.code.map_or("none in time".to_owned(), |code| code.to_string());
    let about_gpu = matches!(said.kind, Kind::GpuClosed | Kind::Driver);
    if ended.code == Some(NO_GPU) || about_gpu {
        let kind = if about_gpu { said.kind } else { Kind::GpuClosed };
        let way = runtime.gpu_access.name();
        let message = format!("{}, brought in by {way} (exit code {code}): {}", kind.means(), said.said);
        return fail(ExitCode::Environment, message, kind.remedy());
    }
    if ended.code == Some(NOT_OURS) {
        return elsewhere(dir, "does not see the files there");
    }
    let denied = |words: &str| said.said.to_lowercase().contains(words);
    if ended.code == Some(NOT_WRITABLE) || denied("permission denied") || denied("read-only file system") {
        let (uid, gid) = runtime.user;
        let message = format!(
            "a program in a container, as user {uid}:{gid}, cannot write into {} (exit code {code}): {}",
            dir.display(),
            said.said
        );
        return fail(ExitCode::Environment, message, cannot_write(dir));
    }
    let what = format!("the first program in a container failed (exit code {code})");
    fail(ExitCode::Environment, said.message(&what), said.kind.remedy())
}

/// Another folder than ours is mounted under its name.
fn elsewhere(dir: &Path, found: &str) -> anyhow::Error {
    let message = format!(
        "a program in a container has another folder than ours at {}: it {found}; the daemon is on another machine, in a \
         virtual machine, or a snap's, which has a /tmp of its own",
        dir.display()
    );
    let remedy =
        "docker context ls; echo $DOCKER_HOST; type -a docker; the daemon must run on this machine and see this folder";
    fail(ExitCode::Environment, message, remedy)
}

/// The file is here, whole, and ours: else later files would not arrive, or could not be replaced.
fn arrived(runtime: &DockerRuntime, dir: &Path, nonce: &str) -> Result<()> {
    let file = dir.join(MARK);
    let text = std::fs::read_to_string(&file).unwrap_or_default();
    if text.trim() != nonce {
        return Err(elsewhere(dir, "wrote there and succeeded, but nothing arrived"));
    }
    let owner = file.metadata().with_context(|| format!("failed to look at {}", file.display()))?.uid();
    let ours = rustix::process::geteuid().as_raw();
    if owner != ours {
        let message = format!(
            "files from a container (user {}:{}) arrive here as user {owner}'s, not ours ({ours})",
            runtime.user.0, runtime.user.1
        );
        return Err(fail(ExitCode::Environment, message, cannot_write(dir)));
    }
    Ok(())
}

fn cannot_write(dir: &Path) -> String {
    let parent = dir.parent().unwrap_or(dir).display();
    format!(
        "ls -ld {parent}; a user namespace (name=userns in docker info) or a network file system makes our user another: \
         move the checkout to a local disk, or --runtime host"
    )
}
