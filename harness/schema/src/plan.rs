//! Plans: which profile and phases of an experiment a run measures, and the floors that hold for all of them.
//!
//! A plan file holds profiles (`smoke`, `quick`, `full`); a run freezes one of them as its own `plan.toml`. What the numbers of
//! a profile mean is the experiment's business, which makes a contract of them; here they are a table.

use crate::compare::Bands;
use anyhow::{Context, ensure};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// A plan file as written: one experiment with its profiles.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlanFile {
    /// Format version.
    pub format: u32,
    /// The experiment's name, which is also its folder's.
    pub experiment: String,
    /// One line for `list`.
    pub title: String,
    /// The experiment whose code measures it, where this one is another's in other sizes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
    /// The weakest clock class the plan accepts for publication.
    pub clocks: ClockClass,
    /// The phases in the order they run; the first one is part of every run.
    #[serde(default)]
    pub phases: Vec<String>,
    /// About how many minutes each profile measures on a GPU. For dry runs, never for a result.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub minutes: BTreeMap<ProfileName, f64>,
    /// What the notebook must say before a phase may run.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub terms: BTreeMap<String, Terms>,
    /// Differences between two runs that do not matter, by metric; where a metric has none, its default.
    #[serde(default, skip_serializing_if = "Bands::is_empty")]
    pub compare: Bands,
    /// Profiles by name, each a table of numbers by phase.
    pub profile: BTreeMap<ProfileName, toml::Table>,
}

/// One plan, frozen: what a run carries as `plan.toml`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// Format version.
    pub format: u32,
    /// The experiment's name.
    pub experiment: String,
    /// As in the plan file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
    /// Which profile of the plan file this is.
    pub profile_name: ProfileName,
    /// The weakest clock class the plan accepts for publication.
    pub clocks: ClockClass,
    /// The phases to run, in order.
    pub phases: Vec<String>,
    /// What the notebook must say before each of them may run.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub terms: BTreeMap<String, Terms>,
    /// As in the plan file.
    #[serde(default, skip_serializing_if = "Bands::is_empty")]
    pub compare: Bands,
    /// The profile's numbers by phase. All of them, since one phase may be sized by another's.
    pub profile: toml::Table,
}

impl PlanFile {
    /// Parses a plan file's text.
    ///
    /// # Errors
    /// When the text is not such a file (with line and column), or its format is newer than ours.
    pub fn parse(text: &str) -> anyhow::Result<Self> {
        let file: Self = toml::from_str(text)?;
        crate::check_format("the plan file", file.format)?;
        Ok(file)
    }

    /// Freezes one profile, restricted to `phases` (all of them when empty), in their own order; the first one always runs.
    ///
    /// # Errors
    /// When the file has no such profile or phase, or contradicts itself.
    pub fn freeze(&self, profile: ProfileName, phases: &[String]) -> anyhow::Result<Plan> {
        let numbers = self
            .profile
            .get(&profile)
            .with_context(|| format!("experiment {:?} has no profile {profile:?}", self.experiment))?;
        if let Some(other) = phases.iter().find(|phase| !self.phases.contains(phase)) {
            anyhow::bail!("experiment {:?} has no phase {other:?}; it has {}", self.experiment, self.phases.join(", "));
        }
        let wanted = |phase: &String| phases.is_empty() || Some(phase) == self.phases.first() || phases.contains(phase);
        let plan = Plan {
            format: self.format,
            experiment: self.experiment.clone(),
            program: self.program.clone(),
            profile_name: profile,
            clocks: self.clocks,
            phases: self.phases.iter().filter(|phase| wanted(phase)).cloned().collect(),
            terms: self.terms.clone().into_iter().filter(|(phase, _)| wanted(phase)).collect(),
            compare: self.compare.clone(),
            profile: numbers.clone(),
        };
        plan.check()?;
        Ok(plan)
    }
}

impl Plan {
    /// Parses a frozen plan's text and checks what holds for every experiment.
    ///
    /// # Errors
    /// When the text is not a plan, its format is newer than ours, or it contradicts itself.
    pub fn parse(text: &str) -> anyhow::Result<Self> {
        let plan: Self = toml::from_str(text)?;
        crate::check_format("the plan", plan.format)?;
        plan.check()?;
        Ok(plan)
    }

    /// The experiment whose code measures it, and whose kernels are launched.
    #[must_use]
    pub fn program(&self) -> &str {
        self.program.as_deref().unwrap_or(&self.experiment)
    }

