//! Telemetry: a thread that reads the GPU ten times a second while the harness runs. It never sets anything.
//!
//! A value that could not be read stays absent in its row; the first failure of each kind is noted.

use host::gpu::nvml::{Answer, Gpu, GpuError};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tables::{Column, Table};

/// Time between two samples.
pub const PERIOD: Duration = Duration::from_millis(100);
/// The list of processes is slower to read, so it is read once in so many samples.
const PROCESSES_EVERY: u32 = 10;
/// How long `finish` waits for a sample under way; a driver may never return from a lost GPU.
const PATIENCE: Duration = Duration::from_secs(5);

/// A running sampler. Dropping it stops the thread.
pub struct Sampler {
    cell: Arc<AtomicU32>,
    seen: Arc<Mutex<Seen>>,
    stop: Option<Sender<()>>,
    stopped: Receiver<()>,
}

/// What was sampled.
#[derive(Clone, Debug)]
pub struct Telemetry {
    /// The columns of `schema::environment::TELEMETRY`.
    pub table: Table,
    /// What could not be read, in words.
    pub notes: Vec<String>,
    /// The most compute processes seen at once while a cell ran; absent when the list could not be read.
    pub processes_seen: Option<u32>,
    /// When the GPU was first lost, and what was said; absent when it never was.
    pub lost: Option<String>,
}

impl Sampler {
    /// Starts sampling; `t0` is when the harness started, as near as its first progress line tells.
    #[must_use]
    pub fn start(gpu: Arc<dyn Gpu>, t0: Instant) -> Self {
        let cell = Arc::new(AtomicU32::new(0));
        let seen = Arc::new(Mutex::new(Seen::default()));
        let (stop, stops) = channel::<()>();
        let (finished, stopped) = channel();
        let (thread_cell, thread_seen) = (Arc::clone(&cell), Arc::clone(&seen));
        std::thread::spawn(move || {
            let _finished: Sender<()> = finished;
            let mut due = Instant::now();
            for count in 0.. {
                let row = Row::read(&*gpu, t0, thread_cell.load(Ordering::SeqCst));
                let processes = (count % PROCESSES_EVERY == 0 && row.cell > 0).then(|| gpu.compute_processes());
                thread_seen.lock().unwrap_or_else(PoisonError::into_inner).add(row, processes);
                // A late sample does not shorten the wait for the next ones.
                due = (due + PERIOD).max(Instant::now());
                let wait = due.saturating_duration_since(Instant::now());
                if !matches!(stops.recv_timeout(wait), Err(RecvTimeoutError::Timeout)) {
                    return;
                }
            }
        });
        Self { cell, seen, stop: Some(stop), stopped }
    }

    /// Says which cell runs from now on: its index from 1 as in the progress lines, or 0 between cells.
    pub fn mark(&self, cell_index: u32) {
        self.cell.store(cell_index, Ordering::SeqCst);
    }

    /// Stops and gives what was sampled.
    #[must_use]
    pub fn finish(mut self) -> Telemetry {
        self.stop = None;
        let stuck = matches!(self.stopped.recv_timeout(PATIENCE), Err(RecvTimeoutError::Timeout));
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if stuck {
            const HANGS: &str = "the last sample did not return: NVML hangs";
            seen.notes.insert("sampling", HANGS.to_owned());
            seen.lost.get_or_insert_with(|| HANGS.to_owned());
        }
        std::mem::take(&mut *seen).into_telemetry()
    }
}

struct Row {
    t_ms: i64,
    cell: u32,
    sm_mhz: Answer<u32>,
    memory_mhz: Answer<u32>,
    power_mw: Answer<u32>,
    temperature_c: Answer<u32>,
    throttle: Answer<u64>,
    violations: Answer<host::gpu::nvml::Violations>,
}

impl Row {
    fn read(gpu: &dyn Gpu, t0: Instant, cell: u32) -> Self {
        Self {
            t_ms: i64::try_from(t0.elapsed().as_millis()).unwrap_or(i64::MAX),
            cell,
            sm_mhz: gpu.sm_mhz(),
            memory_mhz: gpu.memory_mhz(),
            power_mw: gpu.power_mw(),
            temperature_c: gpu.temperature_c(),
            throttle: gpu.throttle(),
            violations: gpu.violations(),
        }
    }
}

#[derive(Default)]
struct Seen {
    rows: Vec<Row>,
    /// The first failure of each reading.
    notes: BTreeMap<&'static str, String>,
    processes: Option<u32>,
    lost: Option<String>,
}

impl Seen {
    fn add(&mut self, row: Row, processes: Option<Answer<Vec<u32>>>) {
        let t_ms = row.t_ms;
        self.note("SM clock", t_ms, row.sm_mhz.as_ref().err());
        self.note("memory clock", t_ms, row.memory_mhz.as_ref().err());
        self.note("power", t_ms, row.power_mw.as_ref().err());
        self.note("temperature", t_ms, row.temperature_c.as_ref().err());
        self.note("throttle reasons", t_ms, row.throttle.as_ref().err());
        self.note("violation counters", t_ms, row.violations.as_ref().err());
        self.rows.push(row);
        match processes {
            Some(Ok(pids)) => self.processes = self.processes.max(u32::try_from(pids.len()).ok()),
            Some(Err(error)) => self.note("compute processes", t_ms, Some(&error)),
            None => {}
        }
    }

    fn note(&mut self, what: &'static str, t_ms: i64, error: Option<&GpuError>) {
        if let Some(error) = error {
            if *error == GpuError::Lost {
                self.lost.get_or_insert_with(|| format!("{error}, at {t_ms} ms"));
            }
            self.notes.entry(what).or_insert_with(|| format!("{what}: {error} (first at {t_ms} ms)"));
        }
    }

    fn into_telemetry(self) -> Telemetry {
        let rows = &self.rows;
        let u32s = |value: fn(&Row) -> &Answer<u32>| {
            Column::OptU32(rows.iter().map(|row| value(row).as_ref().ok().copied()).collect())
        };
        let i64s = |value: fn(&Row) -> Option<u64>| {
            Column::OptI64(rows.iter().map(|row| value(row).map(u64::cast_signed)).collect())
        };
        let table = Table::new()
            .with("t_ms", Column::I64(rows.iter().map(|row| row.t_ms).collect()))
            .with("cell", Column::U32(rows.iter().map(|row| row.cell).collect()))
            .with("sm_mhz", u32s(|row| &row.sm_mhz))
            .with("memory_mhz", u32s(|row| &row.memory_mhz))
            .with("power_mw", u32s(|row| &row.power_mw))
            .with("temperature_c", u32s(|row| &row.temperature_c))
            .with("throttle", i64s(|row| row.throttle.as_ref().ok().copied()))
            .with("power_violation_ns", i64s(|row| row.violations.as_ref().ok().map(|v| v.power_ns)))
            .with("thermal_violation_ns", i64s(|row| row.violations.as_ref().ok().map(|v| v.thermal_ns)));
        let notes = self.notes.into_values().collect();
        Telemetry { table, notes, processes_seen: self.processes, lost: self.lost }
    }
}
