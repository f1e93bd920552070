//! Whether a run directory holds every cell of its plan, whole and unchanged.

use super::RESUME;
use anyhow::{Context, Result, ensure};
use host::failure::{does_not_hold, fail};
use host::files::{digest_plain, exists, read_plain};
use schema::cell::{CellRecord, DeviceFacts};
use schema::contract::{CellSpec, Contract};
use schema::{Digest, ExitCode, check_format};
use std::path::{Path, PathBuf};

const MOST_NAMED: usize = 5;

/// The header of every cell of the plan on this device, each with its files hashed.
///
/// # Errors
/// 17 when cells are missing, 16 when a header is about something else or a file is not what its header says.
pub fn check_cells(run_dir: &Path, contract: &Contract, device: &DeviceFacts) -> Result<Vec<CellRecord>> {
    let plan_digest = digest_plain(&run_dir.join("plan.toml"))?.0;
    let check = Check { run_dir, contract, plan_digest, device };
    let cells = &contract.cells;
    let missing: Vec<String> = cells.iter().filter(|cell| !exists(&check.file(cell, ".json"))).map(name).collect();
    if !missing.is_empty() {
        let named = missing[..missing.len().min(MOST_NAMED)].join(" and ");
        let message = format!("{} of {} cells are missing: {named}", missing.len(), cells.len());
        return Err(fail(ExitCode::Measurement, message, RESUME));
    }
    cells.iter().map(|cell| check.cell(cell).map_err(|error| broken(cell, &error))).collect()
}

struct Check<'a> {
    run_dir: &'a Path,
    contract: &'a Contract,
    plan_digest: Digest,
    device: &'a DeviceFacts,
}

impl Check<'_> {
    fn cell(&self, cell: &CellSpec) -> Result<CellRecord> {
        let header = self.file(cell, ".json");
        let record: CellRecord = serde_json::from_slice(&read_plain(&header)?).context("its header cannot be read")?;
        check_format("its header", record.format)?;
        ensure!((&record.phase, &record.cell) == (&cell.phase, &cell.name), "its header is of {}", record.cell);
        ensure!(record.experiment == self.contract.experiment, "it is of experiment {}", record.experiment);
        ensure!(record.plan == self.plan_digest, "it was measured with another plan");
        ensure!(record.device == self.device.id, "it was measured on another device");
        ensure!(!record.files.is_empty(), "its header names no file");
        for file in &record.files {
            let path = self.file(cell, &file.suffix);
            ensure!(file.suffix.starts_with('.') && !file.suffix.contains('/'), "odd file suffix {:?}", file.suffix);
            ensure!(digest_plain(&path)? == (file.sha256, file.bytes), "{} has changed", path.display());
        }
        Ok(record)
    }

    fn file(&self, cell: &CellSpec, suffix: &str) -> PathBuf {
        self.run_dir.join("cells").join(&cell.phase).join(format!("{}{suffix}", cell.name))
    }
}

fn name(cell: &CellSpec) -> String {
    format!("{} {}", cell.phase, cell.name)
}

fn broken(cell: &CellSpec, error: &anyhow::Error) -> anyhow::Error {
    does_not_hold(&format!("cell {}", name(cell)), error, "cargo xtask reproduce --fresh")
}