    /// The numbers of a phase, as the experiment means them.
    ///
    /// # Errors
    /// When the profile has none, or they are not such numbers.
    pub fn numbers<T: DeserializeOwned>(&self, phase: &str) -> anyhow::Result<T> {
        let numbers = self.profile.get(phase).with_context(|| format!("the profile has no numbers of {phase:?}"))?;
        numbers.clone().try_into().with_context(|| format!("the profile's numbers of {phase:?}"))
    }

    fn check(&self) -> anyhow::Result<()> {
        ensure!(!self.phases.is_empty(), "phases is empty: name the experiment's phases in the order they run");
        let unique: BTreeSet<&String> = self.phases.iter().collect();
        ensure!(unique.len() == self.phases.len(), "phases names one phase twice");
        for (phase, Terms { work, requires, needs }) in &self.terms {
            ensure!(self.phases.contains(phase), "terms.{phase} speaks of a phase that does not run");
            for (field, words) in [("work", work), ("requires", requires), ("needs", needs)] {
                let name = format!("terms.{phase}.{field}");
                ensure!(words.iter().all(|word| !word.trim().is_empty()), "{name} holds a blank name");
                let unique: BTreeSet<&String> = words.iter().collect();
                ensure!(unique.len() == words.len(), "{name} names one thing twice");
            }
            let is_decision = |id: &&String| id.strip_prefix("D-").is_some_and(|n| n.parse::<u32>().is_ok());
            if let Some(other) = requires.iter().find(|id| !is_decision(id)) {
                anyhow::bail!("terms.{phase}.requires: {other:?} is no decision's id, such as D-001");
            }
        }
        for (metric, band) in &self.compare {
            let sound = |value: f64| value.is_finite() && value >= 0.0;
            ensure!(
                sound(band.pct) && sound(band.least),
                "compare.{metric} is pct = {} and least = {}: neither may be negative",
                band.pct,
                band.least
            );
        }
        Ok(())
    }
}

/// What ties a phase to the notebook.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Terms {
    /// Names of the work it is. Where the notebook closes one of them, the phase runs only with the changed condition named.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub work: Vec<String>,
    /// Decisions that must authorize it, by id, e.g. `D-001`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub requires: Vec<String>,
    /// Provenance it needs, by name. Where the notebook records one as missing, the phase does not run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub needs: Vec<String>,
}

/// The three sizes of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum ProfileName {
    /// Seconds; never claims a p99.
    Smoke,
    /// Under 30 minutes; enough to kick the tires.
    Quick,
    /// What is published.
    Full,
}

/// How steady the clocks were.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ClockClass {
    /// Neither locked nor steady.
    Unsteady,
    /// Not locked, but steady in-band.
    Stable,
    /// Locked through NVML, proven under load.
    Locked,
}

/// No p99 is claimed from fewer unique events than this; a plan can only ask for more.
pub const MIN_EVENTS_P99: u64 = 10_000;
/// No p99.9 is claimed from fewer unique events than this.
pub const MIN_EVENTS_P999: u64 = 100_000;
/// No p99 is claimed from fewer launches than this.
pub const MIN_LAUNCHES: u64 = 20;
/// The in-band clock stays within this share of the run's median, in per cent.
pub const CLOCK_BAND_PCT: f64 = 1.0;

/// What a device holds of each kernel, by name: `sms`, and `<kernel>_per_sm` for the blocks of a kernel that an SM holds at
/// once. Which kernels are listed is up to the experiment; the grid of its cells follows from them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Slots(BTreeMap<String, u32>);

impl Slots {
    /// The name under which the number of streaming multiprocessors is kept.
    const SMS: &str = "sms";

    /// A device with this many streaming multiprocessors and no kernel yet.
    #[must_use]
    pub fn of_sms(sms: u32) -> Self {
        Self::default().with(Self::SMS, sms)
    }

    /// The same with one more entry, which replaces an earlier one of that name.
    #[must_use]
    pub fn with(mut self, name: &str, count: u32) -> Self {
        self.0.insert(name.to_owned(), count);
        self
    }

    /// Streaming multiprocessors; 0 where they were not recorded.
    #[must_use]
    pub fn sms(&self) -> u32 {
        self.per_sm(Self::SMS)
    }

