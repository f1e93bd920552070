//! `notebook`: appends entries to NOTEBOOK.md and renders what they change in the results.
//!
//! Nothing measured is typed in: values of a run come from the run, which is verified first.

use super::{Context, Done};
use crate::ask::status::{Report, TreeSass, status};
use crate::ask::verify::verify;
use crate::cli::flags::notebook::{CarryOver, Close, Notebook, Outcome, Predict, Retract, Said};
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
use pure::notebook::rests::{self, Registered, RunRecords, metric_parts};
use pure::notebook::table::{Table, Work};
use pure::notebook::{self as book, Cited, Draft, Measured, NewEntry, Projected, Retracted, append, parse};
use pure::standing::State;
use schema::ExitCode;
use schema::claim::ClaimFile;
use schema::metrics::{Metric, from_csv};
use schema::verdict::{ClaimResult, Verdict};
use serde_json::json;
use std::collections::BTreeMap;
use std::io::Read as _;

/// `notebook`: appends one entry, or one for each row of a table.
///
/// # Errors
/// Exit 2 for parts that do not make an entry, 15 for a carry-over of stale numbers, 11 where it is not known whether they
/// are, 16 when the notebook's chain or the run
/// that an entry speaks of does not hold.
pub fn notebook(ctx: &Context<'_>, ask: &Notebook) -> Result<Done> {
    let paths = ctx.paths;
    let mut text = fs_err::read_to_string(paths.notebook())?;
    let mut appended = Vec::new();
    match ask {
        Notebook::Close(Close { table: Some(file), .. }) => {
            let name = file.display().to_string();
            let table =
                Table::parse(&name, &read_text(file).map_err(|e| fail(ExitCode::Usage, format!("{e:#}"), ""))?)?;
            for work in &table.work {
                let entry = book::closed(&parse(&text)?, row_draft(&table, work), work.clone());
                appended.push(entry.clone());
                text = append(&text, entry)?;
            }
        }
        ask => {
            let entry = compose(paths, &parse(&text)?, ask)?;
            appended.push(entry.clone());
            text = append(&text, entry)?;
        }
    }
    // A Markdown file without its region must be found before anything is written.
    published::rendered(paths, &published::runs(paths)?)?;
    write_whole(&paths.notebook(), text.as_bytes())?;
    let rendered = render(paths)?;
    Ok(told(&appended, &rendered))
}

fn told(appended: &[NewEntry], rendered: &[String]) -> Done {
    let ids: Vec<&str> = appended.iter().map(|entry| entry.id.as_str()).collect();
    let rests: Vec<&String> = appended.iter().flat_map(|entry| &entry.fields.rests).collect();
    let mut lines = vec![format!("NOTEBOOK.md: {}", ids.join(", "))];
    for entry in appended.iter().filter(|entry| entry.fields.kind == book::Kind::Retraction) {
        let rests = &entry.fields.rests;
        lines.push(format!(
            "{} rest on what {} withdraws{}",
            rests.len(),
            entry.id,
            if rests.is_empty() { "" } else { ":" }
        ));
        lines.extend(rests.iter().map(|line| format!("  {line}")));
    }
    lines.extend(rendered.iter().map(|file| format!("rendered {file}")));
    let object = json!({"id": ids.last(), "ids": ids, "rests": rests, "rendered": rendered});
    Done::said(object, lines.join("\n"))
}

fn compose(paths: &Paths, notebook: &book::Notebook, ask: &Notebook) -> Result<NewEntry> {
    Ok(match ask {
        Notebook::Predict(parts) => predict(notebook, parts)?,
        Notebook::Outcome(parts) => outcome(paths, notebook, parts)?,
        Notebook::Fault(parts) => {
            let (run, about, claims) = (parts.run.clone(), parts.about.clone(), parts.claims.clone());
            book::fault(notebook, draft(&parts.said)?, run, about, claims)
        }
        Notebook::Retract(parts) => retract(paths, notebook, parts)?,
        Notebook::Amend(parts) => {
            book::amendment(notebook, draft(&parts.said)?, parts.about.clone(), parts.claims.clone())
        }
        Notebook::Authorize(parts) => {
            known_phases(paths, &parts.phases)?;
            book::decision(notebook, draft(&parts.said)?, parts.phases.clone(), !parts.reject)
        }
        Notebook::Close(parts) => close(notebook, parts)?,
        Notebook::Missing(parts) => {
            let (item, run, claims) = (parts.item.clone(), parts.run.clone(), parts.claims.clone());
            book::missing(notebook, draft(&parts.said)?, item, run, claims)
        }
        Notebook::CarryOver(parts) => carry_over(paths, notebook, parts)?,
    })
}

fn draft(said: &Said) -> Result<Draft> {
    draft_of(said.title.clone(), &said.text)
}

