//! Cells on disk: a cell's tables and, last, its header, each whole or not at all.
//!
//! A cell that is being measured has a `.begun` file, so that one which was killed before it wrote anything is
//! counted as abandoned too.

use crate::draws::Seed;
use crate::experiment::Measured;
use crate::failure::fail;
use anyhow::Context;
use fs_err as fs;
use schema::cell::{CellFile, CellRecord};
use schema::plan::Plan;
use schema::{Digest, ExitCode};
use std::io::Write;
use std::path::{Path, PathBuf};
use tables::Table;

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
    pub fn is_complete(&self, phase: &str, cell: &str) -> anyhow::Result<bool> {
        let header = self.path(phase, cell, ".json");
        if !header.is_file() {
            return Ok(false);
        }
        for file in read_header(&header)?.files {
            let path = self.path(phase, cell, &file.suffix);
            if !path.is_file() || Digest::of_file(&path)? != file.sha256 {
                return Ok(false);
            }
        }
        remove_if_there(&self.path(phase, cell, ".begun"))?;
        Ok(true)
    }

    /// Marks the cell as begun; what an earlier attempt left is moved aside.
    ///
    /// # Errors
    /// When the run directory cannot be written.
    pub fn begin(&self, phase: &str, cell: &str, seed: Seed) -> anyhow::Result<()> {
        let folder = self.phase_folder(phase);
        fs::create_dir_all(&folder)?;
        self.move_aside(phase, cell)?;
        write_whole(&self.path(phase, cell, ".begun"), format!("{}\n", seed.hex()).as_bytes())
    }

    /// Writes the cell: its tables, then its header.
    ///
    /// # Errors
    /// When the run directory cannot be written.
    pub fn finish(&self, phase: &str, cell: &str, seed: Seed, measured: &Measured) -> anyhow::Result<()> {
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
            let path = self.path(phase, cell, suffix);
            write_whole(&path, bytes)?;
            let sha256 = Digest::of(bytes);
            let read_back = Digest::of_file(&path)?;
            anyhow::ensure!(read_back == sha256, "{} reads back differently than written", path.display());
            files.push(CellFile { suffix: (*suffix).to_owned(), sha256, bytes: bytes.len() as u64 });
        }
        let record = CellRecord {
            format: schema::FORMAT,
            experiment: self.experiment.clone(),
            phase: phase.to_owned(),
            cell: cell.to_owned(),
            plan: self.plan,
            device: self.device.clone(),
            configs: measured.log.configs().to_vec(),
            seed: seed.hex(),
            warmup_launches: measured.log.warmup_launches(),
            events: measured.events.rows() as u64,
            files,
            facts: measured.facts.clone(),
        };
        let mut json = serde_json::to_vec_pretty(&record)?;
        json.push(b'\n');
        write_whole(&self.path(phase, cell, ".json"), &json)?;
        remove_if_there(&self.path(phase, cell, ".begun"))
    }

    /// A finished cell's header and event table.
    ///
    /// # Errors
    /// When they are not there or cannot be read.
    pub fn read(&self, phase: &str, cell: &str) -> anyhow::Result<(CellRecord, Table)> {
        Ok((read_header(&self.path(phase, cell, ".json"))?, Table::read(&self.path(phase, cell, ".parquet"))?))
    }

    fn cells_folder(&self) -> PathBuf {
        self.run_dir.join("cells")
    }

    fn phase_folder(&self, phase: &str) -> PathBuf {
        self.cells_folder().join(phase)
    }

    fn path(&self, phase: &str, cell: &str, suffix: &str) -> PathBuf {
        self.phase_folder(phase).join(format!("{}{suffix}", cell))
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
    fn move_aside(&self, phase: &str, cell: &str) -> anyhow::Result<()> {
        let prefix = format!("{}.", cell);
        let mut left = Vec::new();
        for file in fs::read_dir(self.phase_folder(phase))? {
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
            fs::rename(path, abandoned.join(format!("{number}-{}-{name}", phase)))?;
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

    #[test]
    fn numbers_of_abandoned_files_go_on() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(next_number(dir.path()).unwrap(), 1);
        fs::write(dir.path().join("7-phase-x.json.partial"), "").unwrap();
        fs::write(dir.path().join("other"), "").unwrap();
        assert_eq!(next_number(dir.path()).unwrap(), 8);
    }
}
