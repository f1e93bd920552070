//! Small bounded programs that, together, launch every kernel in every mode that a plan measures, for compute-sanitizer.
//!
//! A tool slows a kernel by up to two orders of magnitude, so grids, queues and schedules are tiny and deadlines generous.
//! Outputs are checked as in a measurement. Nothing here is measured or recorded.

use crate::launch::{BaselineLaunch, CalibrateLaunch, DrainLaunch, Drainer, LaunchRaw, PreemptLaunch};
use crate::launches::Launches;
use crate::plan::{Phase, PreemptPlan, Setter};
use crate::site;
use anyhow::ensure;
use harness_core::failure::fail;
use schema::ExitCode;
use schema::contract::ProgramSpec;
use std::collections::BTreeSet;

/// Blocks of a program's grid.
const BLOCKS: u32 = 3;
/// Tasks of a drain.
const TASKS: u32 = 12;
/// Events of a schedule.
const EVENTS: u32 = 3;
/// Tasks of a launch with events: enough that work is left whenever an event is due.
const EVENT_TASKS: u32 = 60;
/// The planned gap before an event.
const GAP_NS: u32 = 2_000;
/// Ping-pong rounds per SM.
const ROUNDS: u32 = 2;
/// After this the device gives up, also under a tool.
const DEADLINE_NS: u64 = 120_000_000_000;

/// One program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Program {
    /// Timer quantum and offsets.
    Timer,
    /// The calibrate kernel.
    Calibrate,
    /// Poll-free and polling drains without a schedule.
    Drain,
    /// A drain with an urgent kernel beside it.
    Baseline,
    /// A yield kernel with a schedule of events.
    Yield {
        /// Poll period in tiles.
        poll: u32,
        /// Who sets the flag.
        set: Setter,
    },
    /// Outputs spoiled on purpose, which the comparison must find.
    Check,
}

impl Program {
    /// Its name on the command line and in verdicts.
    #[must_use]
    pub fn name(self) -> String {
        match self {
            Self::Timer => "timer".to_owned(),
            Self::Calibrate => "calibrate".to_owned(),
            Self::Drain => "drain".to_owned(),
            Self::Baseline => "baseline".to_owned(),
            Self::Yield { poll, set } => format!("yield_p{poll}_{}", set.name()),
            Self::Check => "check".to_owned(),
        }
    }

    /// As the contract names it: every tile is copied, every event is met and claimed, and the timer works on no tile.
    #[must_use]
    pub fn spec(self) -> ProgramSpec {
        let sites: &[&str] = match self {
            Self::Timer => &[],
            Self::Calibrate | Self::Drain | Self::Baseline | Self::Check => &[site::COPY],
            Self::Yield { .. } => &[site::CLAIM, site::COPY, site::YIELD],
        };
        ProgramSpec { name: self.name(), sites: sites.iter().map(|site| (*site).to_owned()).collect() }
    }
}

/// The programs that together cover what a plan measures.
#[must_use]
pub fn programs(plan: &PreemptPlan) -> Vec<Program> {
    let mut programs = BTreeSet::from([Program::Check]);
    for phase in &plan.phases {
        match phase {
            // Legs are measured at poll 1 by both of these setters.
            Phase::Instrument => programs.extend([
                Program::Timer,
                Program::Drain,
                Program::Yield { poll: 1, set: Setter::Device },
                Program::Yield { poll: 1, set: Setter::Host },
            ]),
            Phase::Calibrate => programs.extend([Program::Calibrate]),
            Phase::Baseline => programs.extend([Program::Drain, Program::Baseline]),
            Phase::Yield => {
                let cells = plan.profile.yields.cells.iter();
                programs.extend(cells.map(|cell| Program::Yield { poll: cell.poll, set: cell.set }));
                programs.insert(Program::Drain);
            }
        }
    }
    programs.into_iter().collect()
}

/// Runs a program.
///
/// # Errors
/// When a launch fails, or did not do what the program is for; ends with [`ExitCode::Oracle`] where a planted wrong element is
/// not found.
pub fn run(launches: &mut Launches, plan: &PreemptPlan, program: Program) -> anyhow::Result<()> {
    let k = plan.profile.yields.k;
    match program {
        Program::Timer => launches.timer(ROUNDS).map(drop),
        Program::Calibrate => {
            plan.profile.calibrate.k.iter().try_for_each(|k| launches.calibrate(&calibrate(*k, false)).map(drop))
        }
        Program::Drain => {
            let polls = plan.profile.yields.cells.iter().map(|cell| cell.poll).chain([1]).collect::<BTreeSet<_>>();
            let drainers = [Drainer::PollFree].into_iter().chain(polls.into_iter().map(Drainer::Polling));
            drainers.into_iter().try_for_each(|drainer| launches.drain(&drain(drainer, k, false)).map(drop))
        }
        Program::Baseline => {
            let launch = BaselineLaunch { k, blocks: BLOCKS, tasks: TASKS, arrival_ns: GAP_NS, event_id: 1 };
            let raw = launches.baseline(&launch)?;
            ensure!(raw.launch.urgent_executed == 1, "the urgent kernel did not run exactly once");
            Ok(())
        }
        Program::Yield { poll, set } => events(launches, k, poll, set),
        Program::Check => {
            let calibrated = launches.calibrate(&calibrate(plan.profile.calibrate.k[0], true))?.launch;
            let drained = launches.drain(&drain(Drainer::PollFree, k, true))?;
            caught(&calibrated).and(caught(&drained))
        }
    }
}

