//! Every transcript in README.md and `docs/` is what the program says today, on the committed state, in a checkout of its own.
//!
//! A transcript is a fenced block of language `console`. A line that begins with `$ ` is typed into a shell, in which
//! `cargo xtask` is this program; what follows it is all that it prints, and a last line `(exit N)` where N is not 0. A line
//! `...` stands for any number of lines. Run ids, digests, dates and seconds count as equal to any other. A block headed
//! ` ```console toolkit` needs the CUDA toolkit and is skipped, aloud, where there is none. The blocks of one file share a
//! checkout, in order, so one may write what a later one reads.
//!
//! `ASSAY_TRANSCRIPTS=update cargo test -p xtask --test transcripts` writes what was printed into the files; read the diff.

mod checkout;

use checkout::Checkout;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// One command of a transcript.
struct Step {
    /// What is typed, without `$ `.
    command: String,
    /// What is printed.
    output: Vec<String>,
}

#[test]
fn every_transcript_is_what_the_program_prints() {
    let mut wrong = Vec::new();
    let mut checked = 0;
    for doc in documents() {
        let text = std::fs::read_to_string(&doc).unwrap();
        let (now, commands, mut found) = replay(&doc, &text);
        checked += commands;
        if std::env::var("ASSAY_TRANSCRIPTS").is_ok_and(|word| word == "update") {
            std::fs::write(&doc, now).unwrap();
        }
        wrong.append(&mut found);
    }
    assert!(checked > 0, "no document holds a transcript");
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

fn documents() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut documents = vec![root.join("README.md")];
    let below = std::fs::read_dir(root.join("docs")).into_iter().flatten().flatten().map(|entry| entry.path());
    documents.extend(below.filter(|path| path.extension().is_some_and(|ending| ending == "md")));
    documents.sort();
    documents
}

/// Runs a document's transcripts; gives its text as it should read, how many commands were run, and what differs.
fn replay(doc: &Path, text: &str) -> (String, usize, Vec<String>) {
    let has_toolkit = std::cell::OnceCell::new();
    let mut checkout = None;
    let (mut now, mut commands, mut wrong) = (String::new(), 0, Vec::new());
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        now += &format!("{line}\n");
        let Some(needs) = line.strip_prefix("```console") else { continue };
        let block: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
        let needs_toolkit = needs.trim() == "toolkit";
        if needs_toolkit && !has_toolkit.get_or_init(checkout::has_toolkit) {
            block.iter().chain([&"```"]).for_each(|line| now += &format!("{line}\n"));
            continue;
        }
        let checkout: &Checkout = checkout.get_or_insert_with(|| {
            let checkout = Checkout::bare();
            checkout.share_state();
            checkout
        });
        for step in steps(&block) {
            let printed = typed(checkout, &step.command);
            let same = matches(&step.output, &printed);
            now += &format!("$ {}\n", step.command);
            let kept = if same { &step.output } else { &printed };
            kept.iter().for_each(|line| now += &format!("{line}\n"));
            if !same {
                let (expected, printed) = (step.output.join("\n"), printed.join("\n"));
                wrong.push(format!("{}: $ {}\nsays\n{expected}\nprinted\n{printed}", doc.display(), step.command));
            }
            commands += 1;
        }
        now += "```\n";
    }
    (now, commands, wrong)
}

fn steps(block: &[&str]) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let mut continued = false;
    for line in block {
        match (line.strip_prefix("$ "), steps.last_mut()) {
            (_, Some(step)) if continued => step.command += &format!("\n{line}"),
            (Some(command), _) => steps.push(Step { command: command.to_owned(), output: Vec::new() }),
            (None, Some(step)) => step.output.push((*line).to_owned()),
            (None, None) => panic!("a transcript begins with `$ `, not {line:?}"),
        }
        continued = line.ends_with('\\') && steps.last().is_some_and(|step| step.output.is_empty());
    }
    steps
}

