//! Whether the notebook allows a plan to run: it may have closed the work, a required decision may be missing, or
//! provenance may be recorded as missing.
//!
//! The same rule applies before the first step of a run, at the gate by the notebook of the measured commit, and
//! before a run is published. A withdrawn entry never counts.

use super::{Kind, Notebook, Status};
use schema::claim::ClaimFile;
use schema::plan::{Plan, Terms};
use schema::reopened::Reopened;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// What a notebook says of what a plan and its claims name, and nothing else of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Standing {
    /// The decisions that the plan requires and the notebook holds, by id.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub decisions: BTreeMap<String, Decision>,
    /// Closed work that the plan would do.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub closed: Vec<Closed>,
    /// Missing provenance that the plan or a claim needs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<Missing>,
}

/// A decision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Decision {
    /// Whether it allows what it speaks of.
    pub authorized: bool,
    /// The phases it speaks of, as `EXPERIMENT/PHASE`.
    pub phases: Vec<String>,
}

/// Closed work.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Closed {
    /// The entry that closed it.
    pub entry: String,
    /// Its name.
    pub topic: String,
    /// What would reopen it.
    pub reopens_when: String,
}

/// Missing provenance.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Missing {
    /// The entry that records it.
    pub entry: String,
    /// Its name.
    pub item: String,
}

/// Why a plan may not run, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Why.
    pub reason: String,
    /// What to do.
    pub remedy: &'static str,
}

const REOPEN: &str = "name what has changed: --reopen ID --changed CONDITION";
const AUTHORIZE: &str = "cargo xtask notebook authorize, committed before the commit that is measured";
const FIND: &str = "find what is missing, then cargo xtask notebook retract --about the entry that records it";

/// A name as it is compared: case and spacing do not make another work of it.
pub(super) fn folded(name: &str) -> String {
    name.split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase()
}

impl Standing {
    /// What `notebook` says of this plan and these claims.
    #[must_use]
    pub fn of(notebook: &Notebook, plan: &Plan, claims: &ClaimFile) -> Self {
        let required: BTreeSet<&String> = plan.terms.values().flat_map(|terms| &terms.requires).collect();
        let work: BTreeSet<String> = plan.phases.iter().flat_map(|phase| names(plan, phase)).collect();
        let needed: BTreeSet<String> = needs(plan, claims).iter().map(|(_, need)| folded(need)).collect();
        let mut standing = Self::default();
        for entry in notebook.standing() {
            let (id, fields) = (entry.id.clone(), &entry.fields);
            match (fields.kind, &fields.topic, &fields.reopens_when, &fields.item) {
                (Kind::Decision, ..) if required.contains(&id) => {
                    let (authorized, phases) = (fields.status == Status::Authorized, fields.phases.clone());
                    standing.decisions.insert(id, Decision { authorized, phases });
                }
                (Kind::Closed, Some(topic), Some(rule), _) if work.contains(&folded(topic)) => {
                    standing.closed.push(Closed { entry: id, topic: topic.clone(), reopens_when: rule.clone() });
                }
                (Kind::Missing, .., Some(item)) if needed.contains(&folded(item)) => {
                    standing.missing.push(Missing { entry: id, item: item.clone() });
                }
                _ => {}
            }
        }
        standing
    }

    /// Why the plan may not run; `reopened` is what the run says it takes up again.
    #[must_use]
    pub fn refusals(&self, plan: &Plan, claims: &ClaimFile, reopened: &[Reopened]) -> Vec<Refusal> {
        let mut refusals = Vec::new();
        let mut refuse = |reason, remedy| refusals.push(Refusal { reason, remedy });
        for phase in &plan.phases {
            let (named, path) = (names(plan, phase), path(plan, phase));
            for closed in self.closed.iter().filter(|closed| named.contains(&folded(&closed.topic))) {
                let taken_up = |taken: &Reopened| taken.entry == closed.entry && !taken.changed.trim().is_empty();
                if !reopened.iter().any(taken_up) {
                    let Closed { entry, topic, reopens_when } = closed;
                    let reason =
                        format!("phase {path} is closed work ({topic}, entry {entry}); it says: {reopens_when}");
                    refuse(reason, REOPEN);
                }
            }
            for id in plan.terms.get(phase).into_iter().flat_map(|terms| &terms.requires) {
                self.unauthorized(id, &path).into_iter().for_each(|reason| refuse(reason, AUTHORIZE));
            }
        }
        self.lacking(plan, claims).into_iter().for_each(|reason| refuse(reason, FIND));
        for taken in reopened.iter().filter(|taken| !self.closed.iter().any(|closed| closed.entry == taken.entry)) {
            let reason = format!("entry {} closes no work of this plan, so there is nothing to reopen", taken.entry);
            refuse(reason, "leave that --reopen out");
        }
        refusals
    }

