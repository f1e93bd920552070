//! Whether a published number still stands: compares what it rests on with this tree.
//!
//! A number is *current* while this tree builds the SASS that every kernel behind it had, and has its protocol, its
//! part of the plan, its toolkit and its image. It is *stale* once one of them differs, and the difference is named.
//! If it cannot be compared on this machine it is neither, and is reported as unknown with what to type.

mod rests;
mod sass;

pub use rests::{Basis, Plans};
pub use sass::{Changed, compare};

use crate::book::notebook::{Kind, Notebook};
use crate::book::withdraws;
use crate::records::json;
use schema::Digest;
use serde::Serialize;
use std::collections::BTreeMap;

/// What a number is today.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// Everything it rests on is as it was.
    Current,
    /// Sources changed, what they build to did not, and the notebook says that it was carried over.
    CarriedOver,
    /// Something it rests on is different now.
    Stale,
    /// Withdrawn in the notebook.
    Retracted,
}

impl State {
    /// The word for it.
    #[must_use]
    pub fn name(self) -> String {
        json::word(self)
    }
}

/// Something that could be compared, and how it differs; empty when it does not.
pub type Compared = Result<Vec<String>, String>;

/// How a run's measured commit and this tree differ. Each part is what differs, or why it cannot be known here.
#[derive(Clone, Debug)]
pub struct Differences {
    /// SASS digests that this tree builds for the run's architecture, by symbol.
    pub built: Result<BTreeMap<String, Digest>, String>,
    /// Parts of the protocol.
    pub harness: Compared,
    /// Whether the lock pins another toolkit.
    pub toolkit: Compared,
    /// Whether the container would be another.
    pub image: Compared,
    /// Source files that changed, whatever they build to.
    pub sources: Compared,
}

/// A judgement of one number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It is this, for these reasons.
    Known(State, Vec<String>),
    /// It cannot be known here, for these reasons.
    Unknown(Vec<String>),
}

/// Judges one number of a run.
#[must_use]
pub fn judge(basis: &Basis, measured: &BTreeMap<String, Digest>, now: &Differences, entries: &Entries) -> Standing {
    if let Some(entry) = entries.retracted(&basis.id) {
        return Standing::Known(State::Retracted, vec![entry]);
    }
    let (mut reasons, mut unknown) = (Vec::new(), Vec::new());
    let launched = measured.iter().filter(|(symbol, _)| basis.kernels.contains(*symbol));
    let launched: BTreeMap<String, Digest> = launched.map(|(symbol, digest)| (symbol.clone(), *digest)).collect();
    for lost in basis.kernels.iter().filter(|symbol| !launched.contains_key(*symbol)) {
        unknown.push(format!("the run's build record does not name kernel {lost}"));
    }
    match &now.built {
        Ok(built) => reasons.extend(compare(&launched, built).iter().map(|changed| format!("kernel {changed}"))),
        Err(why) => unknown.push(why.clone()),
    }
    for (what, compared) in [("harness", &now.harness), ("toolkit", &now.toolkit), ("image", &now.image)] {
        match compared {
            Ok(differ) if differ.is_empty() => {}
            Ok(differ) => reasons.push(format!("{what}: {}", differ.join(", "))),
            Err(why) if unknown.contains(why) => {}
            Err(why) => unknown.push(why.clone()),
        }
    }
    reasons.extend(basis.plan.iter().map(|differs| format!("plan: {differs}")));
    if !reasons.is_empty() {
        return Standing::Known(State::Stale, reasons);
    }
    if !unknown.is_empty() {
        return Standing::Unknown(unknown);
    }
    let changed = now.sources.as_ref().map_or(0, Vec::len);
    match (&entries.carried_over, changed) {
        (_, 0) => Standing::Known(State::Current, vec!["nothing it rests on has changed".to_owned()]),
        (Some(entry), _) => Standing::Known(State::CarriedOver, vec![format!("{entry}; {}", unchanged(changed))]),
        (None, _) => Standing::Known(State::Current, vec![unchanged(changed)]),
    }
}

fn unchanged(changed: usize) -> String {
    let files = if changed == 1 { "1 source file".to_owned() } else { format!("{changed} source files") };
    format!("{files} changed, but SASS, protocol, plan, toolkit and image did not")
}

/// What the notebook says of a run's numbers.
#[derive(Clone, Debug, Default)]
pub struct Entries {
    /// Retractions: what they withdraw (everything where absent), and which entry says so.
    retractions: Vec<(Option<String>, String)>,
    /// The entry that carries the run over.
    carried_over: Option<String>,
}

impl Entries {
    /// Reads the entries about a run; one that is withdrawn itself does not count.
    #[must_use]
    pub fn of_run(notebook: &Notebook, run: &str) -> Self {
        let mut entries = Self::default();
        for entry in notebook.standing().filter(|entry| entry.fields.run.as_deref() == Some(run)) {
            let told = format!("{}: {}", entry.id, entry.title);
            match entry.fields.kind {
                Kind::Retraction => {
                    entries.retractions.push((entry.fields.metric.clone(), format!("retracted by {told}")));
                }
                Kind::CarryOver => entries.carried_over = Some(format!("carried over by {told}")),
                _ => {}
            }
        }
        entries
    }

    /// What retracts a number, if anything does: its run as a whole, or its own metric, alone or with others.
    #[must_use]
    pub fn retracted(&self, id: &str) -> Option<String> {
        let fits = |metric: &Option<String>| metric.as_ref().is_none_or(|metric| withdraws(metric, id));
        self.retractions.iter().find(|(metric, _)| fits(metric)).map(|(_, told)| told.clone())
    }
}

#[cfg(test)]
mod tests;
