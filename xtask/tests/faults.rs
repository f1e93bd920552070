//! The table of faults that Assay answers: `faults/*.toml` is well-formed and names tests that exist, and `FAULTS.md` shows it,
//! one short line a fault. Whether an answer holds, the named tests show.
//!
//! `INSTA_UPDATE=always cargo test -p xtask --test faults` writes `FAULTS.md` anew.

use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Public cases: faults that people met with containers, drivers, clocks, compilers, sanitizers and digests.
const PUBLIC: [u32; 74] = [
    1, 2, 3, 5, 6, 8, 9, 11, 12, 14, 15, 16, 18, 19, 20, 22, 23, 24, 25, 26, 27, 29, 30, 32, 33, 35, 36, 37, 39, 40,
    42, 44, 45, 46, 49, 50, 51, 53, 55, 57, 58, 59, 61, 63, 64, 65, 67, 68, 70, 71, 72, 74, 75, 76, 78, 79, 81, 84, 85,
    86, 87, 89, 90, 91, 92, 94, 95, 97, 100, 101, 103, 104, 106, 108,
];
/// Classes of faults that the audit of an earlier GPU experiment recorded, and a fresh look at our own published runs.
const AUDIT: u32 = 22;
/// A fault and its answer fit a short line each.
const MOST_BYTES: usize = 92;
const FIXTURES: [&str; 3] = ["captured", "synthetic", "none"];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    case: Vec<Case>,
}

/// A fault and what answers it.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    id: String,
    /// What goes wrong, in a few plain words, where `what` is longer than a short line.
    title: Option<String>,
    what: String,
    source: String,
    answer: String,
    /// The answer in a few words.
    brief: String,
    tests: Vec<String>,
    fixture: String,
}

impl Case {
    fn title(&self) -> &str {
        self.title.as_ref().unwrap_or(&self.what)
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

fn cases() -> Vec<Case> {
    let mut files: Vec<PathBuf> =
        fs_err::read_dir(root().join("xtask/faults")).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|end| end == "toml"));
    files.sort();
    let read = |path: &PathBuf| -> Vec<Case> {
        let text = fs_err::read_to_string(path).unwrap();
        toml::from_str::<File>(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display())).case
    };
    let mut cases: Vec<Case> = files.iter().flat_map(read).collect();
    cases.sort_by_key(|case| place(&case.id));
    cases
}

/// Public cases first, each kind by number.
fn place(id: &str) -> (bool, u32) {
    (id.starts_with('A'), id.get(1..).and_then(|n| n.parse().ok()).unwrap_or(u32::MAX))
}

fn expected() -> BTreeSet<String> {
    let public = PUBLIC.iter().map(|n| format!("B{n:02}"));
    public.chain((1..=AUDIT).map(|n| format!("A{n:02}"))).collect()
}

/// What is wrong with the entries; `source_of` gives a file's text, or nothing when there is no such file.
fn faults_of(cases: &[Case], source_of: impl Fn(&str) -> Option<String>) -> Vec<String> {
    let (expected, mut seen, mut faults) = (expected(), BTreeSet::new(), Vec::new());
    for case in cases {
        let Case { id, title: _, what, source, answer, brief, tests, fixture } = case;
        if !expected.contains(id) {
            faults.push(format!("{id} is no case"));
        }
        if !seen.insert(id) {
            faults.push(format!("{id} stands twice"));
        }
        if [what, source, answer].iter().any(|text| text.trim().is_empty() || text.contains(['\n', '|'])) {
            faults.push(format!("{id}: what, source and answer are one line each, without a bar"));
        }
        if [case.title(), brief].iter().any(|text| text.trim().is_empty() || text.len() > MOST_BYTES) {
            faults.push(format!("{id}: title and brief have at most {MOST_BYTES} bytes"));
        }
        if !FIXTURES.contains(&fixture.as_str()) {
            faults.push(format!("{id}: the fixture {fixture:?} is none of {FIXTURES:?}"));
        }
        if tests.is_empty() {
            faults.push(format!("{id} names no test"));
        }
        faults.extend(tests.iter().filter_map(|test| missing(test, &source_of)).map(|why| format!("{id}: {why}")));
    }
    faults
}

/// Why a named test cannot be run; absent when it can.
fn missing(test: &str, source_of: impl Fn(&str) -> Option<String>) -> Option<String> {
    let Some((file, name)) = test.split_once("::").map(|(file, rest)| (file, rest.rsplit("::").next().unwrap_or(rest)))
    else {
        return Some(format!("{test} is not FILE::TEST"));
    };
    let Some(text) = source_of(file) else { return Some(format!("{file} does not exist")) };
    (!has_test(&text, name)).then(|| format!("{file} has no test {name}"))
}

