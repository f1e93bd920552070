//! Clocks: locked for a measurement and put back on every path, or observed without touching anything.
//!
//! This process itself calls no NVML setter in either mode. One root child sets the lock, and restores the clocks
//! when this process ends, however it ends. If the child itself was killed, the clocks are restored before the next
//! lock. Observing never restores anything.

pub mod burn;
pub mod hold;
pub mod holder;

pub mod prove;

pub mod telemetry;

pub mod facts;

pub use holder::restore_all;

use anyhow::Result;
use holder::{Held, HoldCommand, Lock, both};
use host::failure::{code_of, fail, remedy_of};
use host::gpu::lease::{Lease, Standing};
use host::gpu::nvml::Gpu;
use prove::{Load, Shown, Trial};
use schema::ExitCode;
use schema::environment::ClockRecord;
use std::sync::Arc;
use std::time::{Duration, Instant};
use words::throttle;

/// What to do with the clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Lock them: to the clock asked for, or to the highest that holds.
    Lock {
        /// In MHz.
        mhz: Option<u32>,
    },
    /// Look on.
    Observe,
}

/// What clocks are held with.
pub struct ClockContext<'a> {
    /// The GPU.
    pub gpu: Arc<dyn Gpu>,
    /// What burns on it.
    pub load: &'a dyn Load,
    /// How the root child is started.
    pub hold: HoldCommand,
}

/// What the body of [`with_clocks`] runs under.
pub struct ClockSession {
    /// The GPU, to read from.
    pub gpu: Arc<dyn Gpu>,
    /// The locked clock; absent when observing.
    pub locked: Option<ProvenLock>,
}

/// A lock that was proven under load.
#[derive(Clone, Debug, PartialEq)]
pub struct ProvenLock {
    /// The SM clock asked for.
    pub mhz: u32,
    /// What NVML read back under load.
    pub read_back_mhz: u32,
    /// What the GPU itself counted under load.
    pub in_band_mhz: f64,
    /// Whether memory is locked too.
    pub memory: bool,
    /// What was refused or could not be checked, in words.
    pub notes: Vec<String>,
}

/// Runs `body` with the clocks held as `mode` says, and restores them whether it succeeds, fails or panics.
///
/// # Errors
/// The body's error, the clocks' error, or both in one message; the body's exit code first.
pub fn with_clocks<T>(
    context: &ClockContext<'_>,
    mode: Mode,
    body: impl FnOnce(&ClockSession) -> Result<T>,
) -> Result<(T, ClockRecord)> {
    match mode {
        Mode::Observe => {
            let value = body(&ClockSession { gpu: Arc::clone(&context.gpu), locked: None })?;
            Ok((value, observed(&*context.gpu)))
        }
        Mode::Lock { mhz } => locked(context, mhz, body),
    }
}

/// The record of a run on the emulated device.
#[must_use]
pub fn no_clocks() -> ClockRecord {
    record("none", 0)
}

/// Restores clocks that a killed holder left locked, if any; returns the number of setter calls. Not for observing.
///
/// # Errors
/// When a living process holds the clocks, or they cannot be put back.
pub fn repair(hold: &HoldCommand) -> Result<Option<u32>> {
    match hold::refuse_held(&hold.lease)? {
        None => Ok(None),
        Some((_, Standing::Rebooted)) => host::files::remove(&hold.lease).map(|()| Some(0)),
        Some((lease, _)) => holder::restore_by_child(hold, &lease.gpu).map(Some),
    }
}

/// `clocks restore`: resets both locks, whoever set them; those of the lease's GPU where there is a lease.
///
/// # Errors
/// When a living process holds the clocks, or they cannot be put back.
pub fn restore(context: &ClockContext<'_>) -> Result<ClockRecord> {
    let left = Lease::read(&context.hold.lease)?.map(|lease| lease.gpu);
    let gpu = left.as_deref().unwrap_or_else(|| context.gpu.uuid());
    let setter_calls = holder::restore_by_child(&context.hold, gpu)?;
    Ok(ClockRecord { restored: Some(true), ..record("lock", setter_calls) })
}