    /// Resident blocks per SM under this name, e.g. `drain_per_sm`; 0 where there is none.
    #[must_use]
    pub fn per_sm(&self, name: &str) -> u32 {
        self.0.get(name).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::Band;

    /// A plan of an experiment that nobody has made.
    const TEXT: &str = r#"
        format = 1
        experiment = "gelu"
        title = "A made-up experiment."
        clocks = "stable"
        phases = ["instrument", "forward", "backward"]

        [minutes]
        quick = 2.5

        [terms.backward]
        work = ["fusion"]
        requires = ["D-001"]

        [compare]
        ratio = { pct = 3.0 }

        [profile.smoke.forward]
        events = 7
    "#;

    fn file() -> PlanFile {
        PlanFile::parse(TEXT).unwrap()
    }

    fn smoke(phases: &[&str]) -> anyhow::Result<Plan> {
        file().freeze(ProfileName::Smoke, &phases.iter().map(|phase| (*phase).to_owned()).collect::<Vec<_>>())
    }

    /// Breaks a sound plan and expects both freezing's check and a reader's to say so.
    fn check_refused(break_it: impl FnOnce(&mut Plan), expected: &str) {
        let mut plan = smoke(&[]).unwrap();
        break_it(&mut plan);
        let message = Plan::parse(&toml::to_string(&plan).unwrap()).unwrap_err().to_string();
        assert!(message.contains(expected), "{message:?} lacks {expected:?}");
    }

    #[test]
    fn a_frozen_plan_survives_its_own_text() {
        let plan = smoke(&[]).unwrap();
        assert_eq!(plan.phases, ["instrument", "forward", "backward"]);
        assert_eq!(plan.profile["forward"]["events"].as_integer(), Some(7));
        assert_eq!(Plan::parse(&toml::to_string(&plan).unwrap()).unwrap(), plan);
    }

    #[test]
    fn the_first_phase_always_runs_and_the_order_is_the_files() {
        let check = |asked: &[&str], expected: &[&str]| assert_eq!(smoke(asked).unwrap().phases, expected);
        check(&["forward"], &["instrument", "forward"]);
        check(&["backward", "forward"], &["instrument", "forward", "backward"]);
        check(&["instrument"], &["instrument"]);
    }

    #[test]
    fn what_a_file_does_not_have_is_not_frozen() {
        let error = smoke(&["sideways"]).unwrap_err().to_string();
        assert_eq!(error, "experiment \"gelu\" has no phase \"sideways\"; it has instrument, forward, backward");
        let error = file().freeze(ProfileName::Full, &[]).unwrap_err().to_string();
        assert_eq!(error, "experiment \"gelu\" has no profile Full");
    }

    #[test]
    fn a_phase_takes_its_terms_along() {
        assert_eq!(smoke(&[]).unwrap().terms["backward"].work, ["fusion"]);
        assert!(smoke(&["forward"]).unwrap().terms.is_empty());
    }

    #[test]
    fn bands_are_optional_and_survive_freezing() {
        let plan = smoke(&[]).unwrap();
        assert_eq!(plan.compare["ratio"], Band { pct: 3.0, least: 0.0 });
        let plain = Plan { compare: Bands::new(), ..plan };
        let text = toml::to_string(&plain).unwrap();
        assert!(!text.contains("compare"));
        assert_eq!(Plan::parse(&text).unwrap(), plain);
    }

    #[test]
    fn a_plan_that_contradicts_itself_is_refused() {
        check_refused(|plan| plan.phases.clear(), "phases is empty");
        check_refused(|plan| plan.phases.push("forward".to_owned()), "names one phase twice");
        let band =
            |pct, least| move |plan: &mut Plan| plan.compare = Bands::from([("ratio".to_owned(), Band { pct, least })]);
        check_refused(band(-1.0, 0.0), "compare.ratio is pct = -1");
        check_refused(band(1.0, f64::NAN), "least = NaN");
        check_refused(|plan| plan.format = crate::FORMAT + 1, "newer Assay");
    }

    #[test]
    fn terms_that_tie_a_phase_to_nothing_are_named() {
        let with = |terms: Terms| move |plan: &mut Plan| drop(plan.terms.insert("forward".to_owned(), terms));
        let named = |word: &str| vec![word.to_owned()];
        check_refused(with(Terms { work: named(" "), ..Terms::default() }), "terms.forward.work holds a blank name");
        check_refused(with(Terms { requires: named("P-001"), ..Terms::default() }), "\"P-001\" is no decision's id");
        check_refused(with(Terms { needs: vec!["x".into(), "x".into()], ..Terms::default() }), "names one thing twice");
        check_refused(|plan| plan.phases.truncate(1), "terms.backward speaks of a phase that does not run");
    }

    #[test]
    fn a_typo_is_reported_with_its_line() {
        let message = PlanFile::parse(&TEXT.replacen("clocks =", "clock =", 1)).unwrap_err().to_string();
        assert!(message.contains("line") && message.contains("clock"), "{message}");
    }

    #[test]
    fn a_slot_that_was_not_recorded_holds_nothing() {
        let slots = Slots::of_sms(132).with("drain_per_sm", 5);
        assert_eq!((slots.sms(), slots.per_sm("drain_per_sm"), slots.per_sm("yield_per_sm")), (132, 5, 0));
        assert_eq!(Slots::default().sms(), 0);
    }
}