/// Whether a source has a test function of that name: an attribute `#[test]` stands above it.
fn has_test(text: &str, name: &str) -> bool {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let declared = format!("fn {name}(");
    lines.iter().enumerate().filter(|(_, line)| line.starts_with(&declared)).any(|(at, _)| {
        let above = lines[..at].iter().rev().take_while(|line| line.starts_with("#[") || line.starts_with("//"));
        above.into_iter().any(|line| *line == "#[test]")
    })
}

fn render(cases: &[Case]) -> String {
    let mut text = "# Faults and their answers

What goes wrong on GPU machines, and what Assay does about it.
Each line links to a test that fails when the answer is removed.
The whole answers, all tests, and where each fault was met are in [xtask/faults](xtask/faults), from which this page is rendered: `INSTA_UPDATE=always cargo test -p xtask --test faults`.
"
    .to_owned();
    for (kind, title) in [
        ('B', "Met in public, with containers, drivers, clocks, compilers, sanitizers and digests"),
        ('A', "Recorded by the audit of an earlier GPU experiment"),
    ] {
        text += &format!("\n## {title}\n\n");
        for case in cases.iter().filter(|case| case.id.starts_with(kind)) {
            let file = case.tests.first().and_then(|test| test.split_once("::")).map_or("", |(file, _)| file);
            text += &format!("- **{}** {}: [{}]({file})\n", case.id, case.title(), case.brief);
        }
    }
    text
}

#[test]
fn entries_are_well_formed_and_their_tests_exist() {
    let read = |file: &str| fs_err::read_to_string(root().join(file)).ok();
    assert_eq!(faults_of(&cases(), read), Vec::<String>::new());
}

#[test]
fn every_fault_is_in_the_table() {
    let found: BTreeSet<String> = cases().into_iter().map(|case| case.id).collect();
    let expected = expected();
    let missing: Vec<&String> = expected.difference(&found).collect();
    assert!(missing.is_empty(), "no entry for {missing:?}");
}

#[test]
fn the_page_is_the_rendering_of_the_table() {
    let (page, rendered) = (root().join("FAULTS.md"), render(&cases()));
    if std::env::var("INSTA_UPDATE").is_ok_and(|update| update == "always") {
        fs_err::write(&page, &rendered).unwrap();
    }
    let update = "INSTA_UPDATE=always cargo test -p xtask --test faults";
    assert!(fs_err::read_to_string(&page).unwrap() == rendered, "FAULTS.md is not the rendering: {update}");
}

#[test]
fn a_bad_entry_is_found() {
    let source = "#[test]\n#[cfg(unix)]\n// Why.\nfn real() {}\nfn helper() {}\n";
    let source_of = |file: &str| (file == "a.rs").then(|| source.to_owned());
    let good = Case {
        id: "B01".to_owned(),
        title: None,
        what: "what".to_owned(),
        source: "source".to_owned(),
        answer: "answer".to_owned(),
        brief: "brief".to_owned(),
        tests: vec!["a.rs::real".to_owned(), "a.rs::tests::real".to_owned()],
        fixture: "none".to_owned(),
    };
    assert_eq!(faults_of(std::slice::from_ref(&good), source_of), Vec::<String>::new());
    let bad: BTreeMap<&str, fn(&mut Case)> = BTreeMap::from([
        ("B04 is no case", (|case| case.id = "B04".to_owned()) as fn(&mut Case)),
        ("A23 is no case", |case| case.id = "A23".to_owned()),
        ("one line each", |case| case.what.clear()),
        ("without a bar", |case| case.answer = "a | b".to_owned()),
        ("title and brief have at most", |case| case.brief = "x".repeat(93)),
        ("brief have at most", |case| case.title = Some(String::new())),
        ("none of", |case| case.fixture = "real".to_owned()),
        ("names no test", |case| case.tests.clear()),
        ("no test helper", |case| case.tests[0] = "a.rs::helper".to_owned()),
        ("no test rea", |case| case.tests[0] = "a.rs::rea".to_owned()),
        ("b.rs does not exist", |case| case.tests[0] = "b.rs::real".to_owned()),
        ("is not FILE::TEST", |case| case.tests[0] = "real".to_owned()),
    ]);
    for (words, damage) in bad {
        let mut case = good.clone();
        damage(&mut case);
        let found = faults_of(&[case], source_of);
        assert!(found.iter().any(|fault| fault.contains(words)), "{words}: {found:?}");
    }
    let twice = faults_of(&[good.clone(), good], source_of);
    assert_eq!(twice, ["B01 stands twice"]);
}