/// `clocks lock`: locks, proves, and holds until `until` returns.
///
/// # Errors
/// As [`with_clocks`].
pub fn lock(
    context: &ClockContext<'_>,
    mhz: Option<u32>,
    until: impl FnOnce(&ClockSession) -> Result<()>,
) -> Result<ClockRecord> {
    with_clocks(context, Mode::Lock { mhz }, until).map(|((), record)| record)
}

fn record(mode: &str, setter_calls: u32) -> ClockRecord {
    ClockRecord {
        mode: mode.to_owned(),
        asked_mhz: None,
        read_back_mhz: None,
        memory_locked: None,
        restored: None,
        setter_calls,
        notes: Vec::new(),
    }
}

fn observed(gpu: &dyn Gpu) -> ClockRecord {
    record("observe", gpu.setter_calls())
}

fn locked<T>(
    context: &ClockContext<'_>,
    mhz: Option<u32>,
    body: impl FnOnce(&ClockSession) -> Result<T>,
) -> Result<(T, ClockRecord)> {
    let repaired = repair(&context.hold)?;
    let clocks = candidates(&*context.gpu, mhz)?;
    let first = mhz.or(clocks.last().copied()).ok_or_else(|| refused("this GPU lists no clock to lock"))?;
    let (held, lock) = Held::start(&context.hold, context.gpu.uuid(), first)?;
    let outcome = Prover { context, held: &held, lock }.prove(mhz, &clocks).and_then(|proven| {
        let session = ClockSession { gpu: Arc::clone(&context.gpu), locked: Some(proven.clone()) };
        Ok((body(&session)?, proven))
    });
    let restored = held.end().map(|calls| (calls, None)).or_else(|error| put_back_after(context, error));
    match (outcome, restored) {
        (Ok((value, proven)), Ok((calls, note))) => {
            let mut record = lock_record(proven, calls, repaired, note);
            record.notes.extend(persistence_note(&*context.gpu));
            record.notes.extend(still_locked(&*context.gpu, record.read_back_mhz));
            Ok((value, record))
        }
        (Ok(_), Err(error)) => Err(error),
        (Err(error), restored) => Err(both(error, restored.err())),
    }
}

/// A holder that died before it restored leaves its lease; then one more child restores the clocks.
fn put_back_after(context: &ClockContext<'_>, error: anyhow::Error) -> Result<(u32, Option<String>)> {
    match repair(&context.hold) {
        Ok(Some(calls)) => Ok((calls, Some(format!("{error:#}; another child restored the clocks")))),
        _ => Err(error),
    }
}

/// Without persistence mode the driver drops a lock when its last client closes the GPU, so the holder keeps it open
/// until it has restored.
fn persistence_note(gpu: &dyn Gpu) -> Option<String> {
    let off = gpu.persistence() == Ok(false);
    off.then(|| "persistence mode is off: the lock lasted as long as its holder had the GPU open".to_owned())
}

