//! `environment.json`: the machine, driver, GPU, container and toolkit a run was made with.
//!
//! It holds no host name, user name, address or serial: the GPU is named by a hash of its UUID. An absent value could
//! not be read; it is never replaced by a default.

use crate::Digest;
use crate::cell::DeviceFacts;
use serde::{Deserialize, Serialize};

/// The record.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Environment {
    /// Format version.
    pub format: u32,
    /// What the harness found when it opened the device.
    pub device: DeviceFacts,
    /// `docker`, `host` or `inside`.
    pub runtime: String,
    /// How `auto` came to it, in words; or `asked for`.
    pub runtime_why: String,
    /// Container facts; absent unless the runtime is `docker`.
    pub container: Option<Container>,
    /// The toolkit's origin: `wheels`, `image`, `box` or `none`.
    pub toolkit: String,
    /// Digest of `docker/toolkit.lock`.
    pub toolkit_lock: Digest,
    /// compute-sanitizer's version line; absent when none is at hand.
    pub sanitizer: Option<String>,
    /// Kernel release and CPU model of the host.
    pub host: Host,
    /// The GPU as NVML saw it before and after; absent without NVML.
    pub nvml: Option<NvmlFacts>,
    /// How clocks were held.
    pub clocks: ClockRecord,
    /// The host's clocks when the run began, at the begin and end of each cell, and when it ended; absent in runs recorded
    /// before they were compared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<Vec<Stamp>>,
}

/// The host's three clocks, read one right after the other, in milliseconds.
///
/// Wall time is a label and may be set at any moment; monotonic time stands still while the host sleeps, boot time does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stamp {
    /// The cell that begins here, from 1; 0 where none runs.
    pub cell: u32,
    /// `CLOCK_REALTIME`.
    pub wall_ms: i64,
    /// `CLOCK_MONOTONIC`.
    pub monotonic_ms: i64,
    /// `CLOCK_BOOTTIME`.
    pub boottime_ms: i64,
}

/// Container facts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Container {
    /// Engine and version, e.g. `docker 20.10.24`.
    pub engine: String,
    /// The base image: reference as in `docker/image.lock`, or a local base.
    pub base: String,
    /// Digest of the base: a registry digest, or the image id of a local base.
    pub base_digest: String,
    /// Whether the base is local and air-gapped.
    pub base_local: bool,
    /// The id of the image that programs ran in, as its engine names it; never a registry's digest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_id: Option<String>,
    /// Where the engine keeps its images, e.g. `overlay2`: an id is one store's word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage_driver: Option<String>,
    /// Digest of `docker/Dockerfile`.
    pub dockerfile: Digest,
    /// How the GPU got in: `cdi`, `gpus`, `device-nodes` or `none`.
    pub gpu_access: String,
    /// The hardening flags used.
    pub hardening: Vec<String>,
}

/// The host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Host {
    /// Operating system and release, e.g. `Debian GNU/Linux 12`.
    pub os: String,
    /// Kernel release.
    pub kernel: String,
    /// CPU model.
    pub cpu: String,
    /// Logical CPUs.
    pub cpus: u32,
    /// Memory in bytes.
    pub memory_bytes: u64,
}

/// The GPU as NVML saw it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NvmlFacts {
    /// Driver version.
    pub driver: String,
    /// SHA-256 of the loaded libnvidia-ml.
    pub library: Option<Digest>,
    /// Whether ECC is on; absent when unsupported.
    pub ecc: Option<bool>,
    /// Uncorrected ECC errors since the last reset; absent when unsupported.
    pub ecc_uncorrected: Option<u64>,
    /// Whether a row remap is pending or failed; absent when unsupported.
    pub remap_problem: Option<bool>,
    /// Whether MIG is on; absent when unsupported.
    pub mig: Option<bool>,
    /// Power cap in milliwatts; absent when unsupported.
    pub power_cap_mw: Option<u32>,
    /// Highest SM clock in MHz.
    pub sm_clock_max_mhz: Option<u32>,
    /// Memory clock in MHz at the start.
    pub memory_clock_mhz: Option<u32>,
    /// Compute processes other than ours, before the run; absent when not observable.
    pub other_processes_before: Option<u32>,
    /// Compute processes other than ours, after the run; absent when not observable.
    pub other_processes_after: Option<u32>,
    /// The hashed UUID of the GPU that NVML watched, as in `DeviceFacts`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// The PCI address of that GPU, as NVML writes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pci: Option<String>,
    /// Health and idleness around the run; absent in runs recorded before they were watched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub watch: Option<Watch>,
}

