//! Turns what a launch recorded into one row for each event; each kind of anomaly is a bit of the row. Pure.

use crate::launch::PreemptRaw;
use crate::plan::{Leg, Setter};
use crate::tables::{BLOCK_ROWS, YIELDS, anomaly};
use schema::timer::delayed_event;
use tables::{Column, Table};

const OBSERVED: u8 = 1;
const READY: u8 = 2;

/// What the rows depend on besides the launch.
#[derive(Clone, Debug)]
pub struct Planned<'a> {
    /// The launch's number in its cell.
    pub launch: u32,
    /// Blocks in the grid, the one that only sets included.
    pub blocks: u32,
    /// Who set the flag.
    pub set: Setter,
    /// Urgent tiles per event.
    pub urgent_tiles: u32,
    /// The planned gap before each event.
    pub gaps_ns: &'a [u32],
    /// The leg in which a delay is planted.
    pub delay: Option<Leg>,
    /// How far an interval between two SMs may be negative.
    pub tolerance_ns: i64,
}

/// One event; fields are named as in [`YIELDS`].
#[derive(Clone, Debug, Default, PartialEq)]
#[expect(missing_docs, reason = "named as in YIELDS, which gives meaning and unit")]
pub struct EventRow {
    pub launch: u32,
    pub event: u32,
    pub set_ns: i64,
    pub gap_ns: u32,
    pub first_observer_ns: i64,
    pub last_observer_ns: i64,
    pub last_ready_ns: i64,
    pub visibility_ns: Option<i64>,
    pub observers: u32,
    pub ready: u32,
    pub claimer: u32,
    pub claimer_observed_ns: i64,
    pub claimer_ready_ns: i64,
    pub urgent_start_ns: i64,
    pub urgent_done_ns: i64,
    pub claims: u32,
    pub host_issue_ns: Option<i64>,
    pub host_done_ns: Option<i64>,
    pub delay_leg: u32,
    pub delay_ns: i64,
    pub anomaly: u32,
}

/// One block's view of one event, from the set instant.
#[derive(Clone, Copy, Debug)]
struct View {
    block: usize,
    observed_ns: i64,
    ready_ns: Option<i64>,
    last_old_ns: i64,
}

/// One row for each event of a launch.
#[must_use]
pub fn rows(raw: &PreemptRaw, planned: &Planned) -> Vec<EventRow> {
    (0..raw.set_ns.len()).map(|event| row(raw, planned, event)).collect()
}

/// Adds one row a block that observed an event, in the order of [`BLOCK_ROWS`].
pub fn add_block_rows(columns: &mut [Vec<u32>; 7], raw: &PreemptRaw, planned: &Planned) {
    let blocks = planned.blocks as usize;
    for (event, set_ns) in raw.set_ns.iter().enumerate() {
        let from_set = |low: u32| low.wrapping_sub(low_bits(*set_ns));
        for block in (0..blocks).filter(|block| raw.seen[event * blocks + block] & OBSERVED != 0) {
            let cell = event * blocks + block;
            let row = [
                planned.launch,
                narrow(event),
                narrow(block),
                raw.launch.trace.block_sm.get(block).copied().unwrap_or(u32::MAX),
                from_set(raw.observed_ns[cell]),
                if raw.seen[cell] & READY == 0 { u32::MAX } else { from_set(raw.ready_ns[cell]) },
                from_set(raw.last_old_ns[cell]),
            ];
            columns.iter_mut().zip(row).for_each(|(column, value)| column.push(value));
        }
    }
}

/// The table of [`add_block_rows`].
#[must_use]
pub fn block_table(columns: [Vec<u32>; 7]) -> Table {
    let named = BLOCK_ROWS.iter().zip(columns);
    named.fold(Table::new(), |table, (name, column)| table.with(name, Column::U32(column)))
}

