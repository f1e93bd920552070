//! `verify`: re-hash, re-parse, recompute, re-judge, report. No network, no GPU, no docker, and nothing is written.
//!
//! It never trusts a stored `passed`: the verdict is made anew from the evidence and compared byte for byte. A run
//! under older rules than this tree's is checked in everything its bytes show; on request it is judged by the tree
//! that published it.

mod authorship;
mod copies;
mod files;
mod judgement;
mod kept;
mod notebook;
mod orphans;
mod rules;

#[cfg(test)]
mod by_script;
#[cfg(test)]
mod hostile_tests;
#[cfg(test)]
mod tests;

use crate::runs::layout::{self, Layout};
use crate::runs::published;
use anyhow::Result;
use host::failure::{fail, of_the_machine};
use host::paths::Paths;
use judgement::Judged;
use pure::book::notebook::Notebook;
use pure::gate;
use schema::ExitCode;
use schema::verdict::Verdict;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::{Path, PathBuf};
use words::names::{check_name, is_id};
use words::text::plain;

/// What was found.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Report {
    /// Whether everything holds.
    pub ok: bool,
    /// `L2` when all summaries and figures recompute to the same bytes, `L0` when digests hold and runs under older rules were
    /// not recomputed; absent when something does not hold or nothing is there.
    pub level: Option<&'static str>,
    /// Files whose digest was compared.
    pub checked_files: u64,
    /// Their bytes.
    pub checked_bytes: u64,
    /// Detached files that were at hand and compared.
    pub detached_checked: u64,
    /// Detached files that are not at hand.
    pub detached_absent: u64,
    /// Everything that does not hold.
    pub problems: Vec<Problem>,
    /// What was looked at.
    pub runs: Vec<RunReport>,
    /// What could not be checked here, and why.
    pub notes: Vec<String>,
}

/// Something that does not hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    /// The file, below the run directory or below the repository's root.
    pub path: String,
    /// One word: `changed`, `missing`, `extra`, `renamed`, `symlink`, `special`, `name`, `case-collision`, `malformed`,
    /// `unreadable`, `sums`, `signature`, `unbound`, `recompute`, `provenance`, `verdict`, `rules`, `copied`, `chain`, `history`.
    pub kind: String,
    /// What exactly.
    pub detail: String,
}

/// The kind of a problem of this machine's, which says nothing of what should have been looked at.
const UNREADABLE: &str = "unreadable";

/// One run that was looked at.
#[derive(Clone, Debug, Serialize)]
pub struct RunReport {
    /// Its id.
    pub run: String,
    /// `sealed` in a run directory, or `published`.
    pub state: String,
    /// The version of the rules that its verdict names; absent when there is no verdict to go by.
    pub rules: Option<u32>,
    /// Whether its gates let it pass; absent when it was not judged here.
    pub passed: Option<bool>,
    /// Whether its summary and figures were recomputed from its events.
    pub recomputed: bool,
    /// `KEY` or `unproven`.
    pub authorship: String,
    /// Who signed, by the list of allowed signers; absent without a list, and when it allows nobody.
    pub signer: Option<String>,
}

impl Report {
    fn problem(&mut self, path: impl Into<String>, kind: &str, detail: impl Into<String>) {
        self.problems.push(Problem { path: path.into(), kind: kind.to_owned(), detail: detail.into() });
    }

    /// A problem of this kind with the reason that an error gives, unless this machine could not read the file.
    fn fault(&mut self, path: impl Into<String>, kind: &str, error: &anyhow::Error) {
        self.problem(path, if of_the_machine(error) { UNREADABLE } else { kind }, format!("{error:#}"));
    }

    /// The exit code this report ends with. A file that could not be read does not hold, but is not a finding about
    /// the run.
    #[must_use]
    pub fn exit_code(&self) -> ExitCode {
        match self.problems.iter().all(|problem| problem.kind == UNREADABLE) {
            _ if self.ok => ExitCode::Done,
            true => ExitCode::Environment,
            false => ExitCode::Integrity,
        }
    }
}

