//! The plan of the `preempt` experiment: its phases, its numbers, and the cells that follow from them on a device.
//!
//! Cells are enumerated here, by pure code. Nothing here launches anything.

mod check;
mod contract;
pub mod estimate;

use anyhow::Context;
use schema::plan::{Plan, ProfileName, Slots};
use serde::{Deserialize, Serialize};

/// A frozen plan, read as this experiment's.
#[derive(Clone, Debug, PartialEq)]
pub struct PreemptPlan {
    /// The experiment's name; a variation of preempt has its own folder.
    pub experiment: String,
    /// Which profile this is.
    pub profile_name: ProfileName,
    /// The phases to run, in order; `instrument` always comes first.
    pub phases: Vec<Phase>,
    /// The profile's numbers.
    pub profile: Profile,
}

impl PreemptPlan {
    /// Reads a frozen plan and checks its numbers.
    ///
    /// # Errors
    /// When it names an unknown phase or number, or is impossible on any device.
    pub fn of(plan: &Plan) -> anyhow::Result<Self> {
        let known = |name: &String| Phase::ALL.into_iter().find(|phase| phase.name() == name);
        let phases =
            plan.phases.iter().map(|name| known(name).with_context(|| format!("preempt has no phase {name:?}")));
        let profile = plan.profile.clone().try_into().context("the profile's numbers")?;
        let plan = Self {
            experiment: plan.experiment.clone(),
            profile_name: plan.profile_name,
            phases: phases.collect::<anyhow::Result<_>>()?,
            profile,
        };
        plan.check()?;
        Ok(plan)
    }
}

/// A phase of the `preempt` experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// Timer quantum, cross-SM offsets, planted delays.
    Instrument,
    /// Phase 1: tile walls.
    Calibrate,
    /// Phase 2: the wait when nothing yields.
    Baseline,
    /// Phase 3: yield at tile boundaries.
    Yield,
}

impl Phase {
    /// All phases in the order they run.
    pub const ALL: [Self; 4] = [Self::Instrument, Self::Calibrate, Self::Baseline, Self::Yield];

    /// The name used in paths and on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Instrument => "instrument",
            Self::Calibrate => "calibrate",
            Self::Baseline => "baseline",
            Self::Yield => "yield",
        }
    }
}

/// The numbers of one profile.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// Numbers of the instrument phase.
    pub instrument: InstrumentPlan,
    /// Numbers of phase 1.
    pub calibrate: CalibratePlan,
    /// Numbers of phase 2.
    pub baseline: BaselinePlan,
    /// Numbers of phase 3.
    #[serde(rename = "yield")]
    pub yields: YieldPlan,
}

/// How the timer is measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InstrumentPlan {
    /// Ping-pong rounds per SM for the cross-SM offset.
    pub offset_rounds: u32,
    /// Events per leg with a planted delay, half of them delayed.
    pub delay_events: u32,
    /// The planted delay in nanoseconds.
    pub delay_ns: u32,
}

/// Phase 1: tile walls by K and residency.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CalibratePlan {
    /// Inner dimensions; each a multiple of the kernel's chunk ([`K_CHUNK`]).
    pub k: Vec<u32>,
    /// Blocks per SM, from 1 to the most given here or the most the device holds, whichever is smaller.
    pub max_blocks_per_sm: u32,
    /// Launches per cell.
    pub launches: u32,
    /// Tiles of each block whose ends are recorded, at most. What counts is the time in which every block still has room.
    pub tiles: u32,
    /// Tiles before that, a block on average.
    pub warmup_tiles: u32,
    /// Tiles after that, a block on average, so that the load stays.
    pub tail_tiles: u32,
}

/// Phase 2: the wait when nothing yields.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BaselinePlan {
    /// Inner dimension of background and urgent tiles.
    pub k: u32,
    /// Residency shapes.
    pub blocks: Vec<Residency>,
    /// Events per cell; one drain each.
    pub events: u32,
    /// Drains discarded before the first event.
    pub warmup_launches: u32,
    /// The drain's length, which sets the number of tiles, in microseconds.
    pub drain_us: u32,
}

