//! NVML, the GPU's management library: what the GPU reports of itself, and the two clock locks that can be set.
//!
//! Nothing here decides anything, and no value is filled in: a value, "unsupported", an error and zero are four
//! different answers. The library is loaded at run time; no other program's output is ever parsed.

mod library;
mod look;
mod patience;

pub use library::{Library, NvmlGpu};
pub use look::{Look, blind, reading, snapshot};
pub use patience::{PATIENCE, within};

/// What the library answers.
pub type Answer<T> = Result<T, GpuError>;

/// Why there is no value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GpuError {
    /// This GPU or driver does not have it.
    #[error("not supported by this GPU or driver")]
    Unsupported,
    /// It exists, and we may not.
    #[error("no permission")]
    NoPermission,
    /// The GPU fell off the bus or needs a reset.
    #[error("the GPU is lost")]
    Lost,
    /// No library, no driver or no such GPU.
    #[error("not found: {0}")]
    NotFound(String),
    /// Library and loaded kernel module are of different versions.
    #[error("driver/library version mismatch")]
    Mismatch,
    /// Anything else, in the library's words.
    #[error("{0}")]
    Other(String),
}

/// A pair of accumulated times during which clocks were held down, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Violations {
    /// By the power cap.
    pub power_ns: u64,
    /// By temperature.
    pub thermal_ns: u64,
}

/// Whether rows of memory wait for or failed a remap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowRemap {
    /// A remap waits for a reset.
    pub pending: bool,
    /// A remap failed.
    pub failed: bool,
}

/// Device memory, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// Held by somebody.
    pub used: u64,
    /// All there is.
    pub total: u64,
}

/// One GPU.
pub trait Gpu: Send + Sync {
    /// Its UUID, as in `GPU-…`: its only unambiguous name.
    fn uuid(&self) -> &str;
    /// PCI address as the library writes it, e.g. `00000000:3B:00.0`.
    fn pci(&self) -> Answer<String>;
    /// Product name.
    fn name(&self) -> Answer<String>;
    /// Driver version.
    fn driver_version(&self) -> Answer<String>;
    /// The library file in use: its path and digest; absent when the file cannot be found again.
    fn library(&self) -> Option<(std::path::PathBuf, schema::Digest)>;
    /// SM clock now, in MHz.
    fn sm_mhz(&self) -> Answer<u32>;
    /// Memory clock now, in MHz.
    fn memory_mhz(&self) -> Answer<u32>;
    /// Highest SM clock, in MHz.
    fn sm_max_mhz(&self) -> Answer<u32>;
    /// Highest memory clock, in MHz.
    fn memory_max_mhz(&self) -> Answer<u32>;
    /// SM clocks that can be asked for at the highest memory clock, ascending.
    fn supported_sm_mhz(&self) -> Answer<Vec<u32>>;
    /// Power draw now, in milliwatts.
    fn power_mw(&self) -> Answer<u32>;
    /// Enforced power cap, in milliwatts.
    fn power_cap_mw(&self) -> Answer<u32>;
    /// Temperature in °C.
    fn temperature_c(&self) -> Answer<u32>;
    /// Why clocks are not higher: bits as in `words::throttle`.
    fn throttle(&self) -> Answer<u64>;
    /// Time spent held down.
    fn violations(&self) -> Answer<Violations>;
    /// Whether ECC is on.
    fn ecc(&self) -> Answer<bool>;
    /// Uncorrected ECC errors since the driver was loaded.
    fn ecc_uncorrected(&self) -> Answer<u64>;
    /// Corrected ECC errors since the driver was loaded.
    fn ecc_corrected(&self) -> Answer<u64>;
    /// State of row remapping.
    fn row_remap(&self) -> Answer<RowRemap>;
    /// Whether MIG is on.
    fn mig(&self) -> Answer<bool>;
    /// Memory held and there.
    fn memory(&self) -> Answer<Memory>;
    /// Share of the last sample period in which a kernel ran, in percent.
    fn busy_pct(&self) -> Answer<u32>;
    /// Whether the driver keeps its state when its last client goes.
    fn persistence(&self) -> Answer<bool>;
    /// Ids of the processes with a compute context.
    fn compute_processes(&self) -> Answer<Vec<u32>>;

    /// Locks the SM clock.
    fn lock_sm(&self, mhz: u32) -> Answer<()>;
    /// Lets the SM clock go.
    fn reset_sm(&self) -> Answer<()>;
    /// Locks the memory clock.
    fn lock_memory(&self, mhz: u32) -> Answer<()>;
    /// Lets the memory clock go.
    fn reset_memory(&self) -> Answer<()>;
    /// How often one of the four above was called.
    fn setter_calls(&self) -> u32;
}

/// Which GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GpuChoice {
    /// By its UUID.
    Uuid(String),
    /// By the hash of its UUID, as the harness names it in `DeviceFacts`.
    DeviceId(String),
    /// By the management library's index (PCI order, not CUDA's); resolved to a UUID at once.
    Index(u32),
}

/// The name a GPU has in records: the first 16 hex digits of the SHA-256 of its UUID with the `GPU-` prefix.
#[must_use]
pub fn device_id(uuid: &str) -> String {
    schema::Digest::of(uuid).to_string()[..16].to_owned()
}