/// For people: problems first, then what was looked at, then one line that says whether everything holds.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A name or a reason may be anybody's words, and must not look like a line of ours.
        for Problem { path, kind, detail } in &self.problems {
            let path = if check_name(path).is_ok() { path.clone() } else { format!("{path:?}") };
            writeln!(f, "{path}: {kind}: {}", plain(detail))?;
        }
        for RunReport { run, state, rules, passed, authorship, signer, .. } in &self.runs {
            let gates = match passed {
                Some(true) => "every gate passes",
                Some(false) => "refused by its gates",
                None if rules.is_some_and(|rules| rules < gate::rules()) => "not judged again here",
                None => "not judged",
            };
            let rules = rules.map_or_else(String::new, |rules| format!("judged under rules {rules}, "));
            let signer = signer.as_ref().map_or_else(String::new, |signer| format!(", signed by {}", plain(signer)));
            writeln!(f, "{}: {state}, {rules}{gates}, authorship: {}{signer}", plain(run), plain(authorship))?;
        }
        for note in &self.notes {
            writeln!(f, "note: {}", plain(note))?;
        }
        let (files, bytes, problems) = (self.checked_files, self.checked_bytes, self.problems.len());
        let detached = format!("{} detached at hand, {} not", self.detached_checked, self.detached_absent);
        match self.level {
            _ if !self.ok => {
                writeln!(
                    f,
                    "  try: git status; git checkout -- FILE restores what was committed, cargo xtask unpack DIR a run directory"
                )?;
                let word = if problems == 1 { "problem" } else { "problems" };
                write!(f, "{problems} {word} in {files} files")
            }
            Some(level) => {
                let older = self.runs.iter().filter(|run| !run.recomputed).count();
                let older = if older > 0 { format!("; not recomputed here: {older}") } else { String::new() };
                write!(f, "{level}: {files} files and {bytes} bytes hold ({detached}){older}")
            }
            None => write!(f, "{files} files hold"),
        }
    }
}

/// Verifies runs: by id, run directory or manifest; everything published when none is given.
///
/// # Errors
/// When a target names nothing. Problems of a run are in the report and are not an error here.
pub fn verify(paths: &Paths, targets: &[String]) -> Result<Report> {
    verify_as(paths, targets, Asked { allowed_signers: None, as_published: false })
}

/// What else `verify` is asked for.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// A list of allowed signers, one of whom must have signed every run.
    pub allowed_signers: Option<&'a Path>,
    /// Judge runs under older rules by the trees that published them, which are built for that.
    pub as_published: bool,
}

/// As [`verify`], with what else is asked for.
///
/// # Errors
/// As [`verify`]; exit 11 when there is a list and no `ssh-keygen` to read it, or an older tree cannot be built.
pub fn verify_as(paths: &Paths, targets: &[String], asked: Asked<'_>) -> Result<Report> {
    let allowed = asked.allowed_signers;
    if let Some(list) = allowed.filter(|list| !list.is_file()) {
        let message = format!("there is no list of allowed signers {}", list.display());
        return Err(fail(ExitCode::Usage, message, "each line of it: NAME ssh-ed25519 KEY (man ssh-keygen)"));
    }
    let mut report = Report::default();
    let layouts = if targets.is_empty() {
        orphans::check(paths, &mut report)?;
        published_layouts(paths)?
    } else {
        let found = targets.iter().map(|target| layouts_of(paths, target)).collect::<Result<Vec<_>>>()?;
        found.into_iter().flatten().collect()
    };
    if layouts.is_empty() {
        report.notes.push("nothing is published yet".to_owned());
    }
    kept::check(paths, &layouts, targets.is_empty(), &mut report)?;
    copies::check(paths, &layouts, &mut report)?;
    let notebook = notebook::check(paths, &layouts, &mut report);
    for layout in &layouts {
        // Publishing makes the signature, so the run directory of a published run need not have one.
        let twin = |other: &Layout| matches!(other, Layout::Published { .. }) && other.run() == layout.run();
        let owed = allowed.filter(|_| matches!(layout, Layout::Published { .. }) || !layouts.iter().any(twin));
        let asked = Asked { allowed_signers: owed, ..asked };
        verify_run(paths, layout, notebook.as_ref(), asked, &mut report)?;
    }
    if targets.is_empty() && report.problems.is_empty() {
        check_markdown(paths, &mut report)?;
    }
    report.ok = report.problems.is_empty();
    let all = report.runs.iter().all(|run| run.recomputed);
    report.level = (report.ok && !report.runs.is_empty()).then_some(if all { "L2" } else { "L0" });
    Ok(report)
}