fn draft_of(title: String, text: &str) -> Result<Draft> {
    let mut prose = text.to_owned();
    if prose == "-" {
        prose.clear();
        std::io::stdin().read_to_string(&mut prose)?;
    }
    Ok(Draft { date: today(), title, prose })
}

fn today() -> String {
    Timestamp::now().strftime("%Y-%m-%d").to_string()
}

fn predict(notebook: &book::Notebook, parts: &Predict) -> Result<NewEntry> {
    let pair = |text: &String| match text.split_once('=').map(|(name, value)| (name, Projected::new(value))) {
        Some((name, Ok(value))) => Ok((name.to_owned(), value)),
        Some((name, Err(error))) => Err(usage(format!("value {name}: {error:#}"), "--value latency_us_p50=9")),
        None => Err(usage(format!("{text:?} is not NAME=DECIMAL"), "--value latency_us_p50=9")),
    };
    let values: BTreeMap<String, Projected> = parts.values.iter().map(pair).collect::<Result<_>>()?;
    Ok(book::prediction(notebook, draft(&parts.said)?, parts.claims.clone(), &values, parts.informed))
}

fn outcome(paths: &Paths, notebook: &book::Notebook, parts: &Outcome) -> Result<NewEntry> {
    let run = OfRun::verified(paths, &parts.run)?;
    if run.emulated {
        let message = format!("run {} was made on the emulated device, which measures nothing", parts.run);
        return Err(usage(message, "cargo xtask reproduce, on a GPU"));
    }
    let mut results = run.verdict.claims.clone();
    if let Some(unknown) = parts.claims.iter().find(|id| !results.iter().any(|result| result.id == **id)) {
        let known: Vec<&str> = results.iter().map(|result| result.id.as_str()).collect();
        return Err(usage(format!("run {} has no claim {unknown}; it has {}", parts.run, known.join(", ")), ""));
    }
    results.retain(|result: &ClaimResult| parts.claims.is_empty() || parts.claims.contains(&result.id));
    let metric = |name: &String| Ok((name.clone(), Measured::of_metric(run.metric(name)?)));
    let metrics = parts.metrics.iter().map(metric).collect::<Result<_>>()?;
    Ok(book::outcome(notebook, draft(&parts.said)?, &parts.run, &results, metrics))
}

fn retract(paths: &Paths, notebook: &book::Notebook, parts: &Retract) -> Result<NewEntry> {
    let (mut records, what) = (None, &parts.what);
    let what = if let Some(id) = &what.run {
        let at_hand = OfRun::find(paths, id).map(|layout| OfRun::read(&layout)).transpose()?;
        let told = notebook.entries.iter().any(|entry| entry.fields.run.as_ref() == Some(id));
        if at_hand.is_none() && !told {
            return Err(usage(
                format!("run {id} is neither here nor in the notebook"),
                "cargo xtask verify lists what is published",
            ));
        }
        let retracted = match (&parts.metric, &at_hand) {
            (None, _) => Retracted::Run(id.clone()),
            (Some(name), Some(run)) => {
                let metric = run.metric(name)?;
                let (value, unit) = (Measured::of_metric(metric), metric.unit.clone());
                Retracted::Metric { run: id.clone(), metric: name.clone(), value, unit }
            }
            (Some(_), None) => {
                return Err(usage(format!("the summary of run {id} is not here"), "cargo xtask unpack DIR"));
            }
        };
        records = at_hand.map(|run| run.records);
        retracted
    } else if let Some(id) = &what.about {
        if notebook.entry(id).is_none() {
            return Err(usage(format!("there is no entry {id}"), "grep '^## ' NOTEBOOK.md"));
        }
        Retracted::Entry(id.clone())
    } else {
        Retracted::Cited(cited(what.cited.as_deref().unwrap_or_default(), parts.source.as_deref().unwrap_or_default())?)
    };
    let resting = rests::on(&what, notebook, records.as_ref(), &registered(paths)?);
    Ok(book::retraction(notebook, draft(&parts.said)?, what, parts.reason.clone(), resting.claims, resting.lines))
}

fn cited(quantity: &str, source: &str) -> Result<Cited> {
    let (value, unit) = quantity.split_once(' ').unwrap_or((quantity, "1"));
    if value.parse::<f64>().is_err() {
        return Err(usage(format!("{quantity:?} is not a number with its unit"), "--cited \"16.631 ms\""));
    }
    Ok(Cited { value: value.to_owned(), unit: unit.to_owned(), source: source.to_owned() })
}

fn close(notebook: &book::Notebook, parts: &Close) -> Result<NewEntry> {
    let given = |part: &Option<String>| part.clone().unwrap_or_default();
    let work = Work {
        topic: given(&parts.topic),
        evidence: given(&parts.evidence),
        reason: given(&parts.reason),
        preservation: given(&parts.preserve),
        reopens_when: given(&parts.reopens_when),
    };
    let draft = draft_of(format!("closed: {}", work.topic), parts.text.as_deref().unwrap_or_default())?;
    Ok(book::closed(notebook, draft, work))
}

