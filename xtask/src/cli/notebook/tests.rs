//! The commands on the made-up run: what they take from it, what they refuse, and what they leave in the results.

use super::*;
use crate::ask::status::{Number, Unknown};
use crate::ask::verify::verify;
use crate::cli::flags::{Cli, Command};
use crate::publish::publish;
use crate::steps::gate::gate;
use crate::steps::seal::Sealed;
use crate::trial::{OnDisk, RUN, Trial, copy};
use clap::Parser as _;
use host::failure::code_of;
use host::ui::Ui;

const METRIC: &str = "preempt_latency_us_p50@yield/k=64,blocks=8,poll=1,set=device";
const SAID: [&str; 4] = ["--title", "a title", "--text", "Said at length."];

/// The command line, and what it came to.
fn ask(disk: &OnDisk, words: &[&str]) -> Result<Done> {
    let cli = Cli::try_parse_from([&["xtask", "notebook"], words].concat())?;
    let Command::Notebook(ask) = cli.command else { unreachable!("it is a notebook command") };
    notebook(&Context::new(&disk.paths, &Ui::new(true), true), &ask)
}

fn said<'a>(words: &[&'a str]) -> Vec<&'a str> {
    [words, &SAID].concat()
}

#[track_caller]
fn refused(disk: &OnDisk, words: &[&str], code: ExitCode, said: &str) {
    let before = fs_err::read_to_string(disk.paths.notebook()).unwrap();
    let error = ask(disk, words).err().expect("it should be refused");
    assert_eq!(code_of(&error), code, "{error:#}");
    assert!(format!("{error:#}").contains(said), "{error:#} lacks {said:?}");
    assert_eq!(fs_err::read_to_string(disk.paths.notebook()).unwrap(), before, "nothing is written");
}

fn published() -> OnDisk {
    let disk = copy();
    let judged = gate(&disk.paths, Sealed::load(&disk.run()).unwrap(), Some(&disk.build)).unwrap();
    publish(&disk.paths, &judged.pass().unwrap(), None).unwrap();
    disk
}

fn entry(disk: &OnDisk, id: &str) -> book::Entry {
    parse(&fs_err::read_to_string(disk.paths.notebook()).unwrap()).unwrap().entry(id).unwrap().clone()
}

#[test]
fn an_emulated_run_has_no_outcome() {
    let mut trial = Trial::passing();
    trial.environment.device.id = "emulated".to_owned();
    let (disk, _) = trial.judged();
    refused(&disk, &said(&["outcome", "--run", RUN]), ExitCode::Usage, "the emulated device, which measures nothing");
}

#[test]
fn an_outcome_takes_its_values_from_a_run_that_holds_and_none_from_the_command_line() {
    let disk = copy();
    ask(&disk, &said(&["outcome", "--run", RUN, "--metric", METRIC])).unwrap();
    let entry = entry(&disk, "O-001");
    let run = OfRun::read(&Layout::Raw(disk.run())).unwrap();
    let measured = entry.fields.measured();
    assert_eq!(measured[METRIC].to_string(), run.metric(METRIC).unwrap().value);
    assert_eq!(measured["T-1"].to_string(), run.verdict.claims[0].value);
    refused(&disk, &said(&["outcome", "--run", RUN, "--claim", "H-1"]), ExitCode::Usage, "no claim H-1; it has T-1");
    refused(&disk, &said(&["outcome", "--run", RUN, "--metric", "ratio"]), ExitCode::Usage, "METRIC@PHASE/CELL");
    refused(&disk, &said(&["outcome", "--run", "../x"]), ExitCode::Usage, "is not here");
    let typed = said(&["notebook", "outcome", "--run", RUN, "--value", "T-1=1"]);
    assert!(Cli::try_parse_from([&["xtask"], &typed[..]].concat()).is_err());

    // A verdict edited by hand, which a look at the stored file alone would believe.
    let path = disk.run().join(VERDICT);
    let verdict = fs_err::read_to_string(&path).unwrap();
    let value = &run.verdict.claims[0].value;
    fs_err::write(&path, verdict.replace(&format!("\"value\": \"{value}\""), "\"value\": \"1\"")).unwrap();
    assert_ne!(fs_err::read_to_string(&path).unwrap(), verdict);
    refused(
        &disk,
        &said(&["outcome", "--run", RUN]),
        ExitCode::Integrity,
        "does not verify, so no entry is made from it",
    );
}

