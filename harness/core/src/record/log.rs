//! The launches of one cell: the columns that every launch has, and the counts that an experiment adds in its own order.

use crate::launch::LaunchTrace;
use schema::cell::LaunchConfig;
use std::collections::BTreeSet;
use tables::{Column, Table};

/// The launches of one cell.
#[derive(Clone, Debug)]
pub struct LaunchLog {
    /// Names of the experiment's counts.
    counted: &'static [&'static str],
    /// A column for each of them.
    counts: Vec<Vec<u32>>,
    configs: Vec<LaunchConfig>,
    rows: Vec<Row>,
    /// The clock windows: launch, SM, cycles, nanoseconds.
    clock: [Vec<u32>; 4],
}

/// What every launch has.
#[derive(Clone, Copy, Debug)]
struct Row {
    config: u32,
    warmup: bool,
    host_start_ns: i64,
    wall_ns: u32,
    sms: u32,
    clock_windows: u32,
    clock_khz: [u32; 3],
}

impl LaunchLog {
    /// An empty log of launches with these counts.
    #[must_use]
    pub fn new(counted: &'static [&'static str]) -> Self {
        let counts = vec![Vec::new(); counted.len()];
        Self { counted, counts, configs: Vec::new(), rows: Vec::new(), clock: Default::default() }
    }

    /// Adds a launch with its counts, in the order of their names, and returns its number.
    ///
    /// # Panics
    /// When there are not as many counts as names, or a cell has 2^32 launches.
    pub fn add(&mut self, launch: &LaunchTrace, counts: &[u32], warmup: bool) -> u32 {
        assert_eq!(counts.len(), self.counted.len(), "one count for each of {:?}", self.counted);
        let number = narrow(self.rows.len());
        let sms: BTreeSet<u32> = launch.clock.iter().map(|(sm, _, _)| *sm).collect();
        let config = self.config(&launch.config);
        self.rows.push(Row {
            config,
            warmup,
            host_start_ns: launch.host_start_ns,
            wall_ns: launch.wall_ns,
            sms: narrow(sms.len()),
            clock_windows: narrow(launch.clock.len()),
            clock_khz: clock_khz(&launch.clock),
        });
        self.counts.iter_mut().zip(counts).for_each(|(column, count)| column.push(*count));
        for (sm, cycles, ns) in &launch.clock {
            self.clock.iter_mut().zip([number, *sm, *cycles, *ns]).for_each(|(column, value)| column.push(value));
        }
        number
    }

    /// Adds a launch that is asked for no work, such as the timer's, and returns its number.
    pub fn add_without_work(&mut self, launch: &LaunchTrace) -> u32 {
        self.add(launch, &vec![0; self.counted.len()], false)
    }

    /// The number of a launch configuration, which is added when it is new.
    pub fn config(&mut self, config: &LaunchConfig) -> u32 {
        let found = self.configs.iter().position(|known| known == config);
        narrow(found.unwrap_or_else(|| {
            self.configs.push(config.clone());
            self.configs.len() - 1
        }))
    }

    /// Median in-band clock over the kept launches, in kHz; absent when none sampled it.
    #[must_use]
    pub fn clock_khz_p50(&self) -> Option<u32> {
        let sampled = self.rows.iter().filter(|row| !row.warmup && row.clock_windows > 0);
        let mut khz: Vec<u32> = sampled.map(|row| row.clock_khz[1]).collect();
        khz.sort_unstable();
        khz.get(khz.len().saturating_sub(1) / 2).copied()
    }

    /// The launch configurations used; rows refer to them by index.
    #[must_use]
    pub fn configs(&self) -> &[LaunchConfig] {
        &self.configs
    }

    /// Launches discarded as warm-up.
    #[must_use]
    pub fn warmup_launches(&self) -> u32 {
        self.rows.iter().map(|row| u32::from(row.warmup)).sum()
    }

    /// One row a launch, warm-up included.
    #[must_use]
    pub fn table(&self) -> Table {
        let column = |value: fn(&Row) -> u32| Column::U32(self.rows.iter().map(value).collect());
        let mut table = Table::new()
            .with("launch", Column::U32((0..narrow(self.rows.len())).collect()))
            .with("config", column(|row| row.config))
            .with("warmup", column(|row| u32::from(row.warmup)))
            .with("host_start_ns", Column::I64(self.rows.iter().map(|row| row.host_start_ns).collect()))
            .with("wall_ns", column(|row| row.wall_ns));
        for (name, counts) in self.counted.iter().zip(&self.counts) {
            table = table.with(name, Column::U32(counts.clone()));
        }
        table
            .with("sms", column(|row| row.sms))
            .with("clock_windows", column(|row| row.clock_windows))
            .with("clock_khz_min", column(|row| row.clock_khz[0]))
            .with("clock_khz_p50", column(|row| row.clock_khz[1]))
            .with("clock_khz_max", column(|row| row.clock_khz[2]))
    }

    /// One row a clock window.
    #[must_use]
    pub fn clock_table(&self) -> Table {
        let columns = schema::cell::CLOCK_ROWS.iter().zip(&self.clock);
        columns.fold(Table::new(), |table, (name, column)| table.with(name, Column::U32(column.clone())))
    }
}

