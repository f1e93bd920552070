//! Reads what NVML reports of the GPU before and after a run, and for `clocks status`. Sets nothing.

use anyhow::Result;
use host::gpu::lease::{Lease, Standing};
use host::gpu::nvml::{Answer, Gpu, device_id, reading};
use schema::environment::NvmlFacts;
pub use schema::environment::Reading;
use serde::Serialize;
use std::path::Path;
use words::throttle;

/// The facts before a run. `ours` are the ids of our own processes with a compute context.
///
/// # Errors
/// When not even the driver's version can be read, so that NVML is unusable.
pub fn before(gpu: &dyn Gpu, ours: &[u32]) -> Answer<NvmlFacts> {
    Ok(NvmlFacts {
        driver: gpu.driver_version()?,
        library: gpu.library().map(|(_, digest)| digest),
        ecc: gpu.ecc().ok(),
        ecc_uncorrected: gpu.ecc_uncorrected().ok(),
        remap_problem: gpu.row_remap().ok().map(|remap| remap.pending || remap.failed),
        mig: gpu.mig().ok(),
        power_cap_mw: gpu.power_cap_mw().ok(),
        sm_clock_max_mhz: gpu.sm_max_mhz().ok(),
        memory_clock_mhz: gpu.memory_mhz().ok(),
        other_processes_before: others(gpu, ours),
        other_processes_after: None,
        device: Some(device_id(gpu.uuid())),
        pci: gpu.pci().ok(),
        watch: None,
    })
}

/// Completes the facts after a run. What got worse meanwhile replaces what was read before.
///
/// `saw_ours` says whether the list of processes ever showed our own while it ran: in a container it may show none at all,
/// and then an empty list says nothing of others.
pub fn after(facts: &mut NvmlFacts, gpu: &dyn Gpu, ours: &[u32], saw_ours: bool) {
    facts.other_processes_after = others(gpu, ours);
    if !saw_ours {
        facts.other_processes_before = None;
        facts.other_processes_after = None;
    }
    facts.ecc_uncorrected = facts.ecc_uncorrected.max(gpu.ecc_uncorrected().ok());
    let remap_problem = gpu.row_remap().ok().map(|remap| remap.pending || remap.failed);
    facts.remap_problem = facts.remap_problem.max(remap_problem);
}

fn others(gpu: &dyn Gpu, ours: &[u32]) -> Option<u32> {
    let pids = gpu.compute_processes().ok()?;
    let others = pids.iter().filter(|pid| **pid != std::process::id() && !ours.contains(pid)).count();
    u32::try_from(others).ok()
}

/// `clocks status`. Every value may be unsupported or unreadable, with the reason in its place.
#[derive(Clone, Debug, Serialize)]
pub struct ClockStatus {
    /// Product name.
    pub name: Reading<String>,
    /// The hashed UUID, as in records.
    pub device: String,
    /// SM clock now, in MHz.
    pub sm_mhz: Reading<u32>,
    /// Highest SM clock, in MHz.
    pub sm_max_mhz: Reading<u32>,
    /// Memory clock now, in MHz.
    pub memory_mhz: Reading<u32>,
    /// Power draw, in milliwatts.
    pub power_mw: Reading<u32>,
    /// Power cap, in milliwatts.
    pub power_cap_mw: Reading<u32>,
    /// Temperature in °C.
    pub temperature_c: Reading<u32>,
    /// What holds clocks down, in words.
    pub held_down_by: Reading<String>,
    /// Our lease, when there is one.
    pub lease: Option<LeaseStatus>,
}

/// A lease for people.
#[derive(Clone, Debug, Serialize)]
pub struct LeaseStatus {
    /// Whether its holder lives.
    pub standing: Standing,
    /// The holder's process id.
    pub pid: u32,
    /// Whether it is for this GPU.
    pub this_gpu: bool,
}

/// Reads the status.
///
/// # Errors
/// When the lease file cannot be read.
pub fn status(gpu: &dyn Gpu, lease_path: &Path) -> Result<ClockStatus> {
    let lease = match Lease::read(lease_path)? {
        None => None,
        Some(lease) => {
            Some(LeaseStatus { standing: lease.standing()?, pid: lease.holder.pid, this_gpu: lease.gpu == gpu.uuid() })
        }
    };
    Ok(ClockStatus {
        name: reading(gpu.name()),
        device: device_id(gpu.uuid()),
        sm_mhz: reading(gpu.sm_mhz()),
        sm_max_mhz: reading(gpu.sm_max_mhz()),
        memory_mhz: reading(gpu.memory_mhz()),
        power_mw: reading(gpu.power_mw()),
        power_cap_mw: reading(gpu.power_cap_mw()),
        temperature_c: reading(gpu.temperature_c()),
        held_down_by: reading(gpu.throttle().map(throttle::names)),
        lease,
    })
}