/// All that a command prints, stdout and stderr as they come, and how it ended unless well.
fn typed(checkout: &Checkout, command: &str) -> Vec<String> {
    let script = format!("exec 2>&1\n{}", command.replace("cargo xtask", "\"$XTASK\""));
    let mut shell = Command::new("sh");
    shell.args(["-c", &script]).current_dir(checkout.path("")).stdin(Stdio::null());
    shell.env("XTASK", env!("CARGO_BIN_EXE_xtask")).env_remove("ASSAY_TRANSCRIPTS");
    let output = shell.output().unwrap();
    let here = checkout.path("").display().to_string();
    let text = String::from_utf8_lossy(&output.stdout).replace(&here, "");
    let mut printed: Vec<String> = text.lines().map(|line| line.trim_end().to_owned()).collect();
    if !output.status.success() {
        printed.push(format!("(exit {})", output.status.code().unwrap_or(-1)));
    }
    printed
}

/// Whether what was printed is what the transcript says.
fn matches(expected: &[String], printed: &[String]) -> bool {
    match (expected.split_first(), printed.split_first()) {
        (None, None) => true,
        (Some((first, rest)), _) if first.trim() == "..." => {
            matches(rest, printed) || printed.split_first().is_some_and(|(_, printed)| matches(expected, printed))
        }
        (Some((a, expected)), Some((b, printed))) => normal(a) == normal(b) && matches(expected, printed),
        _ => false,
    }
}

/// A line with everything that differs from run to run replaced by what it is.
fn normal(line: &str) -> String {
    let is_part = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let mut normal = String::new();
    let mut rest = line.trim_end();
    while let Some(start) = rest.find(is_part) {
        let (before, from) = rest.split_at(start);
        let end = from.find(|c| !is_part(c)).unwrap_or(from.len());
        // A full stop ends a sentence, not a word.
        let end = from[..end].trim_end_matches('.').len().max(1);
        let (token, after) = from.split_at(end);
        normal += before;
        normal += what(token, after);
        rest = after;
    }
    normal + rest
}

fn what<'a>(token: &'a str, after: &str) -> &'a str {
    let all = |text: &str, fits: fn(u8) -> bool| !text.is_empty() && text.bytes().all(fits);
    let digits = |text: &str| all(text, |b| b.is_ascii_digit());
    let hex = |text: &str| all(text, |b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
    let parts: Vec<&str> = token.split('-').collect();
    match parts[..] {
        [time, _, digest] if time.len() == 16 && time.ends_with('Z') && digest.len() == 8 && hex(digest) => "RUN",
        [year, month, day] if [4, 2, 2] == [year.len(), month.len(), day.len()] && parts.iter().all(|p| digits(p)) => {
            "DATE"
        }
        [word] if word.len() >= 8 && hex(word) && !digits(word) => "HEX",
        [word] if word.parse::<f64>().is_ok() && (after == " s" || after.starts_with(" s ")) => "N",
        _ => token,
    }
}

#[test]
fn what_differs_from_run_to_run_counts_as_equal_and_nothing_else_does() {
    let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
    let check = |expected: &str, printed: &str, same: bool| {
        assert_eq!(matches(&lines(expected), &lines(printed)), same, "{expected:?} {printed:?}");
    };
    check("run 20261129T143855Z-h200-f48569fc", "run 20270101T000000Z-h200-00000000", true);
    check("chain: dad5ba1a3b8ad589", "chain: 877f3ddbd113c2c7", true);
    check("build 3.2 s  cached", "build 0.1 s  cached", true);
    check("on 2026-11-29.", "on 2026-11-30.", true);
    check("25.1 us", "25.2 us", false);
    check("a\n...\nz", "a\nb\nc\nz", true);
    check("a\n...", "a", true);
    check("a\n...\nz", "a\nb", false);
    check("a", "a\n(exit 15)", false);
    check("(exit 15)", "(exit 16)", false);
}