    /// Why it may not run or be published for want of provenance.
    fn lacking(&self, plan: &Plan, claims: &ClaimFile) -> Vec<String> {
        let mut reasons = Vec::new();
        for (who, need) in needs(plan, claims) {
            for Missing { entry, item } in self.missing.iter().filter(|missing| folded(&missing.item) == folded(need)) {
                reasons.push(format!("{who} needs {item}, which entry {entry} records as missing"));
            }
        }
        reasons
    }

    fn unauthorized(&self, id: &str, phase: &str) -> Option<String> {
        match self.decisions.get(id) {
            None => Some(format!(
                "phase {phase} requires decision {id}, and the notebook before this run holds no such decision"
            )),
            Some(decision) if !decision.phases.iter().any(|named| named == phase) => {
                Some(format!("phase {phase} requires decision {id}, which speaks of {}", decision.phases.join(", ")))
            }
            Some(decision) if !decision.authorized => Some(format!("decision {id} turned phase {phase} down")),
            Some(_) => None,
        }
    }
}

/// Names under which a phase's work may have been closed: its experiment's, its own, and those the plan gives it.
fn names(plan: &Plan, phase: &str) -> Vec<String> {
    let given = plan.terms.get(phase).into_iter().flat_map(|terms| &terms.work);
    [&plan.experiment, &path(plan, phase)].into_iter().chain(given).map(|name| folded(name)).collect()
}

fn path(plan: &Plan, phase: &str) -> String {
    format!("{}/{phase}", plan.experiment)
}

/// The provenance that phases and claims need, each with who needs it.
fn needs<'a>(plan: &'a Plan, claims: &'a ClaimFile) -> Vec<(String, &'a String)> {
    let of_phase = |(phase, terms): (&'a String, &'a Terms)| {
        let who = format!("phase {}", path(plan, phase));
        terms.needs.iter().map(move |need| (who.clone(), need))
    };
    let phases = plan.terms.iter().flat_map(of_phase);
    let claims =
        claims.claim.iter().flat_map(|claim| claim.needs.iter().map(|need| (format!("claim {}", claim.id), need)));
    phases.chain(claims).collect()
}