/// Phase 3: yield at tile boundaries.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct YieldPlan {
    /// Inner dimension of background and urgent tiles.
    pub k: u32,
    /// The cells, each with its own latency and cost.
    pub cells: Vec<YieldCell>,
    /// Events per cell.
    pub events: u32,
    /// Event launches per cell, over which the events are spread evenly.
    pub launches: u32,
    /// Event launches discarded before the first one kept.
    pub warmup_launches: u32,
    /// ABBA quads of drains per cell with a cost.
    pub cost_quads: u32,
    /// The drain's length, which sets the number of tiles, in microseconds.
    pub drain_us: u32,
}

/// One cell of phase 3.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct YieldCell {
    /// How many blocks.
    pub blocks: Residency,
    /// Poll period in tiles; one of the periods the kernel is built for.
    pub poll: u32,
    /// Who sets the flag.
    pub set: Setter,
    /// Whether the polling cost is measured as well.
    pub cost: bool,
}

/// Who sets the flag.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Setter {
    /// Block 0, by its own schedule.
    Device,
    /// The host writes a mapped word; block 0 relays it.
    Host,
    /// A separate one-block kernel that takes a counted slot.
    Kernel,
}

impl Setter {
    /// The name used in cells.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Device => "device",
            Self::Host => "host",
            Self::Kernel => "kernel",
        }
    }
}

/// A number of blocks, as a number or relative to the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Residency {
    /// This many blocks.
    Blocks(u32),
    /// One block on each SM.
    Sms,
    /// As many blocks as the device holds at once.
    Full,
    /// All but one of the slots.
    OneOpen,
}

impl Residency {
    /// The number of blocks on a device with `sms` SMs that holds `per_sm` blocks of the kernel on each.
    #[must_use]
    pub fn blocks(self, sms: u32, per_sm: u32) -> u32 {
        match self {
            Self::Blocks(n) => n,
            Self::Sms => sms,
            Self::Full => sms * per_sm,
            Self::OneOpen => sms * per_sm - 1,
        }
    }
}

impl Serialize for Residency {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Blocks(n) => serializer.serialize_u32(*n),
            Self::Sms => serializer.serialize_str("sms"),
            Self::Full => serializer.serialize_str("full"),
            Self::OneOpen => serializer.serialize_str("one_open"),
        }
    }
}

impl<'de> Deserialize<'de> for Residency {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged, expecting = "expected a number of blocks, \"sms\", \"full\" or \"one_open\"")]
        enum Raw {
            Number(u32),
            Word(String),
        }
        match Raw::deserialize(deserializer)? {
            Raw::Number(n) => Ok(Self::Blocks(n)),
            Raw::Word(word) => match word.as_str() {
                "sms" => Ok(Self::Sms),
                "full" => Ok(Self::Full),
                "one_open" => Ok(Self::OneOpen),
                _ => Err(serde::de::Error::custom(format!(
                    "{word:?} is not a number of blocks, \"sms\", \"full\" or \"one_open\""
                ))),
            },
        }
    }
}

/// The chunk of the inner dimension that the tile kernel stages at once, in elements. `tile.cuh` holds the same number.
pub const K_CHUNK: u32 = 16;
/// Smallest inner dimension: the tile kernel copies the next tile's first chunk while it multiplies the last one.
pub const LEAST_K: u32 = 2 * K_CHUNK;
/// Largest inner dimension whose float32 sums stay exact: inputs are integers up to 4 in size, and float32 holds 24 bits.
pub const MOST_K: u32 = (1 << 24) / (4 * 4);
/// The poll periods that `yield.cu` is built for, in tiles.
pub const POLL_PERIODS: [u32; 2] = [1, 4];
/// One point of the sweep.
#[derive(Clone, Debug, PartialEq)]
pub struct Cell {
    /// Its phase.
    pub phase: Phase,
    /// Its name: `key=value` pairs joined by commas, in plan order.
    pub name: String,
    /// What to do.
    pub work: Work,
}