/// Least, median and greatest clock of a launch's windows in kHz; zeros without windows.
fn clock_khz(windows: &[(u32, u32, u32)]) -> [u32; 3] {
    let rate = |cycles: u32, ns: u32| u32::try_from(u64::from(cycles) * 1_000_000 / u64::from(ns)).unwrap_or(u32::MAX);
    let mut khz: Vec<u32> =
        windows.iter().filter(|(_, _, ns)| *ns > 0).map(|(_, cycles, ns)| rate(*cycles, *ns)).collect();
    khz.sort_unstable();
    match khz.as_slice() {
        [] => [0; 3],
        [first, ..] => [*first, khz[(khz.len() - 1) / 2], khz[khz.len() - 1]],
    }
}

fn narrow(count: usize) -> u32 {
    u32::try_from(count).expect("a cell has fewer than 2^32 of anything")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn launch(windows: Vec<(u32, u32, u32)>) -> LaunchTrace {
        LaunchTrace {
            config: LaunchConfig {
                symbol: "made_up".to_owned(),
                mode: "once".to_owned(),
                grid: 4,
                block: 1,
                shared_bytes: 0,
                cooperative: false,
                cubin: None,
            },
            host_start_ns: -5,
            wall_ns: 1000,
            block_sm: vec![0, 1],
            clock: windows,
        }
    }

    #[test]
    fn a_launch_lands_in_the_columns_of_its_names() {
        let mut log = LaunchLog::new(&["rows", "wrong_rows"]);
        let windows = vec![(0, 1980, 1000), (1, 1000, 1000), (1, 1500, 1000)];
        log.add(&launch(windows), &[11, 12], true);
        assert_eq!(log.add(&launch(vec![]), &[13, 14], false), 1);
        let table = log.table();
        let expected = [
            ("launch", [0, 1]),
            ("config", [0, 0]),
            ("warmup", [1, 0]),
            ("wall_ns", [1000, 1000]),
            ("rows", [11, 13]),
            ("wrong_rows", [12, 14]),
            ("sms", [2, 0]),
            ("clock_windows", [3, 0]),
            ("clock_khz_min", [1_000_000, 0]),
            ("clock_khz_p50", [1_500_000, 0]),
            ("clock_khz_max", [1_980_000, 0]),
        ];
        for (name, values) in expected {
            assert_eq!(table.u32(name).unwrap(), values, "{name}");
        }
        assert_eq!(table.columns.len(), expected.len() + 1);
        assert_eq!(table.i64("host_start_ns").unwrap(), [-5, -5]);
        assert_eq!((log.clock_table().rows(), log.warmup_launches(), log.clock_khz_p50()), (3, 1, None));
    }
}
