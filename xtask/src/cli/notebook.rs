//! `notebook`: appends entries to NOTEBOOK.md and renders what they change in the results.
//!
//! Nothing measured is typed in: values of a run come from the run, which is verified first.

use super::{Context, Done};
use crate::ask::status::{Report, TreeSass, status};
use crate::ask::verify::verify;
use crate::cli::flags::notebook::Notebook;
use crate::path::freeze::{experiments, plan_file};
use crate::publish::render;
use crate::runs::layout::{Layout, VERDICT};
use crate::runs::{evidence, published};
use crate::steps::build::of_this_tree;
use anyhow::{Context as _, Result};
use host::failure::fail;
use host::files::{read_text, write_whole};
use host::paths::Paths;
use jiff::Timestamp;
use pure::book::notebook::rests::{self, Registered, RunRecords};
use pure::book::notebook::{self as book, Flags, Kind, Measured, NewEntry, append, closed_work, parse};
use pure::book::standing::State;
use pure::book::{name_of, withdraws};
use schema::ExitCode;
use schema::claim::ClaimFile;
use schema::metrics::{Metric, from_csv};
use schema::verdict::Verdict;
use serde_json::json;
use std::io::Read as _;
use words::names::is_id;

/// `notebook`: appends one entry, or one for each row of a table.
///
/// # Errors
/// Exit 2 for flags that do not make an entry, 15 for a carry-over of stale numbers, 11 where it is not known whether they
/// are, 16 when the notebook's chain or the run that an entry speaks of does not hold.
pub fn notebook(ctx: &Context<'_>, ask: &Notebook) -> Result<Done> {
    let paths = ctx.paths;
    let mut text = fs_err::read_to_string(paths.notebook())?;
    let mut appended = Vec::new();
    for flags in entries_of(&ask.flags)? {
        let entry = compose(paths, &parse(&text)?, ask, &flags)?;
        text = append(&text, entry.clone())?;
        appended.push(entry);
    }
    // A Markdown file without its region must be found before anything is written.
    published::rendered(paths, &published::runs(paths)?)?;
    write_whole(&paths.notebook(), text.as_bytes())?;
    let rendered = render(paths)?;
    Ok(told(&appended, &rendered))
}

/// The flags of each entry to append: those that were typed, or one set for each row of the table that they name.
fn entries_of(typed: &Flags) -> Result<Vec<Flags>> {
    if let Some(file) = typed.get("table").and_then(|files| files.first()) {
        let text = read_text(file.as_ref()).map_err(|error| usage(format!("{error:#}"), ""))?;
        return closed_work(file, &text);
    }
    let mut flags = typed.clone();
    if flags.get("text").is_some_and(|text| text == &["-"]) {
        let mut prose = String::new();
        std::io::stdin().read_to_string(&mut prose)?;
        flags.insert("text", vec![prose]);
    }
    Ok(vec![flags])
}

fn told(appended: &[NewEntry], rendered: &[String]) -> Done {
    let ids: Vec<&str> = appended.iter().map(|entry| entry.id.as_str()).collect();
    let rests: Vec<&String> = appended.iter().flat_map(|entry| &entry.fields.rests).collect();
    let mut lines = vec![format!("NOTEBOOK.md: {}", ids.join(", "))];
    if let Some(entry) = appended.iter().find(|entry| entry.fields.kind == Kind::Retraction) {
        let colon = if rests.is_empty() { "" } else { ":" };
        lines.push(format!("{} rest on what {} withdraws{colon}", rests.len(), entry.id));
        lines.extend(rests.iter().map(|line| format!("  {line}")));
    }
    lines.extend(rendered.iter().map(|file| format!("rendered {file}")));
    let object = json!({"id": ids.last(), "ids": ids, "rests": rests, "rendered": rendered});
    Done::said(object, lines.join("\n"))
}

