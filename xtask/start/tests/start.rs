//! `doctor` is answered by the small program itself; everything else reaches the pipeline's, word for word.

use assert_cmd::Command;

fn start(cargo: &str) -> Command {
    let mut command = Command::cargo_bin("start").unwrap();
    command.env("CARGO", cargo);
    command
}

#[test]
fn doctor_needs_no_cargo() {
    let ended = start("/nonexistent").args(["doctor", "--offline", "--json"]).assert();
    let object: serde_json::Value = serde_json::from_slice(&ended.get_output().stdout).unwrap();
    assert!(object["checks"].as_array().is_some_and(|checks| checks.len() > 5), "{object}");
}

#[test]
fn any_other_command_goes_to_the_pipeline_word_for_word() {
    for words in [vec!["--json", "verify", "doctor"], vec!["--help"], vec![]] {
        let ended = start("/bin/echo").args(&words).assert().success();
        let said = String::from_utf8(ended.get_output().stdout.clone()).unwrap();
        let expected = [vec!["--package", "xtask", "--"], words].concat().join(" ");
        assert!(said.trim_end().ends_with(expected.trim_end()), "{said}");
    }
}

#[test]
fn a_missing_cargo_is_a_fault_of_the_machine() {
    let ended = start("/nonexistent").args(["list", "--json"]).assert().code(11);
    let object: serde_json::Value = serde_json::from_slice(&ended.get_output().stdout).unwrap();
    assert!(object["error"].as_str().is_some_and(|error| error.contains("/nonexistent")), "{object}");
}