fn row_draft(table: &Table, work: &Work) -> Draft {
    let prose = format!("{}\nSource: {}.", table.text.trim(), table.source.trim_end_matches('.'));
    Draft { date: today(), title: format!("closed: {}", work.topic), prose }
}

/// A carry-over says that the run's numbers stand in this tree, which is asked as `status` asks it.
fn carry_over(paths: &Paths, notebook: &book::Notebook, parts: &CarryOver) -> Result<NewEntry> {
    let run = &parts.run;
    if !published::ids(paths)?.contains(run) {
        return Err(usage(format!("no published run is called {run}"), "cargo xtask status lists what is published"));
    }
    let built = of_this_tree(paths)?.map(|record| TreeSass { nvcc: record.nvcc, kernels: record.kernels });
    let standing = status(paths, &built.ok_or_else(|| "this tree is not built: cargo xtask build".to_owned()))?;
    let count = stand(run, &standing)?;
    let said = draft(&parts.said)?;
    let shown = format!(
        "All {count} numbers of run {run} stand: kernels, harness, plan, toolkit and image are as they were measured."
    );
    let prose = format!("{}\n{shown}", said.prose.trim());
    Ok(book::carry_over(notebook, Draft { prose, ..said }, run.clone(), parts.reason.clone()))
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
    let known: Vec<String> = experiments(paths)?
        .into_iter()
        .flat_map(|name| schema::plan::Phase::ALL.map(|phase| format!("{name}/{}", phase.name())))
        .collect();
    match phases.iter().find(|phase| !known.contains(phase)) {
        None => Ok(()),
        Some(unknown) => {
            Err(usage(format!("there is no phase {unknown:?}; there is {}", known.join(", ")), "cargo xtask list"))
        }
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
    let own = ["NOTEBOOK.md", "RESULTS.md"];
    for folder in ["", "docs/"] {
        for name in host::files::entries(&paths.root().join(folder))? {
            let name = format!("{folder}{name}");
            if name.ends_with(".md") && !own.contains(&name.as_str()) {
                found.texts.push((name.clone(), read_text(&paths.root().join(&name))?));
            }
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
        let plain = host::files::check_name(run).is_ok() && !run.contains('/');
        let published = Layout::published(paths, run);
        let layouts = [published, Layout::Raw(paths.run(run))];
        layouts.into_iter().find(|layout| plain && layout.path(VERDICT).is_file())
    }

    /// A run that holds: every byte is as it was sealed, and its verdict follows from its evidence.
    fn verified(paths: &Paths, run: &str) -> Result<Self> {
        let Some(layout) = Self::find(paths, run) else {
            let message = format!("run {run} is not here, or has no verdict");
            return Err(usage(message, "cargo xtask reproduce writes one; cargo xtask unpack DIR brings one home"));
        };
        let report = verify(paths, &[run.to_owned()])?;
        if !report.ok {
            let message = format!("run {run} does not hold, so nothing is told of it:\n{report}");
            return Err(fail(ExitCode::Integrity, message, format!("cargo xtask verify {run}")));
        }
        Self::read(&layout)
    }

    fn read(layout: &Layout) -> Result<Self> {
        let evidence = evidence::load(layout)?;
        let verdict = serde_json::from_slice(&host::files::read_plain(&layout.path(VERDICT))?)?;
        let metrics = from_csv(evidence.metrics_csv.as_deref().context("the run has no summary")?)?;
        let emulated = evidence.environment.device.is_emulated();
        let records = RunRecords { claims: evidence.claims, slots: evidence.environment.device.slots, metrics };
        Ok(Self { id: layout.run(), verdict, emulated, records })
    }

    fn metric(&self, name: &str) -> Result<&Metric> {
        let parts = metric_parts(name);
        let found = parts.and_then(|(metric, phase, cell)| {
            self.records.metrics.iter().find(|m| m.metric == metric && m.phase == phase && m.cell == cell)
        });
        found.ok_or_else(|| {
            let message = format!("run {} has no {name:?}, written METRIC@PHASE/CELL", self.id);
            usage(message, format!("the rows of its summary/metrics.csv, e.g. {}", self.example()))
        })
    }

    fn example(&self) -> String {
        self.records.metrics.last().map(|m| format!("{}@{}/{}", m.metric, m.phase, m.cell)).unwrap_or_default()
    }
}

fn usage(message: String, remedy: impl Into<String>) -> anyhow::Error {
    fail(ExitCode::Usage, message, remedy)
}

#[cfg(test)]
mod tests;