/// The entry that the flags make, with what its kind takes from a run or must find in the tree.
fn compose(paths: &Paths, notebook: &book::Notebook, ask: &Notebook, flags: &Flags) -> Result<NewEntry> {
    let today = Timestamp::now().strftime("%Y-%m-%d").to_string();
    let mut entry = NewEntry::of(notebook, ask.row, today, flags)?;
    match ask.row.kind {
        Kind::Outcome => outcome(paths, &mut entry, flags.get("metric").map_or(&[], Vec::as_slice))?,
        Kind::Retraction => retract(paths, notebook, &mut entry)?,
        Kind::Decision => known_phases(paths, &entry.fields.phases)?,
        Kind::CarryOver => carry_over(paths, &mut entry)?,
        Kind::Prediction | Kind::Fault | Kind::Amendment | Kind::Closed | Kind::Missing => {}
    }
    Ok(entry)
}

fn outcome(paths: &Paths, entry: &mut NewEntry, metrics: &[String]) -> Result<()> {
    let run = OfRun::verified(paths, entry.fields.run.as_deref().unwrap_or_default())?;
    if run.emulated {
        let message = format!("run {} was made on the emulated device, which measures nothing", run.id);
        return Err(usage(message, "cargo xtask reproduce, on a GPU"));
    }
    let (asked, mut results) = (&entry.fields.claims, run.verdict.claims.clone());
    if let Some(unknown) = asked.iter().find(|id| !results.iter().any(|result| result.id == **id)) {
        let known: Vec<&str> = results.iter().map(|result| result.id.as_str()).collect();
        return Err(usage(format!("run {} has no claim {unknown}; it has {}", run.id, known.join(", ")), ""));
    }
    results.retain(|result| asked.is_empty() || asked.contains(&result.id));
    let metric = |name: &String| Ok((name.clone(), Measured::of_metric(run.metric(name)?)));
    entry.tell(&results, metrics.iter().map(metric).collect::<Result<_>>()?);
    Ok(())
}

fn retract(paths: &Paths, notebook: &book::Notebook, entry: &mut NewEntry) -> Result<()> {
    let what = &entry.fields;
    let layout = what.run.as_ref().and_then(|id| OfRun::find(paths, id));
    let run = layout.map(|layout| OfRun::read(&layout)).transpose()?;
    if let (Some(id), None) = (&what.run, &run) {
        if !notebook.entries.iter().any(|entry| entry.fields.run.as_ref() == Some(id)) {
            let message = format!("run {id} is neither here nor in the notebook");
            return Err(usage(message, "cargo xtask verify lists what is published"));
        }
        if what.metric.is_some() {
            return Err(usage(format!("the summary of run {id} is not here"), "cargo xtask unpack DIR"));
        }
    }
    let metric = match run.as_ref().zip(what.metric.as_ref()) {
        // Of several numbers none is told by its value.
        Some((run, name))
            if run.records.metrics.iter().any(|m| name.ends_with('*') && withdraws(name, &name_of(m))) =>
        {
            None
        }
        Some((run, name)) => Some(run.metric(name)?),
        None => None,
    };
    let resting = rests::on(what, notebook, run.as_ref().map(|run| &run.records), &registered(paths)?);
    entry.strike(metric, resting);
    Ok(())
}

/// A carry-over says that the run's numbers stand in this tree, which is asked as `status` asks it.
fn carry_over(paths: &Paths, entry: &mut NewEntry) -> Result<()> {
    let run = entry.fields.run.as_deref().unwrap_or_default();
    if !published::ids(paths)?.iter().any(|id| id == run) {
        return Err(usage(format!("no published run is called {run}"), "cargo xtask status lists what is published"));
    }
    let built = of_this_tree(paths, None)?.map(|record| TreeSass { nvcc: record.nvcc, kernels: record.kernels });
    let standing = status(paths, &built.ok_or_else(|| "this tree is not built: cargo xtask build".to_owned()))?;
    let count = stand(run, &standing)?;
    let shown = format!(
        "All {count} numbers of run {run} stand: kernels, harness, plan, toolkit and image are as they were measured."
    );
    entry.prose = format!("{}\n{shown}", entry.prose.trim());
    Ok(())
}

/// How many numbers a run has, when none of them is stale and of each it is known.
fn stand(run: &str, standing: &Report) -> Result<usize> {
    if let Some(unknown) = standing.unknown.iter().find(|number| number.run == run) {
        let message = format!("whether {} of run {run} stands is not known: {}", unknown.id, unknown.why);
        return Err(fail(ExitCode::Environment, message, "cargo xtask status"));
    }
    let of_run = || standing.numbers.iter().filter(|number| number.run == run);
    let stale: Vec<_> = of_run().filter(|number| number.state == State::Stale).collect();
    let Some(first) = stale.first() else { return Ok(of_run().count()) };
    let message = format!("{} numbers of run {run} are stale, {} for one: {}", stale.len(), first.id, first.why);
    Err(fail(ExitCode::Refused, message, "measure again: cargo xtask reproduce --fresh"))
}