#[test]
fn a_retracted_run_stays_in_the_results_struck_out_and_what_rests_on_it_is_listed() {
    let disk = published();
    ask(&disk, &said(&["outcome", "--run", RUN])).unwrap();
    let before = fs_err::read_to_string(disk.root.path().join("RESULTS.md")).unwrap();
    let done = ask(&disk, &said(&["retract", "--run", RUN, "--reason", "slots were one region"])).unwrap();
    let expected = ["claim T-1", "entry O-001"];
    assert_eq!(entry(&disk, "R-001").fields.rests, expected);
    assert_eq!(done.json["rests"], json!(expected));
    assert!(expected.iter().all(|line| done.text.contains(line)), "{}", done.text);
    let after = fs_err::read_to_string(disk.root.path().join("RESULTS.md")).unwrap();
    assert!(after.contains("retracted by R-001: slots were one region"));
    let value = OfRun::read(&Layout::Raw(disk.run())).unwrap().metric(METRIC).unwrap().value.clone();
    assert!(before.contains(&format!("| {value} us |")) && !after.contains(&format!("| {value} us |")));
    assert!(after.contains("~~CONFIRMED~~"));
    assert_eq!(verify(&disk.paths, &[]).unwrap().problems, []);

    // The retraction itself withdrawn: the numbers stand again, and both entries stay.
    ask(&disk, &said(&["retract", "--about", "R-001", "--reason", "they were two regions"])).unwrap();
    let again = fs_err::read_to_string(disk.root.path().join("RESULTS.md")).unwrap();
    assert!(again.contains(&format!("| {value} us |")) && again.contains("~~entry R-001: a title~~"), "{again}");
    assert_eq!(verify(&disk.paths, &[]).unwrap().problems, []);
}

#[test]
fn one_metric_is_retracted_with_its_value_and_the_claims_made_of_it() {
    let disk = published();
    let metric = ["retract", "--run", RUN, "--metric", METRIC, "--reason", "wrong"];
    ask(&disk, &said(&metric)).unwrap();
    let entry = entry(&disk, "R-001");
    let value = OfRun::read(&Layout::Raw(disk.run())).unwrap().metric(METRIC).unwrap().value.clone();
    assert!(entry.prose.starts_with(&format!("~~{value} us ({METRIC} of run {RUN})~~: wrong.")), "{}", entry.prose);
    assert_eq!(entry.fields.measured()[METRIC].to_string(), value);
    let results = fs_err::read_to_string(disk.root.path().join("RESULTS.md")).unwrap();
    assert!(results.contains(&format!("~~{value} us~~")), "{results}");
    assert_eq!(verify(&disk.paths, &[]).unwrap().problems, []);
}

#[test]
fn a_run_that_the_notebook_bars_is_not_published() {
    let passed = |disk: &OnDisk| {
        gate(&disk.paths, Sealed::load(&disk.run()).unwrap(), Some(&disk.build)).unwrap().pass().unwrap()
    };
    for (words, reason) in [
        (["retract", "--run", RUN, "--reason", "wrong"], "entry R-001 retracts the run"),
        (["missing", "--run", RUN, "--item", "driver log"], "entry M-001 records its driver log as missing"),
    ] {
        let disk = copy();
        ask(&disk, &said(&["outcome", "--run", RUN])).unwrap();
        ask(&disk, &said(&words)).unwrap();
        let error = publish(&disk.paths, &passed(&disk), None).unwrap_err();
        assert!(code_of(&error) == ExitCode::Refused && error.to_string().contains(reason), "{error}");
        assert!(!disk.paths.manifests().join(format!("{RUN}.json")).exists());
    }
}