/// What a cell does.
#[derive(Clone, Debug, PartialEq)]
pub enum Work {
    /// Timer quantum and cross-SM offset. Cell `timer`.
    Timer,
    /// Planted delay in one leg. Cell `leg=…`.
    Delay(Leg),
    /// Tile walls. Cell `k=…,blocks=…`.
    Calibrate {
        /// Inner dimension.
        k: u32,
        /// Blocks in the grid.
        blocks: u32,
    },
    /// Urgent wait without yielding. Cell `k=…,blocks=…`.
    Baseline {
        /// Inner dimension.
        k: u32,
        /// Blocks in the grid.
        blocks: u32,
    },
    /// Latency of a yield. Cell `k=…,blocks=…,poll=…,set=…`.
    Yield {
        /// Inner dimension.
        k: u32,
        /// Blocks in the grid, block 0 included.
        blocks: u32,
        /// Poll period in tiles.
        poll: u32,
        /// Who sets the flag.
        set: Setter,
    },
    /// Cost of polling. Cell `cost,k=…,blocks=…,poll=…`.
    Cost {
        /// Inner dimension.
        k: u32,
        /// Blocks in the polling grid.
        blocks: u32,
        /// Poll period in tiles.
        poll: u32,
    },
}

/// One leg of an event's timeline, where a delay can be planted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Leg {
    /// From the host's write to the set instant (host-set events).
    HostToSet = 1,
    /// From the set instant to the first observation.
    SetToObserved = 2,
    /// From a block's observation to its readiness.
    ObservedToReady = 3,
    /// From the claimer's readiness to the urgent tile's start.
    ReadyToUrgent = 4,
    /// From the urgent tile's start to its end.
    Urgent = 5,
    /// From the urgent tile's end to its observation by the host (host-set events).
    DoneToHost = 6,
}

impl Leg {
    /// Every leg.
    pub const ALL: [Self; 6] = [
        Self::HostToSet,
        Self::SetToObserved,
        Self::ObservedToReady,
        Self::ReadyToUrgent,
        Self::Urgent,
        Self::DoneToHost,
    ];

    /// The name used in cells.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::HostToSet => "host_to_set",
            Self::SetToObserved => "set_to_observed",
            Self::ObservedToReady => "observed_to_ready",
            Self::ReadyToUrgent => "ready_to_urgent",
            Self::Urgent => "urgent",
            Self::DoneToHost => "done_to_host",
        }
    }
}

impl PreemptPlan {
    /// Every cell of this plan on a device with these slots, in the order they run.
    #[must_use]
    pub fn cells(&self, slots: &Slots) -> Vec<Cell> {
        let profile = &self.profile;
        let mut cells = Vec::new();
        for phase in &self.phases {
            let mut add = |name: String, work: Work| cells.push(Cell { phase: *phase, name, work });
            match phase {
                Phase::Instrument => {
                    add("timer".to_owned(), Work::Timer);
                    for leg in Leg::ALL {
                        add(format!("leg={}", leg.name()), Work::Delay(leg));
                    }
                }
                Phase::Calibrate => {
                    let most = profile.calibrate.max_blocks_per_sm.min(slots.per_sm("calibrate_per_sm"));
                    for k in &profile.calibrate.k {
                        for per_sm in 1..=most {
                            let blocks = per_sm * slots.sms();
                            add(format!("k={k},blocks={blocks}"), Work::Calibrate { k: *k, blocks });
                        }
                    }
                }
                Phase::Baseline => {
                    let k = profile.baseline.k;
                    for residency in &profile.baseline.blocks {
                        let blocks = residency.blocks(slots.sms(), slots.per_sm("drain_per_sm"));
                        add(format!("k={k},blocks={blocks}"), Work::Baseline { k, blocks });
                    }
                }
                Phase::Yield => {
                    let k = profile.yields.k;
                    for cell in &profile.yields.cells {
                        let (poll, set) = (cell.poll, cell.set);
                        let blocks = cell.blocks.blocks(slots.sms(), slots.per_sm("yield_per_sm"));
                        let name = format!("k={k},blocks={blocks},poll={poll},set={}", set.name());
                        add(name, Work::Yield { k, blocks, poll, set });
                        if cell.cost {
                            add(format!("cost,k={k},blocks={blocks},poll={poll}"), Work::Cost { k, blocks, poll });
                        }
                    }
                }
            }
        }
        cells
    }
}
