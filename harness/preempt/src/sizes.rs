//! Pure arithmetic behind a schedule: gaps between events, and how many tasks and events a launch gets. Reads no clock.

use harness_core::draws::Draws;

/// Bytes of one output tile: 64 by 64 float32.
const TILE_BYTES: u64 = 64 * 64 * 4;
/// The share of device memory that one launch's outputs may take.
const MEMORY_SHARE: u64 = 4;
/// How many more tasks a launch gets than its events are expected to use up, in per cent.
const MARGIN_PCT: u64 = 150;

/// Gaps spread evenly over 1 to 3 times the wall of `poll` tiles, in nanoseconds.
pub fn gaps(draws: &mut Draws, events: u32, tile_wall_ns: u32, poll: u32) -> Vec<u32> {
    let unit = tile_wall_ns.saturating_mul(poll);
    draws.stratified(events, unit.saturating_mul(2)).into_iter().map(|gap| unit.saturating_add(gap)).collect()
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
    use harness_core::draws::Seed;
    use proptest::prelude::*;

    fn draws() -> Draws {
        Seed::of("a", "yield", "x").draws()
    }

    #[test]
    fn gaps_span_one_to_three_units() {
        let gaps = gaps(&mut draws(), 4000, 1000, 4);
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
    }
}