#[test]
fn what_is_withdrawn_must_be_one_thing_that_there_is() {
    let disk = copy();
    fn retract<'a>(words: &[&'a str]) -> Vec<&'a str> {
        said(&[&["retract", "--reason", "r"], words].concat())
    }
    for words in [&["--run", RUN, "--about", "P-001"][..], &[], &["--cited", "1 ms"], &["--metric", METRIC]] {
        let words = [&["xtask", "notebook"], &retract(words)[..]].concat();
        assert!(Cli::try_parse_from(words.clone()).is_err(), "{words:?}");
    }
    let usage = ExitCode::Usage;
    refused(&disk, &retract(&["--run", "nobody"]), usage, "neither here nor in the notebook");
    refused(&disk, &retract(&["--about", "P-009"]), usage, "it is about P-009, and there is no such earlier entry");
    refused(&disk, &retract(&["--run", RUN, "--metric", "x@y/z"]), usage, "has no \"x@y/z\"");
    refused(&disk, &retract(&["--cited", "some ms", "--source", "s"]), usage, "\"some\" is not a decimal");
    ask(&disk, &retract(&["--cited", "16.631 ms", "--source", "a log"])).unwrap();
    let results = fs_err::read_to_string(disk.root.path().join("RESULTS.md")).unwrap();
    assert!(results.contains("| ~~16.631 ms (a log)~~ | r | R-001 |"), "{results}");
}

#[test]
fn a_table_of_closed_work_is_entered_row_by_row_or_not_at_all() {
    let disk = copy();
    let row = |topic: &str, reason: &str| {
        format!(
            "[[work]]\ntopic = \"{topic}\"\nevidence = \"e\"\nreason = \"{reason}\"\npreservation = \"p\"\nreopens_when = \"w\"\n"
        )
    };
    let table = |second: &str| format!("source = \"a log\"\ntext = \"As it stands.\"\n{}{second}", row("A", "slower"));
    let file = disk.root.path().join("closed.toml").display().to_string();
    disk.put("closed.toml", &table(&row("B", " ")));
    refused(&disk, &["close", "--table", &file], ExitCode::Usage, "its field `reason` is blank");
    disk.put("closed.toml", &table(&row("B", "noise")));
    let done = ask(&disk, &["close", "--table", &file]).unwrap();
    assert_eq!(done.json["ids"], json!(["C-001", "C-002"]));
    assert_eq!(entry(&disk, "C-002").prose, "As it stands.\nSource: a log.");
    assert_eq!(entry(&disk, "C-002").fields.reason.as_deref(), Some("noise"));
    refused(&disk, &["close", "--table", "absent.toml"], ExitCode::Usage, "absent.toml");
}

#[test]
fn a_decision_speaks_of_phases_that_there_are() {
    let disk = copy();
    let authorize = |phase| said(&["authorize", "--phase", phase]);
    refused(&disk, &authorize("preempt/yeld"), ExitCode::Usage, "there is no phase \"preempt/yeld\"");
    ask(&disk, &authorize("preempt/yield")).unwrap();
    ask(&disk, &[&authorize("preempt/yield")[..], &["--reject"]].concat()).unwrap();
    assert_eq!(entry(&disk, "D-001").fields.status, book::Status::Authorized);
    assert_eq!(entry(&disk, "D-002").fields.status, book::Status::Rejected);
}

#[test]
fn a_run_is_carried_over_only_while_all_its_numbers_stand() {
    let (id, value, unit) = ("m@yield/c".to_owned(), "1".to_owned(), "us".to_owned());
    let number = |run: &str, state: State, why: &str| Number {
        id: id.clone(),
        value: value.clone(),
        unit: unit.clone(),
        run: run.to_owned(),
        state,
        why: why.to_owned(),
    };
    let numbers = vec![number(RUN, State::Current, ""), number("another", State::Stale, "kernel x")];
    let mut report = Report { numbers, ..Report::default() };
    assert_eq!(stand(RUN, &report).unwrap(), 1);
    report.numbers.push(number(RUN, State::Stale, "harness: a.rs"));
    let error = stand(RUN, &report).unwrap_err();
    assert_eq!(code_of(&error), ExitCode::Refused);
    assert!(error.to_string().contains("1 numbers of run 20260101T000000Z-test-00000000 are stale"), "{error}");
    assert!(error.to_string().ends_with("harness: a.rs"), "{error}");
    report.unknown.push(Unknown { id, value, unit, run: RUN.to_owned(), why: "no toolkit".to_owned() });
    assert_eq!(code_of(&stand(RUN, &report).unwrap_err()), ExitCode::Environment);
    let disk = copy();
    refused(&disk, &said(&["carry-over", "--run", RUN, "--reason", "r"]), ExitCode::Usage, "no published run");
}