/// The event table, in the order of [`YIELDS`].
#[must_use]
pub fn table(rows: &[EventRow]) -> Table {
    let count = |value: fn(&EventRow) -> u32| Column::U32(rows.iter().map(value).collect());
    let ns = |value: fn(&EventRow) -> i64| Column::I64(rows.iter().map(value).collect());
    let maybe = |value: fn(&EventRow) -> Option<i64>| Column::OptI64(rows.iter().map(value).collect());
    let columns = [
        count(|row| row.launch),
        count(|row| row.event),
        ns(|row| row.set_ns),
        count(|row| row.gap_ns),
        ns(|row| row.first_observer_ns),
        ns(|row| row.last_observer_ns),
        ns(|row| row.last_ready_ns),
        maybe(|row| row.visibility_ns),
        count(|row| row.observers),
        count(|row| row.ready),
        count(|row| row.claimer),
        ns(|row| row.claimer_observed_ns),
        ns(|row| row.claimer_ready_ns),
        ns(|row| row.urgent_start_ns),
        ns(|row| row.urgent_done_ns),
        count(|row| row.claims),
        maybe(|row| row.host_issue_ns),
        maybe(|row| row.host_done_ns),
        count(|row| row.delay_leg),
        ns(|row| row.delay_ns),
        count(|row| row.anomaly),
    ];
    crate::tables::table(YIELDS, columns)
}

fn row(raw: &PreemptRaw, planned: &Planned, event: usize) -> EventRow {
    let set_ns = raw.set_ns[event];
    let mut row = EventRow {
        launch: planned.launch,
        event: narrow(event),
        gap_ns: planned.gaps_ns[event],
        claimer: u32::MAX,
        delay_leg: planned.delay.filter(|_| delayed_event(narrow(event))).map_or(0, |leg| leg as u32),
        delay_ns: i64::from(raw.delay_ns[event]),
        ..EventRow::default()
    };
    if raw.launch.deadline_hits > 0 {
        row.anomaly |= anomaly::DEADLINE;
    }
    if set_ns == 0 {
        row.anomaly |= anomaly::LOST;
        return row;
    }
    row.set_ns = difference(set_ns, raw.start_ns);
    let views = views(raw, planned.blocks as usize, event, set_ns);
    observe(&mut row, &views, planned);
    urgent(&mut row, raw, planned, event, &views);
    host(&mut row, raw, planned, event);
    row
}

/// What the blocks saw of an event.
fn views(raw: &PreemptRaw, blocks: usize, event: usize, set_ns: u64) -> Vec<View> {
    let from_set = |low: u32| i64::from(low.wrapping_sub(low_bits(set_ns)).cast_signed());
    let view = |block: usize| {
        let cell = event * blocks + block;
        let ready = raw.seen[cell] & READY != 0;
        View {
            block,
            observed_ns: from_set(raw.observed_ns[cell]),
            ready_ns: ready.then(|| from_set(raw.ready_ns[cell])),
            last_old_ns: from_set(raw.last_old_ns[cell]),
        }
    };
    (0..blocks).filter(|block| raw.seen[event * blocks + block] & OBSERVED != 0).map(view).collect()
}

fn observe(row: &mut EventRow, views: &[View], planned: &Planned) {
    let expected = planned.blocks - 1;
    row.observers = narrow(views.len());
    row.ready = narrow(views.iter().filter(|view| view.ready_ns.is_some()).count());
    row.first_observer_ns = views.iter().map(|view| view.observed_ns).min().unwrap_or(0);
    row.last_observer_ns = views.iter().map(|view| view.observed_ns).max().unwrap_or(0);
    row.last_ready_ns = views.iter().filter_map(|view| view.ready_ns).max().unwrap_or(0);
    row.visibility_ns = views.iter().map(|view| view.last_old_ns).filter(|ns| *ns > 0).max();
    if row.observers < expected {
        row.anomaly |= anomaly::UNOBSERVED;
    }
    if row.observers > expected {
        row.anomaly |= anomaly::DUPLICATE;
    }
    if row.ready < row.observers {
        row.anomaly |= anomaly::NOT_READY;
    }
    let backwards = views.iter().any(|view| view.ready_ns.is_some_and(|ready| ready < view.observed_ns));
    if backwards || row.first_observer_ns < -planned.tolerance_ns {
        row.anomaly |= anomaly::NEGATIVE;
    }
}

