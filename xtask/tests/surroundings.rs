//! What this program does where its own surroundings are odd: variables that are no text, streams that nobody reads, limits of
//! the shell. Each ends with a documented exit code; nothing is half-written, and no shortage is taken for a finding.

use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

fn xtask(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
    command.args(args).current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()).stdin(Stdio::null());
    command
}

/// This program, started by a shell that sets a limit first.
fn limited(limit: &str, args: &str, dir: &Path) -> Output {
    let script = format!("ulimit {limit}; exec '{}' {args}", env!("CARGO_BIN_EXE_xtask"));
    Command::new("sh").args(["-c", &script]).current_dir(dir).stdin(Stdio::null()).output().unwrap()
}

fn stderr(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!text.contains("panicked"), "{text}");
    text
}

#[test]
fn a_variable_that_is_no_text_stops_nothing() {
    let mut command = xtask(&["doctor", "--json"]);
    let output = command.env("PROMPT", std::ffi::OsStr::from_bytes(b"caf\xe9")).output().unwrap();
    stderr(&output);
    assert!(serde_json::from_slice::<serde_json::Value>(&output.stdout).unwrap()["checks"].is_array());
}

#[test]
fn an_answer_that_cannot_be_written_is_no_success() {
    let full = || File::options().write(true).open("/dev/full").unwrap();
    let output = xtask(&["list", "--json"]).stdout(full()).output().unwrap();
    assert_eq!(output.status.code(), Some(11));
    assert!(stderr(&output).contains("cannot be written to stdout"));
    // What people read goes to stderr; that nobody hears it changes no answer.
    let output = xtask(&["list"]).stderr(full()).output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    let output = xtask(&["list", "--json", "nosuch"]).stderr(full()).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn a_limit_on_file_sizes_loses_nothing() {
    let root = tempfile::tempdir().unwrap();
    let real = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    std::fs::create_dir_all(root.path().join("harness/schema")).unwrap();
    std::fs::copy(real.join("NOTEBOOK.md"), root.path().join("NOTEBOOK.md")).unwrap();
    let before = std::fs::read(root.path().join("NOTEBOOK.md")).unwrap();
    let output = limited("-f 1", "notebook missing --title t --item x --text y", root.path());
    assert_eq!(output.status.code(), Some(11), "{}", stderr(&output));
    assert!(stderr(&output).contains("ulimit -f"), "{}", stderr(&output));
    assert_eq!(std::fs::read(root.path().join("NOTEBOOK.md")).unwrap(), before);
}

#[test]
fn too_few_open_files_accuse_nobody() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let codes = [7, 8, 9].map(|files| {
        let output = limited(&format!("-n {files}"), "verify", root);
        assert!(!stderr(&output).contains(": sums: ") && !stderr(&output).contains(": changed: "), "{files}");
        output.status.code()
    });
    assert!(codes.iter().all(|code| matches!(code, Some(0 | 11))), "{codes:?}");
    assert!(codes.contains(&Some(11)), "{codes:?}");
}
