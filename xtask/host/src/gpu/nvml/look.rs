//! Reads the GPU's state in a process of its own, which opens NVML anew and can be abandoned if it hangs.
//!
//! A handle that was opened earlier may keep answering after the GPU has become unreachable for everyone else, and a
//! driver may never answer at all.

use super::{Answer, Gpu, GpuError};
use crate::process::{Child, own_environment};
use anyhow::{Context, Result};
use schema::environment::{Reading, Snapshot};
use std::path::PathBuf;
use std::time::{Duration, Instant};
use words::gpu_state::against_idle;

/// How long one look may take. A GPU with a storm of corrected errors takes longer, and should not be measured on.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long a GPU may take to come to rest: its use is averaged over up to a second, and a killed process takes a while to go.
const REST: Duration = Duration::from_secs(10);

/// An answer as it is recorded.
pub fn reading<T>(answer: Answer<T>) -> Reading<T> {
    match answer {
        Ok(value) => Reading::Value(value),
        Err(GpuError::Unsupported) => Reading::Unsupported,
        Err(error) => Reading::Failed(error.to_string()),
    }
}

/// Reads everything at once.
#[must_use]
pub fn snapshot(gpu: &dyn Gpu) -> Snapshot {
    let count = |pids: Vec<u32>| u32::try_from(pids.len()).unwrap_or(u32::MAX);
    Snapshot {
        ecc_corrected: reading(gpu.ecc_corrected()),
        ecc_uncorrected: reading(gpu.ecc_uncorrected()),
        remap_problem: reading(gpu.row_remap().map(|remap| remap.pending || remap.failed)),
        memory_used_bytes: reading(gpu.memory().map(|memory| memory.used)),
        busy_pct: reading(gpu.busy_pct()),
        processes: reading(gpu.compute_processes().map(count)),
        power_cap_mw: reading(gpu.power_cap_mw()),
        persistence: reading(gpu.persistence()),
    }
}

/// A look at which nothing could be read.
#[must_use]
pub fn blind(why: &str) -> Snapshot {
    fn failed<T>(why: &str) -> Reading<T> {
        Reading::Failed(why.to_owned())
    }
    Snapshot {
        ecc_corrected: failed(why),
        ecc_uncorrected: failed(why),
        remap_problem: failed(why),
        memory_used_bytes: failed(why),
        busy_pct: failed(why),
        processes: failed(why),
        power_cap_mw: failed(why),
        persistence: failed(why),
    }
}

/// How the looking process is started: the words before `--gpu …`.
#[derive(Clone, Debug)]
pub struct Look {
    /// Program and first arguments.
    pub words: Vec<String>,
    /// The library's file, so that both sides use the same.
    pub library: Option<PathBuf>,
}

impl Look {
    /// This program.
    ///
    /// # Errors
    /// When the path of this program is not known.
    pub fn new(library: Option<PathBuf>) -> Result<Self> {
        let exe = std::env::current_exe().context("failed to find this program's own file")?;
        Ok(Self { words: vec![exe.display().to_string(), "probe".to_owned(), "nvml".to_owned()], library })
    }

    /// One look.
    ///
    /// # Errors
    /// When we were asked to stop. A process that fails, hangs or dies gives a blind look, which says so.
    pub fn once(&self, gpu: &str) -> Result<Snapshot> {
        let mut args = self.words[1..].to_vec();
        args.extend(["--gpu".to_owned(), gpu.to_owned()]);
        args.extend(self.library.iter().flat_map(|path| ["--library".to_owned(), path.display().to_string()]));
        let child = Child {
            program: PathBuf::from(&self.words[0]),
            args,
            env: own_environment().into_iter().filter(|(key, _)| key == "PATH" || key == "LD_LIBRARY_PATH").collect(),
            dir: "/".into(),
            deadline: PATIENCE,
            hold_stdin: false,
        };
        let ended = child.run(&mut |_| {})?;
        let last = ended.stdout.lines().rev().find_map(|line| serde_json::from_str(line).ok());
        Ok(match (ended.code, last) {
            (Some(0), Some(snapshot)) => snapshot,
            _ if ended.timed_out => blind(&format!("NVML did not answer within {} s", PATIENCE.as_secs())),
            (code, _) => {
                let said = ended.stderr.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("it said nothing");
                blind(&format!("NVML could not be opened anew (exit {code:?}): {}", said.trim()))
            }
        })
    }

    /// Looks until the GPU is at rest, or for a while.
    ///
    /// # Errors
    /// As [`Look::once`].
    pub fn at_rest(&self, gpu: &str) -> Result<Snapshot> {
        let until = Instant::now() + REST;
        loop {
            let snapshot = self.once(gpu)?;
            let answers = snapshot.busy_pct.value().is_some() && snapshot.memory_used_bytes.value().is_some();
            if !answers || against_idle(&snapshot).is_empty() || Instant::now() >= until {
                return Ok(snapshot);
            }
            std::thread::sleep(Duration::from_millis(500));
        }
    }
}
