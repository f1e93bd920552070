//! Cells on disk: launches collected while a cell runs, then its tables and, last, its header, each whole or not at all.
//!
//! A cell in work leaves a `.begun` file, so that one killed before it wrote anything is counted as abandoned too.

use crate::device::LaunchRaw;
use crate::failure::fail;
use crate::plan::Seed;
use anyhow::Context;
use fs_err as fs;
use schema::cell::{CellFacts, CellFile, CellRecord, LaunchConfig};
use schema::plan::{Cell, Plan};
use schema::table::{Column, Table};
use schema::{Digest, ExitCode};
use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};

/// The launches of one cell.
#[derive(Clone, Debug, Default)]
pub struct LaunchLog {
    configs: Vec<LaunchConfig>,
    rows: Vec<[u32; 18]>,
    host_start_ns: Vec<i64>,
    clock: [Vec<u32>; 4],
    warmup: u32,
}

impl LaunchLog {
    /// Adds a launch and returns its number.
    ///
    /// # Panics
    /// When a cell has 2^32 launches.
    pub fn add(&mut self, raw: &LaunchRaw, warmup: bool) -> u32 {
        let launch = u32::try_from(self.rows.len()).expect("a cell has fewer than 2^32 launches");
        let config = self.config(&raw.config);
        let sms: BTreeSet<u32> = raw.clock.iter().map(|(sm, _, _)| *sm).collect();
        let [khz_min, khz_p50, khz_max] = clock_khz(&raw.clock);
        self.warmup += u32::from(warmup);
        self.host_start_ns.push(raw.host_start_ns);
        self.rows.push([
            config,
            u32::from(warmup),
            raw.wall_ns,
            raw.tasks,
            raw.executed,
            raw.wrong_tiles,
            raw.unwritten_tiles,
            raw.not_once,
            raw.urgent_requested,
            raw.urgent_executed,
            raw.urgent_wrong,
            raw.urgent_not_once,
            raw.deadline_hits,
            u32::try_from(sms.len()).expect("fewer than 2^32 SMs"),
            u32::try_from(raw.clock.len()).expect("fewer than 2^32 windows"),
            khz_min,
            khz_p50,
            khz_max,
        ]);
        for (sm, cycles, ns) in &raw.clock {
            for (column, value) in self.clock.iter_mut().zip([launch, *sm, *cycles, *ns]) {
                column.push(value);
            }
        }
        launch
    }

    /// The number of a launch configuration, which is added when it is new.
    pub fn config(&mut self, config: &LaunchConfig) -> u32 {
        let found = self.configs.iter().position(|known| known == config);
        let index = found.unwrap_or_else(|| {
            self.configs.push(config.clone());
            self.configs.len() - 1
        });
        u32::try_from(index).expect("a cell has few configurations")
    }

    /// Median in-band clock over the kept launches, in kHz; absent when none sampled it.
    #[must_use]
    pub fn clock_khz_p50(&self) -> Option<u32> {
        let mut khz: Vec<u32> = self.rows.iter().filter(|row| row[1] == 0 && row[14] > 0).map(|row| row[16]).collect();
        khz.sort_unstable();
        khz.get(khz.len().saturating_sub(1) / 2).copied()
    }

    fn table(&self) -> Table {
        let launches = u32::try_from(self.rows.len()).expect("a cell has fewer than 2^32 launches");
        let column = |index: usize| Column::U32(self.rows.iter().map(|row| row[index]).collect());
        let mut table = Table::new().with("launch", Column::U32((0..launches).collect()));
        let named = schema::cell::LAUNCHES.iter().skip(1).filter(|name| **name != "host_start_ns");
        for (index, name) in named.enumerate() {
            if *name == "wall_ns" {
                table = table.with("host_start_ns", Column::I64(self.host_start_ns.clone()));
            }
            table = table.with(name, column(index));
        }
        table
    }