fn urgent(row: &mut EventRow, raw: &PreemptRaw, planned: &Planned, event: usize, views: &[View]) {
    let tiles = event * planned.urgent_tiles as usize..(event + 1) * planned.urgent_tiles as usize;
    let times = &raw.urgent_executed[tiles.clone()];
    let claimed: Vec<usize> = tiles.filter(|tile| raw.claimer[*tile] != u32::MAX).collect();
    row.claims = narrow(claimed.len());
    if row.claims != planned.urgent_tiles || times.iter().any(|times| *times != 1) {
        row.anomaly |= anomaly::URGENT;
    }
    if times.iter().any(|times| *times > 1) {
        row.anomaly |= anomaly::DUPLICATE;
    }
    let Some(first) = claimed.iter().copied().min_by_key(|tile| raw.urgent_start_ns[*tile]) else { return };
    let set_ns = raw.set_ns[event];
    row.claimer = raw.claimer[first];
    row.urgent_start_ns = difference(raw.urgent_start_ns[first], set_ns);
    let done = claimed.iter().map(|tile| difference(raw.urgent_done_ns[*tile], set_ns)).max();
    row.urgent_done_ns = done.unwrap_or(0);
    let backwards = claimed.iter().any(|tile| raw.urgent_done_ns[*tile] < raw.urgent_start_ns[*tile]);
    match views.iter().find(|view| view.block == row.claimer as usize) {
        Some(view) => {
            row.claimer_observed_ns = view.observed_ns;
            row.claimer_ready_ns = view.ready_ns.unwrap_or(0);
            if backwards || row.urgent_start_ns < row.claimer_ready_ns {
                row.anomaly |= anomaly::NEGATIVE;
            }
        }
        None => row.anomaly |= anomaly::UNOBSERVED,
    }
}

fn host(row: &mut EventRow, raw: &PreemptRaw, planned: &Planned, event: usize) {
    if planned.set != Setter::Host {
        return;
    }
    let (issue, done) = (raw.host_issue_ns[event].cast_signed(), raw.host_done_ns[event].cast_signed());
    row.host_issue_ns = Some(issue);
    row.host_done_ns = Some(done);
    if done < issue {
        row.anomaly |= anomaly::NEGATIVE;
    }
}

fn difference(later: u64, earlier: u64) -> i64 {
    later.wrapping_sub(earlier).cast_signed()
}

#[expect(clippy::cast_possible_truncation, reason = "the device records the low 32 bits")]
fn low_bits(ns: u64) -> u32 {
    ns as u32
}