impl Notebook {
    /// Why a run that was measured may not be published by what the notebook says today: it was withdrawn, or provenance of
    /// it, of a phase or of a claim is recorded as missing.
    #[must_use]
    pub fn bars(&self, run: &str, plan: &Plan, claims: &ClaimFile) -> Vec<String> {
        let of_run = |kind| self.standing_of(kind).filter(|entry| entry.fields.run.as_deref() == Some(run));
        let whole = of_run(Kind::Retraction).filter(|entry| entry.fields.metric.is_none());
        let withdrawn = whole.map(|entry| format!("entry {} retracts the run", entry.id));
        let lacking = of_run(Kind::Missing).filter_map(|entry| {
            let item = entry.fields.item.as_ref()?;
            Some(format!("entry {} records its {item} as missing", entry.id))
        });
        let needed = Standing::of(self, plan, claims).lacking(plan, claims);
        withdrawn.chain(lacking).chain(needed).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::book::notebook::{Flags, NewEntry, append, parse};
    use crate::trial::synthetic;
    use schema::plan::ProfileName;

    /// The text with the entry that these flags make.
    fn with(text: &str, kind: Kind, flags: &[(&'static str, &str)]) -> String {
        let mut given = Flags::from([("title", vec!["t".to_owned()]), ("text", vec!["p".to_owned()])]);
        given.extend(flags.iter().map(|(name, value)| (*name, vec![(*value).to_owned()])));
        append(text, NewEntry::of(&parse(text).unwrap(), kind.row(), "2026-01-01".into(), &given).unwrap()).unwrap()
    }

    fn closing(topic: &str) -> String {
        let said = ["evidence", "reason", "preserve"].map(|name| (name, "not stated"));
        let rule = [("topic", topic), ("reopens-when", "only with another pipeline")];
        with("# Notebook\n", Kind::Closed, &[&said[..], &rule].concat())
    }

    fn retracting(text: &str, id: &str) -> String {
        with(text, Kind::Retraction, &[("about", id), ("reason", "r")])
    }

    fn plan(terms: Terms) -> Plan {
        let plan = synthetic::frozen(&synthetic::plan(ProfileName::Smoke, 400));
        Plan { terms: BTreeMap::from([("yield".to_owned(), terms)]), ..plan }
    }

    fn claims(needs: &[&str]) -> ClaimFile {
        let mut claims = crate::trial::claims("1000");
        claims.claim[0].needs = needs.iter().map(|need| (*need).to_owned()).collect();
        claims
    }

    /// Expects each reason to hold these words, and as many reasons as words.
    #[track_caller]
    fn check(text: &str, plan: &Plan, claims: &ClaimFile, reopened: &[(&str, &str)], words: &[&str]) {
        let reopened =
            reopened.iter().map(|(entry, changed)| Reopened { entry: (*entry).into(), changed: (*changed).into() });
        let standing = Standing::of(&parse(text).unwrap(), plan, claims);
        let reasons = standing.refusals(plan, claims, &reopened.collect::<Vec<_>>());
        let reasons: Vec<String> = reasons.into_iter().map(|refusal| refusal.reason).collect();
        assert_eq!(reasons.len(), words.len(), "{reasons:?}");
        for (reason, word) in reasons.iter().zip(words) {
            assert!(reason.contains(word), "{reason:?} lacks {word:?}");
        }
    }

    #[test]
    fn closed_work_runs_only_with_the_changed_condition_named() {
        let named = plan(Terms { work: vec!["P0  Early K prefetch".into()], ..Terms::default() });
        for (topic, plan) in [("P0 early K prefetch", &named), ("preempt/yield", &plan(Terms::default()))] {
            let text = closing(topic);
            let none = claims(&[]);
            check(&text, plan, &none, &[], &["entry C-001); it says: only with another pipeline"]);
            check(&text, plan, &none, &[("C-001", " ")], &["entry C-001"]);
            check(&text, plan, &none, &[("C-001", "two producers now")], &[]);
            check(&text, plan, &none, &[("C-001", "x"), ("C-002", "x")], &["C-002 closes no work of this plan"]);
            check(&retracting(&text, "C-001"), plan, &none, &[], &[]);
        }
        let experiment = closing("Preempt");
        check(
            &experiment,
            &plan(Terms::default()),
            &claims(&[]),
            &[],
            &[
                "phase preempt/instrument is closed",
                "phase preempt/calibrate is closed",
                "phase preempt/baseline is closed",
                "phase preempt/yield is closed",
            ],
        );
        check(&closing("another"), &named, &claims(&[]), &[], &[]);
    }

    #[test]
    fn a_phase_waits_for_the_decision_that_authorizes_it() {
        let required = plan(Terms { requires: vec!["D-001".into()], ..Terms::default() });
        let deciding = |phase: &str, authorized: bool| {
            let flags = [("phase", phase), ("reject", "")];
            with("# Notebook\n", Kind::Decision, &flags[..if authorized { 1 } else { 2 }])
        };
        let check = |text: &str, words: &[&str]| check(text, &required, &claims(&[]), &[], words);
        check("# Notebook\n", &["requires decision D-001, and the notebook before this run holds no such decision"]);
        check(&deciding("preempt/yield", true), &[]);
        check(&deciding("preempt/baseline", true), &["which speaks of preempt/baseline"]);
        check(&deciding("preempt/yield", false), &["decision D-001 turned phase preempt/yield down"]);
        check(&retracting(&deciding("preempt/yield", true), "D-001"), &["holds no such decision"]);
        // An entry of another kind is no decision, whatever its id.
        let fault = NewEntry::of(&parse("").unwrap(), Kind::Fault.row(), "2026-01-01".into(), &Flags::new()).unwrap();
        let fault = NewEntry { id: "D-001".into(), title: "t".into(), ..fault };
        check(&append("# Notebook\n", fault).unwrap(), &["holds no such decision"]);
    }

    #[test]
    fn missing_provenance_blocks_what_needs_it_until_it_is_found() {
        let text = with("# Notebook\n", Kind::Missing, &[("item", "Canonical inputs")]);
        let needy = plan(Terms { needs: vec!["canonical inputs".into()], ..Terms::default() });
        check(
            &text,
            &needy,
            &claims(&[]),
            &[],
            &["phase preempt/yield needs Canonical inputs, which entry M-001 records as missing"],
        );
        check(&text, &plan(Terms::default()), &claims(&["canonical inputs"]), &[], &["claim T-1 needs"]);
        check(&text, &plan(Terms::default()), &claims(&["other inputs"]), &[], &[]);
        check(&retracting(&text, "M-001"), &needy, &claims(&[]), &[], &[]);
    }

    #[test]
    fn a_withdrawn_run_or_one_whose_provenance_is_missing_is_not_published() {
        let bars = |text: &str, claims: &ClaimFile| parse(text).unwrap().bars("r", &plan(Terms::default()), claims);
        let text = with("# Notebook\n", Kind::Missing, &[("item", "driver log"), ("run", "r")]);
        assert_eq!(bars(&text, &claims(&[])), ["entry M-001 records its driver log as missing"]);
        assert_eq!(bars(&text, &claims(&["driver log"])).len(), 2);
        let whole = with("# Notebook\n", Kind::Retraction, &[("run", "r"), ("reason", "why")]);
        assert_eq!(bars(&whole, &claims(&[])), ["entry R-001 retracts the run"]);
        assert!(bars("# Notebook\n", &claims(&["driver log"])).is_empty());
        // Work closed after it was measured is no reason to withhold it.
        assert!(bars(&closing("preempt/yield"), &claims(&[])).is_empty());
    }
}
