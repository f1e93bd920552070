//! The harness on machines whose CUDA driver is missing, a stub, old or not ready: one error with what to do, and no panic.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Builds the fake driver as `name` in a folder of its own and gives that folder.
fn fake_driver(folder: &Path, name: &str, state: &str, flags: &[&str]) -> PathBuf {
    std::fs::create_dir_all(folder).unwrap();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fake_cuda/fake_cuda.c");
    let built = Command::new("cc")
        .args(["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"])
        .args(flags)
        .arg("-o")
        .arg(folder.join(name))
        .arg(source)
        .arg("-ldl")
        .status()
        .expect("cc builds the fake driver; install g++");
    assert!(built.success(), "cc refused the fake driver");
    std::fs::write(folder.join(format!("{name}.state")), state).unwrap();
    folder.to_owned()
}

fn harness(libraries: &Path, args: &[&str]) -> Output {
    let exe = env!("CARGO_BIN_EXE_harness");
    Command::new(exe).args(args).env_clear().env("LD_LIBRARY_PATH", libraries).output().unwrap()
}

/// Opens a GPU and expects exit 11, a message with all of `words`, and no word of a panic.
fn refuses(libraries: &Path, words: &[&str]) {
    let ended = harness(libraries, &["device", "--device", "cuda:0", "--cubins", "/nonexistent"]);
    let said = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(11), "{said}");
    assert!(said.starts_with("error: ") && !said.contains("panicked"), "{said}");
    for word in words {
        assert!(said.contains(word), "{word}: {said}");
    }
}

/// Whether this machine has a driver of its own, which would be found after the fakes.
fn has_driver() -> bool {
    let found = ["/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib/aarch64-linux-gnu"];
    found.iter().any(|folder| Path::new(folder).join("libcuda.so.1").exists())
}

#[test]
fn without_a_driver_library_it_says_so_and_everything_else_works() {
    let empty = tempfile::tempdir().unwrap();
    assert!(harness(empty.path(), &["--help"]).status.success());
    assert!(harness(empty.path(), &["device", "--device", "emulated"]).status.success());
    if has_driver() {
        return eprintln!("skipped: this machine has a CUDA driver");
    }
    refuses(empty.path(), &["no CUDA driver library (libcuda.so.1)", "GPU access", "--device emulated"]);
}

#[test]
fn a_file_that_is_no_library_is_not_taken_for_one() {
    if has_driver() {
        return eprintln!("skipped: this machine has a CUDA driver");
    }
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("libcuda.so.1"), "not an ELF file").unwrap();
    refuses(dir.path(), &["no CUDA driver library"]);
    assert!(harness(dir.path(), &["--help"]).status.success());
}

#[test]
fn a_stub_is_named_by_its_return_code_and_by_its_folder() {
    let dir = tempfile::tempdir().unwrap();
    refuses(
        &fake_driver(&dir.path().join("a"), "libcuda.so.1", "init 34", &[]),
        &["error 34", "stub", "LD_LIBRARY_PATH"],
    );
    // One that pretends to work lies in a folder that no driver lies in.
    refuses(
        &fake_driver(&dir.path().join("lib64/stubs"), "libcuda.so", "", &[]),
        &["/stubs/libcuda.so", "for linking only"],
    );
}

#[test]
fn each_refusal_to_initialise_says_what_to_do() {
    let dir = tempfile::tempdir().unwrap();
    for (code, words) in [
        (802, ["fabric manager", "nvidia-fabricmanager"]),
        (803, ["different versions", "reboot"]),
        (804, ["forward-compatibility", "cuda/compat"]),
        (999, ["/dev/nvidia-uvm", "nvidia_uvm"]),
        (100, ["sees no GPU", "GPU access"]),
        (304, ["operating system", "/dev/nvidia*"]),
        (12345, ["error 12345", "doctor"]),
    ] {
        let folder = dir.path().join(code.to_string());
        refuses(&fake_driver(&folder, "libcuda.so.1", &format!("init {code}"), &[]), &words);
    }
}

#[test]
fn a_driver_without_a_symbol_is_an_error_and_no_panic() {
    let dir = tempfile::tempdir().unwrap();
    refuses(&fake_driver(dir.path(), "libcuda.so.1", "", &["-DOLD"]), &["lacks cuDeviceGetCount", "newer driver"]);
}

#[test]
fn the_bindings_are_in_the_lock_file_once() {
    let lock = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../Cargo.lock")).unwrap();
    assert_eq!(lock.matches("name = \"cudarc\"").count(), 1, "two versions would ask for two drivers");
}
