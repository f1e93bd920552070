//! Entries come back as written, and no change to an earlier one goes unseen.

use super::*;
use crate::trial::code_of;
use proptest::prelude::*;
use schema::metrics::Metric;
use schema::verdict::ClaimResult;
use std::collections::BTreeMap;

const PREAMBLE: &str = "# Notebook\n\nAppend-only.\n";

const RUN: &str = "20261129T000000Z-h200-00000000";

fn measured(value: &str) -> Measured {
    Measured::of_metric(&metric("ratio", "", value))
}

fn metric(name: &str, cell: &str, value: &str) -> Metric {
    Metric {
        run: RUN.into(),
        experiment: "preempt".into(),
        phase: "yield".into(),
        cell: cell.into(),
        metric: name.into(),
        unit: "1".into(),
        value: value.into(),
        lo: String::new(),
        hi: String::new(),
        n: 1,
        note: String::new(),
    }
}

fn new_entry(id: &str, fields: Fields) -> NewEntry {
    NewEntry {
        date: "2026-11-29".into(),
        id: id.into(),
        title: format!("about {id}"),
        prose: "One sentence.\n\nAnother: with `code`.".into(),
        fields,
    }
}

/// The entry that these flags make.
fn made(text: &str, kind: Kind, flags: &[(&'static str, &str)]) -> anyhow::Result<NewEntry> {
    let mut given = Flags::from([("title", vec!["a title".to_owned()]), ("text", vec!["Said at length.".to_owned()])]);
    for (name, _) in flags {
        given.insert(name, flags.iter().filter(|(other, _)| other == name).map(|(_, v)| (*v).to_owned()).collect());
    }
    NewEntry::of(&parse(text).unwrap(), kind.row(), "2026-11-30".into(), &given)
}

/// The text with this entry, which must stand.
fn with(text: &str, kind: Kind, flags: &[(&'static str, &str)]) -> String {
    append(text, made(text, kind, flags).unwrap()).unwrap()
}

fn prediction() -> Fields {
    made(PREAMBLE, Kind::Prediction, &[("claim", "H-RATIO"), ("value", "ratio=45")]).unwrap().fields
}

/// Fields of an entry with this one value.
fn valued(kind: Kind, name: &str, value: &str) -> Fields {
    let mut fields = Fields::new(Kind::Outcome, Status::ResearchRetained);
    fields.measure([(name.to_owned(), measured(value))]);
    Fields { kind, ..fields }
}

fn outcome() -> Fields {
    let (run, about) = (Some(RUN.to_owned()), Some("P-001".to_owned()));
    Fields { run, about, ..valued(Kind::Outcome, "ratio", "48.148") }
}

fn example() -> String {
    let text = append(PREAMBLE, new_entry("P-001", prediction())).unwrap();
    let text = append(&text, new_entry("O-001", outcome())).unwrap();
    append(&text, new_entry("F-001", Fields::new(Kind::Fault, Status::Invalid))).unwrap()
}

fn error(text: &str) -> String {
    let error = parse(text).expect_err(text);
    assert_eq!(code_of(&error), ExitCode::Integrity);
    error.to_string()
}

#[test]
fn entries_come_back_as_appended() {
    let text = example();
    insta::assert_snapshot!(text);
    let notebook = parse(&text).unwrap();
    let ids: Vec<&str> = notebook.entries.iter().map(|entry| entry.id.as_str()).collect();
    assert_eq!(ids, ["P-001", "O-001", "F-001"]);
    assert_eq!(notebook.entries[0].fields, prediction());
    assert_eq!(notebook.entries[1].fields, outcome());
    assert_eq!(notebook.entries[1].prose, "One sentence.\n\nAnother: with `code`.");
    assert_eq!(notebook.head, notebook.entries[2].chain);
}

#[test]
fn a_chain_line_is_the_digest_of_all_bytes_before_it() {
    let text = example();
    let at = text.rfind("chain: ").unwrap();
    assert_eq!(parse(&text).unwrap().head, Digest::of(&text[..at]));
    assert_eq!(parse(PREAMBLE).unwrap().head, Digest::of(PREAMBLE));
}

#[test]
fn a_changed_byte_anywhere_is_found() {
    let text = example();
    for i in 0..text.len() {
        let mut bytes = text.clone().into_bytes();
        bytes[i] ^= 1;
        let changed = String::from_utf8(bytes).unwrap();
        assert!(parse(&changed).is_err(), "byte {i}: {:?} to {:?}", &text[i..=i], &changed[i..=i]);
    }
}

#[test]
fn the_error_names_the_entry_and_the_line() {
    let text = example().replacen("One sentence.", "Two sentences.", 1);
    let message = error(&text);
    assert!(message.starts_with("NOTEBOOK.md line 20, entry P-001: the chain is broken"), "{message}");
}

#[test]
fn truncation_is_found_inside_an_entry_and_by_the_head_between_entries() {
    let text = example();
    let whole = parse(&text).unwrap();
    let mut boundaries = 0;
    for end in PREAMBLE.len() + 2..text.len() {
        if let Ok(cut) = parse(&text[..end]) {
            assert!(!cut.extends(&whole.head) && whole.extends(&cut.head), "cut at {end}");
            boundaries += 1;
        }
    }
    // Behind each of the first two chain lines, and behind the blank line that follows it.
    assert_eq!(boundaries, 4);
}

#[test]
fn reordered_dropped_and_inserted_entries_are_found() {
    let text = example();
    let starts: Vec<usize> = text.match_indices("\n## ").map(|(i, _)| i).collect();
    let (preamble, first) = (&text[..starts[0]], &text[starts[0]..starts[1]]);
    let (second, third) = (&text[starts[1]..starts[2]], &text[starts[2]..]);
    for parts in [[second, first, third], [first, third, second], [first, "", third], [first, first, second]] {
        error(&format!("{preamble}{}", parts.concat()));
    }
}

#[test]
fn what_is_not_an_entry_is_refused() {
    let check = |text: &str, expected: &str| {
        let message = error(text);
        assert!(message.contains(expected), "{message:?} lacks {expected:?}");
    };
    check("## 2026-11-29 P-001: t\n", "the file ends before a fenced toml block");
    check("## 2026-11-29 P-001: t\n## 2026-11-29 P-002: t\n", "where a fenced toml block was expected");
    check("## yesterday P-001: t\n", "is not a date");
    check("## 2026-11-29 P 1: t\n", "is not an id");
    check("## 2026-11-29: t\n", "is not `YYYY-MM-DD ID: title`");
    check("chain: 00\n", "a chain line without an entry");
    check("# Notebook", "cut off");
    let block = |toml: &str| format!("## 2026-11-29 P-001: t\n```toml\n{toml}\n```\n");
    check(&block("kind = \"guess\"\nstatus = \"proposed\""), "its toml block");
    check(&block("kind = \"fault\"\nstatus = \"invalid\"\ncolour = 1"), "its toml block");
    check(&block("kind = \"fault\"\nstatus = \"invalid\"\nabout = \"P-009\""), "no such earlier entry");
    check(&block("kind = \"fault\"\nstatus = \"invalid\""), "ends before its chain line");
    check(&format!("{}text\n", example()), "text between");
}

#[test]
fn an_entry_that_could_not_stand_is_not_appended() {
    let check = |entry: NewEntry, expected: &str| {
        let error = append(&example(), entry).unwrap_err();
        assert_eq!(code_of(&error), ExitCode::Usage);
        assert!(error.to_string().contains(expected), "{error} lacks {expected:?}");
    };
    let good = || new_entry("P-002", prediction());
    check(new_entry("P-001", prediction()), "the id is taken; P-002 is free");
    check(NewEntry { prose: "```\ncode\n```".into(), ..good() }, "where a fenced toml block");
    check(NewEntry { prose: "chain: 0".into(), ..good() }, "where a fenced toml block");
    check(NewEntry { title: "two\nlines".into(), ..good() }, "read back");
    check(NewEntry { date: "today".into(), ..good() }, "not a date");
    check(new_entry("P-002", valued(Kind::Prediction, "x", "about 9")), "not a decimal");
    let of_kind = |kind, change: fn(&mut Fields)| {
        let mut fields = Fields::new(kind, Status::ResearchRetained);
        change(&mut fields);
        new_entry("P-002", fields)
    };
    let text = || Some("x".to_owned());
    check(of_kind(Kind::Outcome, |_| ()), "an outcome must have the field `run`");
    check(of_kind(Kind::Amendment, |_| ()), "an amendment must have the field `about`");
    check(of_kind(Kind::Retraction, |_| ()), "a retraction must have the field `reason`");
    check(of_kind(Kind::Closed, |_| ()), "closed work must have the field `topic`");
    check(of_kind(Kind::Missing, |_| ()), "missing provenance must have the field `item`");
    check(of_kind(Kind::CarryOver, |_| ()), "a carry-over must have the field `run`");
    check(of_kind(Kind::Decision, |_| ()), "a decision must have the field `phases`");
    check(of_kind(Kind::Decision, |f| f.phases = vec!["a/b".into()]), "must be authorized or rejected");
    check(of_kind(Kind::Fault, |f| f.informed = true), "a fault cannot have the field `informed`");
    check(of_kind(Kind::Fault, |f| f.about = Some(" ".into())), "its field `about` is blank");
    check(new_entry("P-002", valued(Kind::Fault, "x", "9")), "a fault cannot have the field `values`");
    let retraction = |change: fn(&mut Fields)| {
        let plain = Fields::new(Kind::Retraction, Status::Retracted);
        let mut fields = Fields { reason: text(), about: Some("P-001".into()), ..plain };
        change(&mut fields);
        new_entry("R-001", fields)
    };
    append(&example(), retraction(|_| ())).unwrap();
    check(retraction(|f| f.about = None), "exactly one thing");
    check(retraction(|f| f.run = Some(RUN.into())), "exactly one thing");
    check(retraction(|f| f.about = Some("P-009".into())), "no such earlier entry");
    check(retraction(|f| f.metric = Some("a@b/c".into())), "with a metric must name its run");
    check(retraction(|f| f.status = Status::Proposed), "must be retracted");
    check(retraction(|f| f.measure([("x".to_owned(), measured("9"))])), "measured values must name their run");
    let cited =
        |value: &str, unit: &str| Some(Cited { value: value.into(), unit: unit.into(), source: "a log".into() });
    check(
        NewEntry {
            fields: Fields { about: None, cited: cited("about 16", "ms"), ..retraction(|_| ()).fields },
            ..good()
        },
        "decimal",
    );
    check(
        NewEntry { fields: Fields { about: None, cited: cited("16", ""), ..retraction(|_| ()).fields }, ..good() },
        "unit",
    );
    assert!(append(&example().replace("Append", "Prepend"), good()).is_err());
}

#[test]
fn a_projection_is_never_a_measurement() {
    assert!(prediction().measured().is_empty() && std::panic::catch_unwind(|| prediction().measure([])).is_err());
    assert_eq!(outcome().measured()["ratio"].to_string(), "48.148");
}

#[test]
fn ids_count_up_by_kind() {
    let notebook = parse(&example()).unwrap();
    assert_eq!(notebook.next_id(Kind::Prediction), "P-002");
    assert_eq!(notebook.next_id(Kind::Retraction), "R-001");
}

#[test]
fn the_tree_s_own_notebook_holds() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../NOTEBOOK.md");
    let Ok(text) = std::fs::read_to_string(path) else {
        eprintln!("skipped: {path} is not there");
        return;
    };
    assert!(!parse(&text).unwrap().entries.is_empty());
}

proptest! {
    #[test]
    fn no_text_panics_and_what_is_appended_is_read(prose in "[ -~\n]{0,80}", title in "[ -~]{1,20}") {
        let entry = NewEntry { prose: prose.clone(), title, ..new_entry("P-001", prediction()) };
        if let Ok(text) = append(PREAMBLE, entry) {
            prop_assert_eq!(&parse(&text).unwrap().entries[0].prose, prose.trim());
        }
        let _ = parse(&format!("## 2026-11-29 P-001: {prose}"));
    }
}

#[test]
fn predictions_and_outcomes_are_composed_and_appended() {
    let text = example();
    let flags = [("claim", "H-RATIO"), ("value", "ratio=40"), ("informed", "")];
    let text = with(&text, Kind::Prediction, &flags);
    use schema::claim::Outcome::{Confirmed, Inconclusive, Invalid};
    let results = [result("H-LATENCY", Confirmed, "9.5"), result("N1", Inconclusive, "")];
    let text = append(&text, outcome_of(&text, &results)).unwrap();
    let notebook = parse(&text).unwrap();
    let (predicted, came) = (notebook.entry("P-002").unwrap(), notebook.entry("O-002").unwrap());
    assert!(predicted.fields.informed && text.contains("[values]\nratio = \"40\""));
    assert_eq!(came.fields.status, Status::ResearchRetained);
    assert_eq!(came.fields.measured().keys().collect::<Vec<_>>(), [&"H-LATENCY", &"ratio@yield/k=64"]);
    let said = "Said at length.\n\nH-LATENCY is CONFIRMED against <= 25 us: latency: 95 % interval 9.400 to 9.700 holds <= 25.\nN1 is";
    assert!(came.prose.starts_with(said), "{}", came.prose);
    assert_eq!(outcome_of(&text, &[result("N1", Invalid, "")]).fields.status, Status::Invalid);
    for (value, words) in [("ratio", "is not NAME=DECIMAL"), ("ratio=fast", "value ratio: \"fast\" is not a decimal")] {
        let error = made(&text, Kind::Prediction, &[("value", value)]).unwrap_err();
        assert!(code_of(&error) == ExitCode::Usage && error.to_string().contains(words), "{error}");
    }
}

fn result(id: &str, outcome: schema::claim::Outcome, value: &str) -> ClaimResult {
    ClaimResult {
        id: id.into(),
        outcome,
        value: value.into(),
        unit: "us".into(),
        threshold: "<= 25".into(),
        why: "latency: 95 % interval 9.400 to 9.700 holds <= 25".into(),
    }
}

fn outcome_of(text: &str, results: &[ClaimResult]) -> NewEntry {
    let mut entry = made(text, Kind::Outcome, &[("run", "20261130T000000Z-h200-00000000")]).unwrap();
    entry.tell(results, BTreeMap::from([("ratio@yield/k=64".to_owned(), measured("31"))]));
    entry
}

#[test]
fn a_retraction_keeps_the_number_and_says_why_and_what_rests_on_it() {
    let retracted = |flags: &[(&'static str, &str)], metric: Option<&Metric>, rests: &[&str]| {
        let flags = [flags, &[("reason", "slots were one region")]].concat();
        let mut entry = made(&example(), Kind::Retraction, &flags).unwrap();
        let lines = rests.iter().map(|line| (*line).to_owned()).collect();
        entry.strike(metric, rests::Resting { claims: vec!["H-RATIO".to_owned()], lines });
        append(&example(), entry).unwrap()
    };
    let cited = retracted(&[("cited", "16.631 ms"), ("source", "a log of 2026-08-26")], None, &[]);
    insta::assert_snapshot!(cited.strip_prefix(&example()).unwrap());
    let (name, value) = ("ratio@yield/k=64", metric("ratio", "k=64", "48.148"));
    let text = retracted(&[("run", RUN), ("metric", name)], Some(&value), &["claim H-RATIO", "entry O-001"]);
    insta::assert_snapshot!(text.strip_prefix(&example()).unwrap());
    let notebook = parse(&text).unwrap();
    assert_eq!(notebook.entry("R-001").unwrap().fields.measured()[name].to_string(), "48.148");
    let text = retracted(&[("about", "P-001")], None, &[]);
    let notebook = parse(&text).unwrap();
    assert_eq!(notebook.retraction_of("P-001").unwrap().id, "R-001");
    assert!(notebook.standing_of(Kind::Prediction).next().is_none() && notebook.entry("P-001").is_some());
    let of = |text: &str, id: &str| with(text, Kind::Retraction, &[("about", id), ("reason", "r")]);
    let stands = |text: &str| parse(text).unwrap().retraction_of("P-001").is_none();
    let withdrawn = of(&text, "R-001");
    assert!(stands(&withdrawn) && !stands(&of(&withdrawn, "R-002")));
    let cited = made(&text, Kind::Retraction, &[("cited", "some ms"), ("source", "s"), ("reason", "r")]).unwrap();
    let error = append(&text, cited).unwrap_err().to_string();
    assert!(error.contains("the cited value: \"some\" is not a decimal"), "{error}");
}

#[test]
fn every_kind_has_a_command_that_makes_an_entry_which_stands() {
    let mut text = example();
    let closed = [
        ("topic", "early prefetch"),
        ("evidence", "a log"),
        ("reason", "slower"),
        ("preserve", "not stated"),
        ("reopens-when", "only with another pipeline"),
    ];
    let makers: [(Kind, &[(&'static str, &str)]); 7] = [
        (Kind::Fault, &[("run", RUN), ("about", "P-001"), ("claim", "H-RATIO"), ("claim", "N1")]),
        (Kind::Amendment, &[("about", "P-001")]),
        (Kind::Decision, &[("phase", "preempt/yield")]),
        (Kind::Decision, &[("phase", "preempt/yield"), ("reject", "")]),
        (Kind::Closed, &closed),
        (Kind::Missing, &[("item", "canonical inputs")]),
        (Kind::CarryOver, &[("run", RUN), ("reason", "comments only")]),
    ];
    for (kind, flags) in makers {
        text = with(&text, kind, flags);
    }
    let entries: Vec<Entry> = parse(&text).unwrap().entries.into_iter().skip(3).collect();
    let ids: Vec<&str> = entries.iter().map(|entry| entry.id.as_str()).collect();
    assert_eq!(ids, ["F-002", "A-001", "D-001", "D-002", "C-001", "M-001", "K-001"]);
    assert_eq!(entries[0].fields.claims, ["H-RATIO", "N1"]);
    assert_eq!((entries[2].fields.status, entries[3].fields.status), (Status::Authorized, Status::Rejected));
}

/// A row that names a field which does not exist would make a command that can write nothing.
#[test]
fn the_table_of_kinds_names_fields_that_there_are() {
    for row in kinds::KINDS.iter() {
        assert!(std::ptr::eq(row.kind.row(), row), "{} has two rows", row.command);
        let flags = row.flags.iter().filter(|flag| !["value", "informed"].contains(&flag.name.as_str()));
        let given: Vec<(&str, &str)> = flags.map(|flag| (flag.name.as_str(), "x")).collect();
        made(PREAMBLE, row.kind, &given[..]).unwrap();
    }
}

#[test]
fn rows_of_closed_work_are_read_as_they_stand_and_a_table_that_is_none_is_named() {
    const ROW: &str = "[[work]]\ntopic = \"Early prefetch\"\nevidence = \"e\"\nreason = \"r\"\npreservation = \"p\"\nreopens_when = \"w\"\n";
    let head = "source = \"a log.\"\ntext = \"All rows.\"\n";
    let rows = closed_work("t.toml", &format!("{head}{ROW}")).unwrap();
    assert_eq!((rows.len(), rows[0]["topic"][0].as_str()), (1, "Early prefetch"));
    assert_eq!((rows[0]["preserve"][0].as_str(), rows[0]["text"][0].as_str()), ("p", "All rows.\nSource: a log."));
    for (text, words) in [
        (head.to_owned(), "missing field `work`"),
        (format!("{head}work = []"), "it has no rows"),
        (format!("{head}{ROW}{}", ROW.replace("Early ", "early  ")), "twice"),
        (format!("{head}{ROW}{}", ROW.replace("Early", "Late") + "colour = \"red\"\n"), "colour"),
    ] {
        let error = closed_work("t.toml", &text).unwrap_err();
        assert_eq!(code_of(&error), ExitCode::Usage);
        assert!(error.to_string().contains(words) && error.to_string().starts_with("t.toml: "), "{error}");
    }
}

#[test]
fn refused_runs_that_came_earlier_and_share_a_claim_are_counted() {
    use schema::claim::Outcome::{Confirmed, Invalid};
    let told = |text: &str, run: &str, outcome, claim: &str| {
        let mut entry = made(text, Kind::Outcome, &[("run", run)]).unwrap();
        entry.tell(&[result(claim, outcome, "1")], BTreeMap::new());
        append(text, entry).unwrap()
    };
    let mut text = told(PREAMBLE, "20260101T000000Z-h200-00000000", Invalid, "A");
    text = told(&text, "20260102T000000Z-h200-00000000", Confirmed, "A");
    text = told(&text, "20260103T000000Z-h200-00000000", Invalid, "B");
    text = told(&text, "20260104T000000Z-a10-00000000", Invalid, "A");
    text = told(&text, "20260104T000000Z-a10-00000000", Invalid, "A");
    text = told(&text, "20260109T000000Z-h200-00000000", Invalid, "A");
    let notebook = parse(&text).unwrap();
    let refused =
        |claims: &[&str], known: &[&str]| notebook.refused_before("20260105T000000Z-h200-00000000", claims, known);
    assert_eq!(refused(&["A"], &[]), ["O-001", "O-004"]);
    assert_eq!(refused(&["A", "B"], &[]), ["O-001", "O-003", "O-004"]);
    assert_eq!(refused(&["A"], &["20260101T000000Z-h200-00000000"]), ["O-004"]);
    assert!(refused(&["C"], &[]).is_empty());
}