/// Whether the GPU still shows the locked clock, and names a lock as its reason, a while after the reset that succeeded.
fn still_locked(gpu: &dyn Gpu, locked_mhz: Option<u32>) -> Option<String> {
    const WHILE: Duration = Duration::from_secs(2);
    let locked = || {
        let named = gpu.throttle().is_ok_and(|bits| bits & throttle::APPLICATION_CLOCKS != 0);
        named && gpu.sm_mhz().ok() == locked_mhz
    };
    let until = Instant::now() + WHILE;
    while locked() {
        if Instant::now() >= until {
            return Some(
                "NVML accepted the reset and still reports the locked clock: cargo xtask clocks status".to_owned(),
            );
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    None
}

fn lock_record(proven: ProvenLock, calls: u32, repaired: Option<u32>, note: Option<String>) -> ClockRecord {
    let mut notes = proven.notes;
    notes.extend(repaired.map(|_| "clocks left locked by a killed process were restored first".to_owned()));
    notes.extend(note);
    ClockRecord {
        mode: "lock".to_owned(),
        asked_mhz: Some(proven.mhz),
        read_back_mhz: Some(proven.read_back_mhz),
        memory_locked: Some(proven.memory),
        restored: Some(true),
        setter_calls: calls + repaired.unwrap_or(0),
        notes,
    }
}

/// The clocks that may be tried, ascending. A clock asked for must be one of them; a GPU that lists none takes any.
fn candidates(gpu: &dyn Gpu, asked: Option<u32>) -> Result<Vec<u32>> {
    let listed = gpu.supported_sm_mhz();
    let Some(asked) = asked else {
        return listed.map_err(|error| refused(format!("the clocks of this GPU cannot be listed: {error}")));
    };
    let clocks = listed.unwrap_or_default();
    if clocks.is_empty() || clocks.contains(&asked) {
        return Ok(clocks.into_iter().filter(|mhz| *mhz <= asked).collect());
    }
    let above = clocks.iter().find(|mhz| **mhz > asked);
    let below = clocks.iter().rev().find(|mhz| **mhz < asked);
    let nearest: Vec<String> = below.into_iter().chain(above).map(ToString::to_string).collect();
    let message = format!("this GPU has no SM clock of {asked} MHz");
    Err(fail(ExitCode::Usage, message, format!("ask for {} MHz", nearest.join(" or "))))
}

fn refused(message: impl Into<String>) -> anyhow::Error {
    fail(ExitCode::Measurement, message, OBSERVE)
}

const OBSERVE: &str = "use `--clocks observe`";

struct Prover<'a> {
    context: &'a ClockContext<'a>,
    held: &'a Held,
    lock: Lock,
}

impl Prover<'_> {
    fn prove(mut self, asked: Option<u32>, clocks: &[u32]) -> Result<ProvenLock> {
        match asked {
            None => self.highest(clocks),
            Some(mhz) => match self.trial(mhz)? {
                Trial::Holds(shown) => Ok(self.proven(shown)),
                Trial::Sags { why, .. } => Err(self.refuse_asked(mhz, &why, clocks)),
            },
        }
    }

    fn trial(&mut self, mhz: u32) -> Result<Trial> {
        if self.lock.mhz != mhz {
            let before = std::mem::take(&mut self.lock.notes);
            self.lock = self.held.relock(mhz)?;
            self.lock.notes.splice(0..0, before);
        }
        prove::try_clock(&*self.context.gpu, self.context.load, mhz)
    }

    /// The highest that holds, proven while it is the one locked.
    fn highest(&mut self, clocks: &[u32]) -> Result<ProvenLock> {
        let mut last_sag = "no clock was tried".to_owned();
        let mut clocks = clocks;
        while let Some((mhz, shown)) = prove::highest(clocks, |mhz| {
            let trial = self.trial(mhz)?;
            if let Trial::Sags { why, .. } = &trial {
                last_sag.clone_from(why);
            }
            Ok(trial)
        })? {
            if self.lock.mhz == mhz {
                return Ok(self.proven(shown));
            }
            if let Trial::Holds(shown) = self.trial(mhz)? {
                return Ok(self.proven(shown));
            }
            clocks = &clocks[..clocks.partition_point(|clock| *clock < mhz)];
        }
        Err(refused(format!("no SM clock holds under load: {last_sag}")))
    }

    fn refuse_asked(&mut self, mhz: u32, why: &str, clocks: &[u32]) -> anyhow::Error {
        let below = &clocks[..clocks.partition_point(|clock| *clock < mhz)];
        let message = format!("the SM clock does not hold at {mhz} MHz: {why}");
        match self.highest(below) {
            Ok(best) => {
                let remedy = format!("ask for {} MHz, the highest that held, or {OBSERVE}", best.mhz);
                fail(ExitCode::Measurement, message, remedy)
            }
            Err(error) if code_of(&error) == ExitCode::Measurement => {
                refused(format!("{message}; nor at any lower clock"))
            }
            Err(error) => {
                let remedy = remedy_of(&error).unwrap_or(OBSERVE).to_owned();
                fail(ExitCode::Measurement, format!("{message}; lower clocks were not tried: {error:#}"), remedy)
            }
        }
    }

    fn proven(&self, shown: Shown) -> ProvenLock {
        let notes = self.lock.notes.iter().cloned().chain(shown.notes).collect();
        ProvenLock {
            mhz: self.lock.mhz,
            read_back_mhz: shown.read_back_mhz,
            in_band_mhz: shown.in_band_mhz,
            memory: self.lock.memory,
            notes,
        }
    }
}