fn calibrate(k: u32, poison: bool) -> CalibrateLaunch {
    CalibrateLaunch { k, blocks: BLOCKS, warmup_tiles: 1, tiles: 1, tail_tiles: 1, poison }
}

fn drain(drainer: Drainer, k: u32, poison: bool) -> DrainLaunch {
    DrainLaunch { drainer, k, blocks: BLOCKS, tasks: TASKS, poison }
}

fn events(launches: &mut Launches, k: u32, poll: u32, set: Setter) -> anyhow::Result<()> {
    let raw = launches.preempt(&PreemptLaunch {
        k,
        blocks: BLOCKS,
        poll,
        set,
        tasks: EVENT_TASKS,
        gaps_ns: vec![GAP_NS; EVENTS as usize],
        urgent_tiles: 1,
        first_generation: u32::MAX - 1,
        first_event_id: 0,
        delay: None,
        storm: false,
        deadline_ns: DEADLINE_NS,
    })?;
    let served = raw.launch.urgent_executed;
    ensure!(served == EVENTS && raw.launch.deadline_hits == 0, "{served} of {EVENTS} events were served");
    Ok(())
}

fn caught(raw: &LaunchRaw) -> anyhow::Result<()> {
    match raw.wrong_tiles {
        1 => Ok(()),
        found => Err(fail(ExitCode::Oracle, format!("the comparison found {found} wrong tiles where 1 was planted"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PREEMPT;
    use crate::emulated::Emulated;
    use crate::launch::Device;
    use harness_core::experiment::open;
    use harness_core::failure::code_of;
    use harness_core::sanitize::sanitize;
    use schema::plan::{Plan, PlanFile, ProfileName};
    use schema::progress::Progress;

    fn plan(profile: ProfileName, phases: &[Phase]) -> Plan {
        let phases: Vec<String> = phases.iter().map(|phase| phase.name().to_owned()).collect();
        PlanFile::parse(include_str!("../../experiments/preempt/plan.toml")).unwrap().freeze(profile, &phases).unwrap()
    }

    fn programs_of(profile: ProfileName, phases: &[Phase]) -> Vec<Program> {
        programs(&PreemptPlan::of(&plan(profile, phases)).unwrap())
    }

    fn run_program(name: &str) -> (anyhow::Result<()>, Vec<Progress>) {
        let mut lines = Vec::new();
        let mut bench = open(&PREEMPT, "emulated", None, "lineinfo").unwrap();
        let plan = plan(ProfileName::Smoke, &[]);
        let mut say = |line: &Progress| {
            lines.push(line.clone());
            Ok(())
        };
        let result = sanitize(&PREEMPT, &mut *bench, &plan, name, "n1", &mut say);
        (result, lines)
    }

    #[test]
    fn programs_follow_the_plan() {
        let names = |phases: &[Phase]| -> Vec<String> {
            programs_of(ProfileName::Full, phases).into_iter().map(Program::name).collect()
        };
        let all = "timer calibrate drain baseline yield_p1_device yield_p1_host yield_p1_kernel yield_p4_device check";
        assert_eq!(names(&[]).join(" "), all);
        assert_eq!(names(&[Phase::Calibrate]).join(" "), "timer calibrate drain yield_p1_device yield_p1_host check");
    }

    #[test]
    fn every_program_ends_with_its_marker() {
        for program in programs_of(ProfileName::Smoke, &[]) {
            let (result, lines) = run_program(&program.name());
            result.unwrap();
            let Some(Progress::End { nonce, launches, configs, wrong, .. }) = lines.last() else { panic!("{lines:?}") };
            assert!(nonce == "n1" && *launches > 0 && !configs.is_empty() && *wrong == 0);
        }
    }

    #[test]
    fn an_unknown_program_is_a_usage_error_that_lists_them() {
        let (result, lines) = run_program("nothing");
        let error = result.unwrap_err();
        assert!(code_of(&error) == ExitCode::Usage && error.to_string().contains("yield_p4_device"));
        assert!(lines.is_empty());
    }

    #[test]
    fn a_planted_element_that_is_not_found_is_an_oracle_failure() {
        let clean = Emulated::open().drain(&drain(Drainer::PollFree, 16, false)).unwrap();
        assert_eq!(code_of(&caught(&clean).unwrap_err()), ExitCode::Oracle);
    }
}
