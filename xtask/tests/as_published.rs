//! `verify --as-published`: a run under older rules is judged by the program of the commit that published it, in a worktree that
//! is gone afterwards. A stand-in for cargo says what that program would say, so nothing is built here.

mod checkout;

use checkout::{Checkout, program};
use serde_json::Value;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

const RUN: &str = "20261129T211505Z-h200-2d96edb2";
/// The commit that published it.
const PUBLISHED: &str = "92b823c526dc9287624e4dbea66685f40307ad74";

/// `verify --as-published`, with this script for cargo.
fn verify(checkout: &Checkout, script: &str) -> Command {
    let stand_in = checkout.path("target/stand-in/cargo");
    std::fs::create_dir_all(stand_in.parent().unwrap()).unwrap();
    std::fs::write(&stand_in, format!("#!/bin/sh\n{script}\n")).unwrap();
    std::fs::set_permissions(&stand_in, std::fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = program(&checkout.path(""), &["verify", RUN, "--as-published", "--json"]);
    let path = format!("{}:{}", stand_in.parent().unwrap().display(), std::env::var("PATH").unwrap());
    command.env("PATH", path).env("RUSTUP_TOOLCHAIN", "of-this-tree").stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Expects that no worktree is left, and none that git remembers.
fn nothing_is_left(checkout: &Checkout) {
    let left: Vec<_> = std::fs::read_dir(checkout.path("target/assay/as-published")).unwrap().flatten().collect();
    assert!(left.is_empty(), "{left:?}");
    let listed = Command::new("git").args(["worktree", "list"]).current_dir(checkout.path("")).output().unwrap();
    assert_eq!(String::from_utf8(listed.stdout).unwrap().lines().count(), 1);
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn an_older_run_is_judged_by_the_program_of_its_own_tree_and_nothing_is_left() {
    let checkout = Checkout::bare();
    let told = format!(
        "echo \"$@\" $(git rev-parse HEAD) $CARGO_TARGET_DIR $RUSTUP_TOOLCHAIN > {}
         echo '{{\"ok\":true,\"problems\":[],\"runs\":[{{\"run\":\"{RUN}\",\"passed\":true}}],\"more\":1}}'",
        checkout.path("target/asked").display()
    );
    let output = verify(&checkout, &told).output().unwrap();
    let report = json(&output);
    assert_eq!(
        (output.status.code(), &report["ok"], &report["level"]),
        (Some(0), &true.into(), &"L2".into()),
        "{report}"
    );
    let run = &report["runs"][0];
    assert_eq!(
        (&run["rules"], &run["passed"], &run["recomputed"]),
        (&1.into(), &true.into(), &true.into()),
        "{report}"
    );
    let asked = std::fs::read_to_string(checkout.path("target/asked")).unwrap();
    let build = checkout.path("target/assay/as-published/build");
    assert_eq!(asked.trim(), format!("xtask verify {RUN} --json {PUBLISHED} {}", build.display()));
    nothing_is_left(&checkout);

    let refused = r#"echo '{"ok":false,"problems":[{"path":"a.json","kind":"verdict","detail":"gate clocks"}],"runs":[]}'; exit 16"#;
    let output = verify(&checkout, refused).output().unwrap();
    let report = json(&output);
    assert_eq!((output.status.code(), &report["ok"]), (Some(16), &false.into()));
    assert_eq!(report["problems"][0]["detail"], format!("the program of commit {PUBLISHED} says: gate clocks"));
    nothing_is_left(&checkout);

    let output = verify(&checkout, "echo error: no such edition >&2; exit 101").output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(11), "{said}");
    assert!(
        said.contains("exit code 101): error: no such edition") && said.contains("try: git worktree add"),
        "{said}"
    );
    nothing_is_left(&checkout);

    let begun = checkout.path("target/begun");
    let child = verify(&checkout, &format!("touch {}; sleep 600", begun.display())).spawn().unwrap();
    let until = Instant::now() + Duration::from_secs(300);
    while !begun.exists() && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(50));
    }
    let signal = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(signal.success());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", String::from_utf8_lossy(&output.stderr));
    nothing_is_left(&checkout);
}