fn verify_run(
    paths: &Paths,
    layout: &Layout,
    notebook: Option<&Notebook>,
    asked: Asked<'_>,
    report: &mut Report,
) -> Result<()> {
    let before = report.problems.len();
    let state = if matches!(layout, Layout::Raw(_)) { "sealed" } else { "published" };
    let sealed = files::check(layout, report)?;
    let rules = sealed.as_ref().map(|sealed| sealed.verdict.rules);
    let judged = match sealed {
        // A run whose bytes are wrong is not judged; it might not even parse.
        Some(sealed) if report.problems.len() == before => {
            notebook::check_head(notebook, layout, sealed.manifest.predicate.notebook_head, report);
            notebook::check_values(notebook, layout, &sealed.verdict, report);
            match sealed.verdict.rules == gate::rules() {
                _ if !rules::check(paths, layout, &sealed, report) => Judged::default(),
                true => judgement::check(paths, layout, &sealed, report)?,
                false => rules::check_older(paths, layout, &sealed, asked.as_published, report)?,
            }
        }
        _ => Judged::default(),
    };
    let Judged { passed, recomputed } = judged;
    let authorship = authorship::key(layout, report);
    let signer =
        asked.allowed_signers.map(|list| authorship::signer(layout, list, &authorship, report)).transpose()?.flatten();
    let state = state.to_owned();
    report.runs.push(RunReport { run: layout.run(), state, rules, passed, recomputed, authorship, signer });
    Ok(())
}

/// The verdict of a run whose every byte is as it was sealed.
pub(crate) fn sealed_bytes(layout: &Layout) -> Result<Verdict> {
    let mut report = Report::default();
    let sealed = files::check(layout, &mut report)?;
    match (sealed, report.problems.first()) {
        (Some(sealed), None) => Ok(sealed.verdict),
        (_, Some(Problem { path, kind, detail })) => anyhow::bail!("{path}: {kind}: {detail}"),
        (None, None) => anyhow::bail!("{} has no verdict", layout.run()),
    }
}

/// Every published run, by its manifest.
fn published_layouts(paths: &Paths) -> Result<Vec<Layout>> {
    Ok(published::ids(paths)?.into_iter().map(|run| Layout::published(paths, run)).collect())
}

/// Every rendered number is one of a published run: regions and references read as they would if rendered now.
fn check_markdown(paths: &Paths, report: &mut Report) -> Result<()> {
    let runs = published::runs(paths)?;
    if !runs.is_empty() && !paths.root().join("RESULTS.md").is_file() {
        report.problem("RESULTS.md", "missing", "the page that shows what is published: git restores it");
    }
    let rendered = match published::rendered(paths, &runs) {
        Ok(rendered) => rendered,
        Err(error) => {
            report.fault("RESULTS.md", "malformed", &error);
            return Ok(());
        }
    };
    for (path, text) in rendered {
        report.checked_files += 1;
        if host::files::read_text(&path)? != text {
            let name = path.strip_prefix(paths.root()).unwrap_or(&path).display().to_string();
            report.problem(
                name,
                "recompute",
                "a region or a reference does not show what the manifests give: cargo xtask tidy --write renders it",
            );
        }
    }
    Ok(())
}

/// What a target names: a run directory, a manifest, or a run's id, published first.
pub(super) fn layouts_of(paths: &Paths, target: &str) -> Result<Vec<Layout>> {
    let path = PathBuf::from(target);
    if path.is_dir() {
        return Ok(vec![Layout::Raw(fs_err::canonicalize(path)?)]);
    }
    if let Some(run) = run_of_manifest(paths, &path) {
        return Ok(vec![Layout::published(paths, run)]);
    }
    let is_id = is_id(target);
    let mut found = Vec::new();
    if is_id && paths.manifests().join(format!("{target}.json")).exists() {
        found.push(Layout::published(paths, target));
    }
    if is_id && paths.run(target).is_dir() {
        found.push(Layout::Raw(paths.run(target)));
    }
    if found.is_empty() {
        let message = format!("{target:?} is neither a run, nor a run directory, nor a manifest");
        return Err(fail(
            ExitCode::Usage,
            message,
            "cargo xtask status lists published runs; ls results/raw lists the others",
        ));
    }
    Ok(found)
}

fn run_of_manifest(paths: &Paths, path: &Path) -> Option<String> {
    let run = layout::run_of_manifest(path.file_name()?.to_str()?).filter(|run| is_id(run))?;
    let here = fs_err::canonicalize(path).ok()?;
    (here.parent()? == fs_err::canonicalize(paths.manifests()).ok()?).then(|| run.to_owned())
}