    fn clock_table(&self) -> Table {
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

/// What a cell's work yields.
#[derive(Clone, Debug)]
pub struct Measured {
    /// Its launches.
    pub log: LaunchLog,
    /// Its events.
    pub events: Table,
    /// Rows of single blocks, where the cell keeps them.
    pub blocks: Option<Table>,
    /// Its facts.
    pub facts: CellFacts,
}

/// The cells of one run directory.
#[derive(Clone, Debug)]
pub struct CellStore {
    run_dir: PathBuf,
    experiment: String,
    plan: Digest,
    device: String,
}

impl CellStore {
    /// Opens a run directory for this plan and device.
    ///
    /// # Errors
    /// When it already holds a complete cell of another device or plan, or one of a newer format.
    pub fn open(run_dir: &Path, plan: &Plan, plan_digest: Digest, device: &str) -> anyhow::Result<Self> {
        let store = Self {
            run_dir: run_dir.to_owned(),
            experiment: plan.experiment.clone(),
            plan: plan_digest,
            device: device.to_owned(),
        };
        for header in store.headers()? {
            store.admit(&header)?;
        }
        Ok(store)
    }

    /// Whether the cell is complete: its header is there and its files match it.
    ///
    /// # Errors
    /// When a file cannot be read.
    pub fn is_complete(&self, cell: &Cell) -> anyhow::Result<bool> {
        let header = self.path(cell, ".json");
        if !header.is_file() {
            return Ok(false);
        }
        for file in read_header(&header)?.files {
            let path = self.path(cell, &file.suffix);
            if !path.is_file() || Digest::of_file(&path)? != file.sha256 {
                return Ok(false);
            }
        }
        remove_if_there(&self.path(cell, ".begun"))?;
        Ok(true)
    }

    /// Marks the cell as begun; what an earlier attempt left is moved aside.
    ///
    /// # Errors
    /// When the run directory cannot be written.
    pub fn begin(&self, cell: &Cell, seed: Seed) -> anyhow::Result<()> {
        let folder = self.phase_folder(cell);
        fs::create_dir_all(&folder)?;
        self.move_aside(cell)?;
        write_whole(&self.path(cell, ".begun"), format!("{}\n", seed.hex()).as_bytes())
    }

    /// Writes the cell: its tables, then its header.
    ///
    /// # Errors
    /// When the run directory cannot be written.
    pub fn finish(&self, cell: &Cell, seed: Seed, measured: &Measured) -> anyhow::Result<()> {
        let mut tables = vec![
            (".parquet", measured.events.to_bytes()?),
            (".launches.parquet", measured.log.table().to_bytes()?),
            (".clock.parquet", measured.log.clock_table().to_bytes()?),
        ];
        if let Some(blocks) = &measured.blocks {
            tables.push((".blocks.parquet", blocks.to_bytes()?));
        }
        let mut files = Vec::new();
        for (suffix, bytes) in &tables {
            let path = self.path(cell, suffix);
            write_whole(&path, bytes)?;
            let sha256 = Digest::of(bytes);
            let read_back = Digest::of_file(&path)?;
            anyhow::ensure!(read_back == sha256, "{} reads back differently than written", path.display());
            files.push(CellFile { suffix: (*suffix).to_owned(), sha256, bytes: bytes.len() as u64 });
        }
        let record = CellRecord {
            format: schema::FORMAT,
            experiment: self.experiment.clone(),
            phase: cell.phase,
            cell: cell.name.clone(),
            plan: self.plan,
            device: self.device.clone(),
            configs: measured.log.configs.clone(),
            seed: seed.hex(),
            warmup_launches: measured.log.warmup,
            events: measured.events.rows() as u64,
            files,
            facts: measured.facts.clone(),
        };
        let mut json = serde_json::to_vec_pretty(&record)?;
        json.push(b'\n');
        write_whole(&self.path(cell, ".json"), &json)?;
        remove_if_there(&self.path(cell, ".begun"))
    }

    /// A finished cell's header and event table.
    ///
    /// # Errors
    /// When they are not there or cannot be read.
    pub fn read(&self, cell: &Cell) -> anyhow::Result<(CellRecord, Table)> {
        Ok((read_header(&self.path(cell, ".json"))?, Table::read(&self.path(cell, ".parquet"))?))
    }

    fn cells_folder(&self) -> PathBuf {
        self.run_dir.join("cells")
    }

    fn phase_folder(&self, cell: &Cell) -> PathBuf {
        self.cells_folder().join(cell.phase.name())
    }

    fn path(&self, cell: &Cell, suffix: &str) -> PathBuf {
        self.phase_folder(cell).join(format!("{}{suffix}", cell.name))
    }

    fn headers(&self) -> anyhow::Result<Vec<PathBuf>> {
        let mut headers = Vec::new();
        if !self.cells_folder().is_dir() {
            return Ok(headers);
        }
        for phase in fs::read_dir(self.cells_folder())? {
            for file in fs::read_dir(phase?.path())? {
                headers.push(file?.path());
            }
        }
        headers.retain(|path| path.extension().is_some_and(|suffix| suffix == "json"));
        headers.sort();
        Ok(headers)
    }

    /// Refuses a header of another device, plan or format.
    fn admit(&self, header: &Path) -> anyhow::Result<()> {
        let record = read_header(header)?;
        let at = header.display();
        if record.device != self.device {
            let message = format!(
                "resuming on another GPU: {at} was measured on device {}, and this is device {}; resume on that one, or start with --fresh",
                record.device, self.device
            );
            return Err(fail(ExitCode::Measurement, message));
        }
        if record.plan != self.plan {
            let message = format!(
                "{at} was measured under plan {}, and this is plan {}; start with --fresh",
                record.plan.short(),
                self.plan.short()
            );
            return Err(fail(ExitCode::Measurement, message));
        }
        Ok(())
    }

    /// Moves every file of an incomplete cell to `abandoned/<n>-<name>`; one that was cut off is called so from then on,
    /// since no sealed file may look as if it were still being written.
    fn move_aside(&self, cell: &Cell) -> anyhow::Result<()> {
        let prefix = format!("{}.", cell.name);
        let mut left = Vec::new();
        for file in fs::read_dir(self.phase_folder(cell))? {
            let file = file?;
            let name = file.file_name().into_string().ok();
            left.extend(name.filter(|name| name.starts_with(&prefix)).map(|name| (name, file.path())));
        }
        if left.is_empty() {
            return Ok(());
        }
        let abandoned = self.run_dir.join("abandoned");
        fs::create_dir_all(&abandoned)?;
        let number = next_number(&abandoned)?;
        for (name, path) in left {
            let name = name.replace(".partial", ".cut");
            fs::rename(path, abandoned.join(format!("{number}-{}-{name}", cell.phase.name())))?;
        }
        Ok(())
    }
}

/// One more than the largest number that begins a file's name.
fn next_number(folder: &Path) -> anyhow::Result<u32> {
    let mut largest = 0;
    for file in fs::read_dir(folder)? {
        let name = file?.file_name();
        let number = name.to_str().and_then(|name| name.split('-').next()).and_then(|number| number.parse().ok());
        largest = largest.max(number.unwrap_or(0));
    }
    Ok(largest + 1)
}

fn read_header(path: &Path) -> anyhow::Result<CellRecord> {
    let at = || format!("failed to read {}", path.display());
    let value: serde_json::Value = serde_json::from_slice(&fs::read(path)?).with_context(at)?;
    let format = value.get("format").and_then(serde_json::Value::as_u64).and_then(|format| u32::try_from(format).ok());
    schema::check_format(&path.display().to_string(), format.unwrap_or(0))?;
    serde_json::from_value(value).with_context(at)
}

/// Writes a file whole or not at all.
fn write_whole(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    let mut partial = path.as_os_str().to_owned();
    partial.push(".partial");
    let mut file = fs::File::create(&partial)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&partial, path)?;
    Ok(())
}

fn remove_if_there(path: &Path) -> anyhow::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error.into()),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn launch(windows: Vec<(u32, u32, u32)>) -> LaunchRaw {
        LaunchRaw {
            config: LaunchConfig {
                symbol: "preempt_drain".to_owned(),
                mode: "drain".to_owned(),
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
            tasks: 11,
            executed: 12,
            wrong_tiles: 13,
            unwritten_tiles: 14,
            not_once: 15,
            urgent_requested: 16,
            urgent_executed: 17,
            urgent_wrong: 18,
            urgent_not_once: 19,
            deadline_hits: 20,
        }
    }

    #[test]
    fn a_launch_lands_in_the_columns_of_its_names() {
        let mut log = LaunchLog::default();
        log.add(&launch(vec![(0, 1980, 1000), (1, 1000, 1000), (1, 1500, 1000)]), true);
        assert_eq!(log.add(&launch(vec![]), false), 1);
        let table = log.table();
        let names: Vec<&str> = table.columns.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, schema::cell::LAUNCHES);
        let expected = [
            ("launch", [0, 1]),
            ("config", [0, 0]),
            ("warmup", [1, 0]),
            ("wall_ns", [1000, 1000]),
            ("tasks", [11, 11]),
            ("urgent_not_once", [19, 19]),
            ("deadline_hits", [20, 20]),
            ("sms", [2, 0]),
            ("clock_windows", [3, 0]),
            ("clock_khz_min", [1_000_000, 0]),
            ("clock_khz_p50", [1_500_000, 0]),
            ("clock_khz_max", [1_980_000, 0]),
        ];
        for (name, values) in expected {
            assert_eq!(table.u32(name).unwrap(), values, "{name}");
        }
        assert_eq!(table.i64("host_start_ns").unwrap(), [-5, -5]);
        assert_eq!((log.clock_table().rows(), log.warmup, log.clock_khz_p50()), (3, 1, None));
    }

    #[test]
    fn numbers_of_abandoned_files_go_on() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(next_number(dir.path()).unwrap(), 1);
        fs::write(dir.path().join("7-yield-x.json.partial"), "").unwrap();
        fs::write(dir.path().join("other"), "").unwrap();
        assert_eq!(next_number(dir.path()).unwrap(), 8);
    }
}