fn narrow(count: usize) -> u32 {
    u32::try_from(count).expect("a launch holds fewer than 2^32 of anything")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::launch::LaunchRaw;
    use harness_core::launch::LaunchTrace;
    use schema::cell::LaunchConfig;

    /// The device timer at the set instants: one just below a wrap of the low 32 bits.
    const SET: [u64; 2] = [(3 << 32) - 100, (3 << 32) + 50_000];

    fn planned() -> Planned<'static> {
        Planned {
            launch: 5,
            blocks: 4,
            set: Setter::Host,
            urgent_tiles: 1,
            gaps_ns: &[40, 41],
            delay: Some(Leg::Urgent),
            tolerance_ns: 64,
        }
    }

    fn launch() -> LaunchRaw {
        let trace = LaunchTrace {
            config: LaunchConfig {
                symbol: "preempt_yield_p1".to_owned(),
                mode: "event_host".to_owned(),
                grid: 4,
                block: 128,
                shared_bytes: 0,
                cooperative: true,
                cubin: None,
            },
            host_start_ns: 0,
            wall_ns: 0,
            block_sm: vec![0, 1, 2, 3],
            clock: vec![],
        };
        LaunchRaw {
            trace,
            tasks: 0,
            executed: 0,
            wrong_tiles: 0,
            unwritten_tiles: 0,
            not_once: 0,
            urgent_requested: 2,
            urgent_executed: 2,
            urgent_wrong: 0,
            urgent_not_once: 0,
            deadline_hits: 0,
        }
    }

    /// Two events; blocks 1 to 3 observe at 200, 100 and 300 ns and are ready 10 ns later; block 2 claims.
    fn sound() -> PreemptRaw {
        let at = |event: usize, ns: i64| low_bits(SET[event].wrapping_add_signed(ns));
        let columns = |ns: [i64; 3]| -> Vec<u32> {
            [0, 1].iter().flat_map(|event| [0, at(*event, ns[0]), at(*event, ns[1]), at(*event, ns[2])]).collect()
        };
        PreemptRaw {
            launch: launch(),
            setter: None,
            start_ns: SET[0] - 1000,
            set_ns: SET.to_vec(),
            claimer: vec![2, 2],
            urgent_start_ns: SET.iter().map(|set| set + 120).collect(),
            urgent_done_ns: SET.iter().map(|set| set + 900).collect(),
            delay_ns: vec![0, 2016],
            urgent_executed: vec![1, 1],
            observed_ns: columns([200, 100, 300]),
            ready_ns: columns([210, 110, 310]),
            last_old_ns: columns([-20, -30, 40]),
            seen: [0, 3, 3, 3].repeat(2),
            host_issue_ns: vec![10, 60_000],
            host_done_ns: vec![1500, 61_500],
        }
    }

    #[test]
    fn a_sound_launch_gives_sound_rows() {
        let rows = rows(&sound(), &planned());
        let expected = EventRow {
            launch: 5,
            event: 0,
            set_ns: 1000,
            gap_ns: 40,
            first_observer_ns: 100,
            last_observer_ns: 300,
            last_ready_ns: 310,
            visibility_ns: Some(40),
            observers: 3,
            ready: 3,
            claimer: 2,
            claimer_observed_ns: 100,
            claimer_ready_ns: 110,
            urgent_start_ns: 120,
            urgent_done_ns: 900,
            claims: 1,
            host_issue_ns: Some(10),
            host_done_ns: Some(1500),
            delay_leg: 0,
            delay_ns: 0,
            anomaly: 0,
        };
        assert_eq!(rows[0], expected);
        assert_eq!((rows[1].delay_leg, rows[1].delay_ns), (Leg::Urgent as u32, 2016));
        assert_eq!((rows[1].anomaly, rows[1].gap_ns), (0, 41));
        let table = table(&rows);
        let names: Vec<&str> = table.columns.iter().map(|(name, _)| name.as_str()).collect();
        assert!(names.iter().eq(YIELDS.iter().map(|(name, ..)| name)), "{names:?}");
        assert!(table.to_bytes().is_ok());
    }

    /// Breaks the second event and expects exactly these bits on it, and none on the first.
    fn check(break_it: impl FnOnce(&mut PreemptRaw), expected: u32) {
        let mut raw = sound();
        break_it(&mut raw);
        let rows = rows(&raw, &planned());
        assert_eq!((rows[0].anomaly, rows[1].anomaly), (0, expected));
    }

    #[test]
    fn each_planted_anomaly_is_flagged() {
        check(|raw| raw.seen[5] = 0, anomaly::UNOBSERVED);
        check(|raw| raw.seen[4] = 3, anomaly::DUPLICATE | anomaly::NEGATIVE);
        check(|raw| raw.seen[7] = 1, anomaly::NOT_READY);
        check(|raw| raw.claimer[1] = u32::MAX, anomaly::URGENT);
        check(|raw| raw.urgent_executed[1] = 0, anomaly::URGENT);
        check(|raw| raw.urgent_executed[1] = 2, anomaly::URGENT | anomaly::DUPLICATE);
        check(|raw| raw.claimer[1] = 0, anomaly::UNOBSERVED);
        check(|raw| raw.observed_ns[5] = low_bits(SET[1] - 65), anomaly::NEGATIVE);
        check(|raw| raw.ready_ns[5] = low_bits(SET[1] + 199), anomaly::NEGATIVE);
        check(|raw| raw.urgent_start_ns[1] = SET[1] + 109, anomaly::NEGATIVE);
        check(|raw| raw.urgent_done_ns[1] = SET[1] + 119, anomaly::NEGATIVE);
        check(|raw| raw.host_done_ns[1] = 59_999, anomaly::NEGATIVE);
        check(|raw| raw.set_ns[1] = 0, anomaly::LOST);
    }

    #[test]
    fn an_observer_within_the_offset_is_no_anomaly() {
        check(|raw| raw.observed_ns[5] = low_bits(SET[1] - 64), 0);
    }

    #[test]
    fn a_deadline_marks_the_whole_launch() {
        let mut raw = sound();
        raw.launch.deadline_hits = 1;
        assert!(rows(&raw, &planned()).iter().all(|row| row.anomaly == anomaly::DEADLINE));
    }

    #[test]
    fn without_a_later_old_poll_visibility_is_absent() {
        let mut raw = sound();
        raw.last_old_ns[3] = low_bits(SET[0] - 1);
        assert_eq!(rows(&raw, &planned())[0].visibility_ns, None);
    }

    #[test]
    fn block_rows_keep_every_observation() {
        let mut raw = sound();
        raw.seen[7] = 1;
        let mut columns = Default::default();
        add_block_rows(&mut columns, &raw, &planned());
        assert_eq!(columns[2], [1, 2, 3, 1, 2, 3]);
        assert_eq!(columns[4], [200, 100, 300, 200, 100, 300]);
        assert_eq!(columns[5], [210, 110, 310, 210, 110, u32::MAX]);
        assert_eq!(columns[6][0], (-20_i32).cast_unsigned());
        assert_eq!(block_table(columns).columns[3].0, "sm");
    }
}
