//! What a base has: asked once in a container of it, then remembered by its id.

use super::find::Base;
use crate::choose::Machine;
use crate::hostenv;
use crate::toolkit::release_line;
use anyhow::Result;
use host::cache;
use host::container::{DockerRuntime, Runtime, Task, last};
use host::failure::{Denied, fail};
use host::paths::Paths;
use host::process::Child;
use schema::ExitCode;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What a base has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BaseFacts {
    /// Its PATH.
    pub path: String,
    /// Its CUDA compiler.
    pub nvcc: Option<PathBuf>,
    /// That compiler's version line; empty without one.
    pub nvcc_version: String,
    /// Its compute-sanitizer.
    pub sanitizer: Option<PathBuf>,
    /// Its host compiler.
    pub cxx: Option<PathBuf>,
    /// Its Rust.
    pub sysroot: Option<PathBuf>,
}

/// Prints one `key=value` a line; a tool that is not there has an empty value.
const QUESTIONS: &str = r#"
echo "path=$PATH"
nvcc=$(command -v nvcc || ls /usr/local/cuda/bin/nvcc 2>/dev/null)
sanitizer=$(command -v compute-sanitizer || ls /usr/local/cuda/bin/compute-sanitizer 2>/dev/null)
echo "nvcc=$(readlink -f "$nvcc")"
echo "sanitizer=$(readlink -f "$sanitizer")"
echo "cxx=$(command -v g++)"
echo "sysroot=$(rustc --print sysroot 2>/dev/null)"
[ -z "$nvcc" ] || "$nvcc" --version
true
"#;

/// The facts of a base.
pub(super) fn of_base(paths: &Paths, plain: &DockerRuntime, base: &Base) -> Result<BaseFacts, Denied> {
    let dir = paths.state().join("bases");
    let id = base.id.to_string();
    let file = dir.join(format!("{}.json", id.trim_start_matches("sha256:")));
    let key = cache::key(&[("base", id), ("asked", QUESTIONS.to_owned())]);
    Ok(cache::answer_in(&file, key, || ask(&dir, plain, base)).map_err(Denied::of)?.0)
}

fn ask(dir: &Path, plain: &DockerRuntime, base: &Base) -> Result<BaseFacts> {
    fs_err::create_dir_all(dir)?;
    let task = Task {
        label: "base".into(),
        program: "sh".into(),
        args: vec!["-c".into(), QUESTIONS.into()],
        env: Vec::new(),
        readable: Vec::new(),
        writable: dir.to_owned(),
        gpu: false,
        deadline: Duration::from_secs(60),
        hold_stdin: false,
    };
    let ended = plain.run(&task, &mut |_| {})?;
    match ended.code {
        Some(0) => Ok(read(&ended.stdout)),
        _ => Err(fail(
            ExitCode::Environment,
            format!("the base {} runs no shell: {}", base.reference, last(&ended.stderr)),
            "take another --base",
        )),
    }
}

fn read(text: &str) -> BaseFacts {
    let value = |key: &str| text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('=')).unwrap_or_default();
    let path = |key: &str| Some(value(key)).filter(|path| path.starts_with('/')).map(PathBuf::from);
    BaseFacts {
        path: value("path").into(),
        nvcc: path("nvcc"),
        nvcc_version: release_line(text).unwrap_or_default(),
        sanitizer: path("sanitizer"),
        cxx: path("cxx"),
        sysroot: path("sysroot"),
    }
}

/// This machine's Rust, for a base that has none.
pub(crate) fn host_sysroot(machine: &Machine, paths: &Paths) -> Option<PathBuf> {
    let child = Child {
        program: "rustc".into(),
        args: vec!["--print".into(), "sysroot".into()],
        env: hostenv::for_programs(machine, Path::new("/usr")),
        dir: paths.root().to_owned(),
        deadline: Duration::from_secs(20),
        hold_stdin: false,
    };
    let ended = child.run(&mut |_| {}).ok()?;
    let sysroot = PathBuf::from(ended.stdout.trim());
    (ended.code == Some(0) && sysroot.join("bin/cargo").is_file()).then_some(sysroot)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read_and_what_is_not_there_is_absent() {
        let facts = read("path=/usr/bin:/bin\nnvcc=\nsanitizer=\ncxx=/usr/bin/g++\nsysroot=/usr/local\n");
        assert_eq!((facts.nvcc, facts.cxx), (None, Some("/usr/bin/g++".into())));
        assert_eq!(facts.sysroot, Some("/usr/local".into()));
        // Synthetic paths; the version line is that of nvcc 13.0.88.
        let text =
            "path=/x\nnvcc=/usr/local/cuda-13.0/bin/nvcc\ncxx=\nCuda compilation tools, release 13.0, V13.0.88\n";
        let facts = read(text);
        assert_eq!(facts.nvcc, Some("/usr/local/cuda-13.0/bin/nvcc".into()));
        assert!(facts.nvcc_version.ends_with("V13.0.88"));
    }
}
