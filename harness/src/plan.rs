//! Pure arithmetic behind a schedule: seeds, gaps, arrivals and sizes. Launches nothing, reads no clock.

use schema::Digest;
use schema::plan::Phase;

/// Bytes of one output tile: 64 by 64 float32.
const TILE_BYTES: u64 = 64 * 64 * 4;
/// The share of device memory that one launch's outputs may take.
const MEMORY_SHARE: u64 = 4;
/// How many more tasks a launch gets than its events are expected to use up, in per cent.
const MARGIN_PCT: u64 = 150;

/// The seed of one cell's schedule. It follows from plan, phase and cell, so a resumed cell repeats its schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seed(u64);

impl Seed {
    /// The seed of a cell.
    #[must_use]
    pub fn of(plan: Digest, phase: Phase, cell: &str) -> Self {
        let digest = Digest::of(format!("{plan}\n{}\n{cell}", phase.name())).to_string();
        Self(u64::from_str_radix(&digest[..16], 16).expect("a digest is hex"))
    }

    /// As the cell's header carries it.
    #[must_use]
    pub fn hex(self) -> String {
        format!("{:016x}", self.0)
    }

    /// The numbers drawn from this seed, in order.
    #[must_use]
    pub fn draws(self) -> Draws {
        Draws { seed: self.0, counter: 0 }
    }
}

/// A counter-based generator: the SplitMix64 finaliser over seed and counter.
#[derive(Clone, Debug)]
pub struct Draws {
    seed: u64,
    counter: u64,
}

impl Draws {
    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.counter += 1;
        let mut z = self.seed.wrapping_add(self.counter.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number uniform in `0..bound`; 0 when the bound is 0.
    pub fn below(&mut self, bound: u32) -> u32 {
        let scaled = u128::from(self.bits()) * u128::from(bound);
        u32::try_from(scaled >> 64).expect("below a 32-bit bound")
    }

    /// Gaps uniform in 1 to 3 times the wall of `poll` tiles.
    pub fn gaps(&mut self, events: u32, tile_wall_ns: u32, poll: u32) -> Vec<u32> {
        let unit = tile_wall_ns.saturating_mul(poll);
        (0..events).map(|_| unit.saturating_add(self.below(unit.saturating_mul(2)))).collect()
    }
}

/// The most tasks a launch may have, so that its outputs take at most a quarter of the device's memory.
#[must_use]
pub fn most_tasks(memory_bytes: u64) -> u32 {
    u32::try_from(memory_bytes / MEMORY_SHARE / TILE_BYTES).unwrap_or(u32::MAX).max(1)
}

/// Tasks that make a drain take `target_ns`, from one that took `wall_ns`; at least one a block.
#[must_use]
pub fn scale_tasks(tasks: u32, wall_ns: u32, target_ns: u64, blocks: u32, most: u32) -> u32 {
    let scaled = u64::from(tasks) * target_ns / u64::from(wall_ns.max(1));
    u32::try_from(scaled).unwrap_or(u32::MAX).clamp(blocks.min(most), most)
}

/// How the events of a cell are spread over launches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spread {
    /// Launches that are kept.
    pub launches: u32,
    /// Events of each.
    pub events: u32,
    /// Tasks of each.
    pub tasks: u32,
}

/// Spreads `events` evenly over `launches`, rounded up, or over more launches where one launch's tasks would not fit.
#[must_use]
pub fn spread(events: u32, launches: u32, tasks_per_event: u32, blocks: u32, most: u32) -> Spread {
    let tail = blocks.saturating_mul(8);
    let room = u64::from(most.saturating_sub(tail)) * 100 / MARGIN_PCT / u64::from(tasks_per_event.max(1));
    let per_launch = u64::from(events.div_ceil(launches)).min(room).max(1);
    let tasks = per_launch * u64::from(tasks_per_event) * MARGIN_PCT / 100 + u64::from(tail);
    let per_launch = u32::try_from(per_launch).expect("at most the events asked for");
    Spread {
        launches: events.div_ceil(per_launch),
        events: per_launch,
        tasks: u32::try_from(tasks).unwrap_or(u32::MAX).min(most),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn seeds_differ_by_plan_phase_and_cell_and_repeat() {
        let (a, b) = (Digest::of("a"), Digest::of("b"));
        let seeds = [
            Seed::of(a, Phase::Yield, "x"),
            Seed::of(b, Phase::Yield, "x"),
            Seed::of(a, Phase::Baseline, "x"),
            Seed::of(a, Phase::Yield, "y"),
        ];
        for (i, seed) in seeds.iter().enumerate() {
            assert!(!seeds[..i].contains(seed));
        }
        assert_eq!(seeds[0].draws().bits(), Seed::of(a, Phase::Yield, "x").draws().bits());
        assert_eq!(seeds[0].hex().len(), 16);
    }

    #[test]
    fn draws_are_the_published_splitmix64_sequence() {
        let mut draws = Draws { seed: 1_234_567, counter: 0 };
        let known = [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423_u64];
        assert_eq!([draws.bits(), draws.bits(), draws.bits()], known);
    }

    #[test]
    fn gaps_span_one_to_three_units() {
        let gaps = Seed(9).draws().gaps(4000, 1000, 4);
        assert!(gaps.iter().all(|gap| (4000..12_000).contains(gap)));
        assert!(gaps.iter().any(|gap| *gap < 4200) && gaps.iter().any(|gap| *gap > 11_800));
        let mean = gaps.iter().map(|gap| u64::from(*gap)).sum::<u64>() / 4000;
        assert!((7700..8300).contains(&mean), "{mean}");
    }

    #[test]
    fn a_launch_that_would_not_fit_is_split() {
        assert_eq!(spread(40, 2, 16, 4, 10_000), Spread { launches: 2, events: 20, tasks: 512 });
        assert_eq!(spread(41, 2, 16, 4, 10_000).events, 21);
        let tight = spread(40, 2, 16, 4, 200);
        assert_eq!(tight, Spread { launches: 6, events: 7, tasks: 200 });
        assert_eq!(spread(5, 1, 1000, 4, 10).events, 1);
    }

    #[test]
    fn tasks_scale_towards_the_target() {
        assert_eq!(scale_tasks(100, 1000, 5000, 4, 10_000), 500);
        assert_eq!(scale_tasks(100, 1000, 1, 4, 10_000), 4);
        assert_eq!(scale_tasks(100, 0, u64::MAX / 100, 4, 10_000), 10_000);
        assert_eq!(most_tasks(256 << 20), 4096);
    }

    proptest! {
        #[test]
        fn a_spread_covers_all_events_and_fits(
            events in 1_u32..20_000, launches in 1_u32..40, per_event in 1_u32..20_000, blocks in 1_u32..700,
            most in 6000_u32..3_000_000,
        ) {
            let spread = spread(events, launches, per_event, blocks, most);
            prop_assert!(u64::from(spread.launches) * u64::from(spread.events) >= u64::from(events));
            prop_assert!(spread.tasks <= most);
        }

        #[test]
        fn draws_stay_below_their_bound(seed: u64, bound in 1_u32..) {
            prop_assert!(Seed(seed).draws().below(bound) < bound);
        }
    }
}