/// Decisions speak of phases that there are.
fn known_phases(paths: &Paths, phases: &[String]) -> Result<()> {
    let mut known = Vec::new();
    for name in experiments(paths)? {
        known.extend(plan_file(paths, &name)?.phases.iter().map(|phase| format!("{name}/{phase}")));
    }
    match phases.iter().find(|phase| !known.contains(phase)) {
        None => Ok(()),
        Some(unknown) => Err(usage(
            format!("there is no phase {unknown:?}; the phases are {}", known.join(", ")),
            "cargo xtask list",
        )),
    }
}

/// What the tree registers today: every experiment's claims and plan, and the Markdown at the root and in docs/.
fn registered(paths: &Paths) -> Result<Registered> {
    let mut found = Registered::default();
    for name in experiments(paths)? {
        let claims: ClaimFile = toml::from_str(&read_text(&paths.experiment(&name).join("claims.toml"))?)?;
        found.claims.extend(claims.claim);
        let file = plan_file(paths, &name)?;
        if let Some(profile) = file.profile.keys().next() {
            found.plans.push(file.freeze(*profile, &[])?);
        }
    }
    // The notebook's own entries are listed one by one; RESULTS.md is rendered.
    for path in published::documents(paths)? {
        let name = path.strip_prefix(paths.root())?.display().to_string();
        if name != "RESULTS.md" {
            found.texts.push((name, read_text(&path)?));
        }
    }
    Ok(found)
}

/// A run's own records.
struct OfRun {
    id: String,
    verdict: Verdict,
    emulated: bool,
    records: RunRecords,
}

impl OfRun {
    /// Where the run lies, published or in its run directory, if it is here.
    fn find(paths: &Paths, run: &str) -> Option<Layout> {
        let layouts = [Layout::published(paths, run), Layout::Raw(paths.run(run))];
        layouts.into_iter().find(|layout| is_id(run) && layout.path(VERDICT).is_file())
    }

    /// A run that holds: every byte is as it was sealed, and its verdict follows from its evidence.
    fn verified(paths: &Paths, run: &str) -> Result<Self> {
        let Some(layout) = Self::find(paths, run) else {
            let message = format!("run {run} is not here, or has no verdict");
            return Err(usage(message, "cargo xtask reproduce writes one; cargo xtask unpack DIR brings one home"));
        };
        let report = verify(paths, &[run.to_owned()])?;
        if !report.ok {
            let message = format!("run {run} does not verify, so no entry is made from it:\n{report}");
            return Err(fail(ExitCode::Integrity, message, format!("cargo xtask verify {run}")));
        }
        Self::read(&layout)
    }

    fn read(layout: &Layout) -> Result<Self> {
        let evidence = evidence::load(layout)?;
        let verdict = serde_json::from_slice(&host::files::read_plain(&layout.path(VERDICT))?)?;
        let metrics = from_csv(evidence.metrics_csv.as_deref().context("the run has no summary")?)?;
        let emulated = evidence.environment.device.is_emulated();
        let (claims, slots) = (evidence.claims, evidence.environment.device.slots);
        let records = RunRecords { claims, slots, metrics, contract: evidence.contract };
        Ok(Self { id: layout.run(), verdict, emulated, records })
    }

    fn metric(&self, name: &str) -> Result<&Metric> {
        let metrics = &self.records.metrics;
        metrics.iter().find(|m| name_of(m) == name).ok_or_else(|| {
            let example = metrics.last().map(name_of).unwrap_or_default();
            let message = format!("run {} has no {name:?}, written METRIC@PHASE/CELL", self.id);
            usage(message, format!("the rows of its summary/metrics.csv, e.g. {example}"))
        })
    }
}

fn usage(message: String, remedy: impl Into<String>) -> anyhow::Error {
    fail(ExitCode::Usage, message, remedy)
}

#[cfg(test)]
mod tests;