/// An answer of NVML: a value, that this GPU has no such thing, or why it could not be read. None of them stands for zero.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reading<T> {
    /// The value.
    Value(T),
    /// This GPU or driver has no such thing.
    Unsupported,
    /// Why it could not be read.
    Failed(String),
}

impl<T> Reading<T> {
    /// The value, where there is one.
    #[must_use]
    pub fn value(&self) -> Option<&T> {
        match self {
            Self::Value(value) => Some(value),
            Self::Unsupported | Self::Failed(_) => None,
        }
    }
}

/// The GPU around a run, each side read by a process that opened NVML anew: a handle that was open before may answer long after
/// nobody else can reach the GPU.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Watch {
    /// Right before.
    pub before: Snapshot,
    /// Right after.
    pub after: Snapshot,
    /// The most compute processes seen at once while a cell ran, ours among them; absent when they could not be listed.
    pub most_processes: Option<u32>,
    /// What NVML said when the GPU was first lost meanwhile; absent when it never was.
    pub lost: Option<String>,
}

/// The GPU at one instant, while nothing of ours runs on it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Snapshot {
    /// Corrected ECC errors since the driver was loaded.
    pub ecc_corrected: Reading<u64>,
    /// Uncorrected ones.
    pub ecc_uncorrected: Reading<u64>,
    /// Whether a row remap is pending or has failed.
    pub remap_problem: Reading<bool>,
    /// Device memory in use, in bytes.
    pub memory_used_bytes: Reading<u64>,
    /// Share of the last sample period in which a kernel ran, in percent.
    pub busy_pct: Reading<u32>,
    /// Compute processes.
    pub processes: Reading<u32>,
    /// Enforced power cap, in milliwatts.
    pub power_cap_mw: Reading<u32>,
    /// Whether the driver keeps its state when its last client goes.
    pub persistence: Reading<bool>,
}

/// How clocks were held.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClockRecord {
    /// `lock`, `observe`, or `none` on the emulated device.
    pub mode: String,
    /// The SM clock asked for, in MHz; absent when not locked.
    pub asked_mhz: Option<u32>,
    /// The SM clock read back under load, in MHz.
    pub read_back_mhz: Option<u32>,
    /// Whether the memory clock was locked; absent when not tried.
    pub memory_locked: Option<bool>,
    /// Whether the state before was put back; absent when nothing was changed.
    pub restored: Option<bool>,
    /// NVML setter calls made.
    pub setter_calls: u32,
    /// Anything refused, in words.
    pub notes: Vec<String>,
}

/// The NVML call behind `power_mw` of telemetry and behind power caps' comparison: what it averages over changed with drivers and
/// GPUs, so both it and the driver's version are kept.
pub const POWER_READING: &str = "nvmlDeviceGetPowerUsage";

/// `telemetry.parquet`: one row a sample. `t_ms` i64 (since the harness started), `cell` u32 (1-based index as in the progress lines; 0 between cells),
/// `sm_mhz`, `memory_mhz`, `power_mw`, `temperature_c` optional u32, `throttle` optional i64 (NVML clocks-event reason bits),
/// `power_violation_ns`, `thermal_violation_ns` optional i64 (accumulated). `power_mw` is nvmlDeviceGetPowerUsage: averaged over a second
/// since Ampere except GA100, instantaneous before (NVML API reference); the driver's version stands in `environment.json`.
pub const TELEMETRY: &[&str] = &[
    "t_ms",
    "cell",
    "sm_mhz",
    "memory_mhz",
    "power_mw",
    "temperature_c",
    "throttle",
    "power_violation_ns",
    "thermal_violation_ns",
];
