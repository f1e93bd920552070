//! The real library, through nvml-wrapper.

use super::{Answer, Gpu, GpuChoice, GpuError, Memory, RowRemap, Violations, device_id};
use nvml_wrapper::enum_wrappers::device::{
    Clock, EccCounter, GpuVirtualizationMode, MemoryError, PerformancePolicy, TemperatureSensor,
};
use nvml_wrapper::enums::device::{GpuLockedClocksSetting, SampleValue};
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::structs::device::FieldId;
use nvml_wrapper::sys_exports::field_id::{NVML_FI_DEV_REMAPPED_FAILURE, NVML_FI_DEV_REMAPPED_PENDING};
use nvml_wrapper::{Device, Nvml};
use schema::Digest;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// The loaded library. It stays initialised while a GPU of it lives, and with it the driver's state.
#[derive(Clone)]
pub struct Library {
    nvml: Arc<Nvml>,
    file: Option<(PathBuf, Digest)>,
}

impl Library {
    /// Loads the library: the named file, or what the loader finds as `libnvidia-ml.so.1`.
    ///
    /// # Errors
    /// [`GpuError::NotFound`] without library or driver; otherwise what its initialisation said.
    pub fn open(path: Option<&Path>) -> Answer<Self> {
        let mut builder = Nvml::builder();
        if let Some(path) = path {
            builder.lib_path(path.as_os_str());
        }
        let nvml = builder.init().map_err(typed)?;
        Ok(Self { nvml: Arc::new(nvml), file: loaded_file(path) })
    }

    /// The UUID of each GPU, in the library's order: a lost one does not hide the others.
    ///
    /// # Errors
    /// When they cannot even be counted.
    pub fn uuids(&self) -> Answer<Vec<Answer<String>>> {
        let count = self.nvml.device_count().map_err(typed)?;
        let uuid = |idx| self.nvml.device_by_index(idx).and_then(|device| device.uuid()).map_err(typed);
        Ok((0..count).map(|idx| uuid(idx).and_then(not_empty)).collect())
    }

    /// The chosen GPU.
    ///
    /// # Errors
    /// [`GpuError::NotFound`] when there is none such; what the library said of it when it is lost; otherwise when two GPUs
    /// answer to the same name.
    pub fn gpu(&self, choice: &GpuChoice) -> Answer<NvmlGpu> {
        let uuids = self.uuids()?;
        let named = |is: &dyn Fn(&str) -> bool| {
            let found: Vec<&String> = uuids.iter().flatten().filter(|uuid| is(uuid)).collect();
            match found[..] {
                [uuid] => Ok(uuid.clone()),
                [] => Err(GpuError::NotFound(nowhere(choice, &uuids))),
                _ => Err(GpuError::Other(format!("{} GPUs answer to {choice:?}", found.len()))),
            }
        };
        let uuid = match choice {
            GpuChoice::Uuid(uuid) => named(&|known| known.eq_ignore_ascii_case(uuid)),
            GpuChoice::DeviceId(id) => named(&|known| device_id(known) == *id),
            GpuChoice::Index(idx) => match uuids.get(*idx as usize) {
                Some(Ok(uuid)) => named(&|known| known == uuid),
                Some(Err(error)) => Err(error.clone()),
                None => Err(GpuError::NotFound(nowhere(choice, &uuids))),
            },
        }?;
        Ok(NvmlGpu { library: self.clone(), uuid, setter_calls: AtomicU32::new(0) })
    }

    /// The driver's version.
    ///
    /// # Errors
    /// When the library does not say.
    pub fn driver_version(&self) -> Answer<String> {
        self.nvml.sys_driver_version().map_err(typed).and_then(not_empty)
    }

    /// The newest CUDA that the driver runs, as 1000 × major + 10 × minor.
    ///
    /// # Errors
    /// When the library does not say.
    pub fn cuda(&self) -> Answer<u32> {
        let cuda = self.nvml.sys_cuda_driver_version().map_err(typed)?;
        u32::try_from(cuda).ok().filter(|cuda| *cuda > 0).ok_or_else(|| GpuError::Other(format!("CUDA version {cuda}")))
    }
}

fn nowhere(choice: &GpuChoice, uuids: &[Answer<String>]) -> String {
    let silent = uuids.iter().filter(|uuid| uuid.is_err()).count();
    let silent = if silent == 0 { String::new() } else { format!(", of which {silent} do not answer") };
    format!("{choice:?} among {} GPUs{silent}", uuids.len())
}

/// A GPU of the loaded library.
pub struct NvmlGpu {
    library: Library,
    uuid: String,
    setter_calls: AtomicU32,
}

impl NvmlGpu {
    fn ask<T>(&self, question: impl FnOnce(&mut Device<'_>) -> Result<T, NvmlError>) -> Answer<T> {
        let mut device = self.library.nvml.device_by_uuid(self.uuid.as_str()).map_err(typed)?;
        question(&mut device).map_err(typed)
    }

    /// Architecture, e.g. `sm_90`.
    ///
    /// # Errors
    /// When the library does not say.
    pub fn arch(&self) -> Answer<String> {
        let capability = self.ask(|device| device.cuda_compute_capability())?;
        Ok(format!("sm_{}{}", capability.major, capability.minor))
    }

    /// Whether this is a share of a GPU (a vGPU), or a GPU whose owner gives shares of it to others.
    ///
    /// # Errors
    /// When the library does not say.
    pub fn is_shared(&self) -> Answer<bool> {
        let mode = self.ask(|device| device.virtualization_mode())?;
        Ok(!matches!(mode, GpuVirtualizationMode::Bare | GpuVirtualizationMode::PassThrough))
    }

    fn set(&self, order: impl FnOnce(&mut Device<'_>) -> Result<(), NvmlError>) -> Answer<()> {
        self.setter_calls.fetch_add(1, Ordering::SeqCst);
        self.ask(order)
    }
}

impl Gpu for NvmlGpu {
    fn uuid(&self) -> &str {
        &self.uuid
    }

    fn pci(&self) -> Answer<String> {
        self.ask(|device| device.pci_info()).map(|pci| pci.bus_id).and_then(not_empty)
    }

    fn name(&self) -> Answer<String> {
        self.ask(|device| device.name()).and_then(not_empty)
    }

    fn driver_version(&self) -> Answer<String> {
        self.library.driver_version()
    }

    fn library(&self) -> Option<(PathBuf, Digest)> {
        self.library.file.clone()
    }

    fn sm_mhz(&self) -> Answer<u32> {
        self.ask(|device| device.clock_info(Clock::SM)).and_then(read)
    }

    fn memory_mhz(&self) -> Answer<u32> {
        self.ask(|device| device.clock_info(Clock::Memory)).and_then(read)
    }

    fn sm_max_mhz(&self) -> Answer<u32> {
        self.ask(|device| device.max_clock_info(Clock::SM)).and_then(read)
    }

    fn memory_max_mhz(&self) -> Answer<u32> {
        self.ask(|device| device.max_clock_info(Clock::Memory)).and_then(read)
    }

    fn supported_sm_mhz(&self) -> Answer<Vec<u32>> {
        let memory = self.ask(|device| device.supported_memory_clocks())?;
        let memory_max = memory.into_iter().max().ok_or(GpuError::Unsupported)?;
        let mut clocks = self.ask(|device| device.supported_graphics_clocks(memory_max))?;
        clocks.sort_unstable();
        clocks.dedup();
        Ok(clocks)
    }

    fn power_mw(&self) -> Answer<u32> {
        self.ask(|device| device.power_usage()).and_then(read)
    }

    fn power_cap_mw(&self) -> Answer<u32> {
        self.ask(|device| device.enforced_power_limit()).and_then(read)
    }

    fn temperature_c(&self) -> Answer<u32> {
        self.ask(|device| device.temperature(TemperatureSensor::Gpu)).and_then(read)
    }

    fn throttle(&self) -> Answer<u64> {
        // Strict: a reason this program does not know must not pass for no reason.
        match self.ask(|device| Ok(device.current_throttle_reasons_strict()))? {
            Ok(reasons) => Ok(reasons.bits()),
            Err(NvmlError::IncorrectBits(nvml_wrapper::error::Bits::U64(bits))) => Ok(bits),
            Err(error) => Err(typed(error)),
        }
    }

    fn violations(&self) -> Answer<Violations> {
        let power = self.ask(|device| device.violation_status(PerformancePolicy::Power))?;
        let thermal = self.ask(|device| device.violation_status(PerformancePolicy::Thermal))?;
        Ok(Violations { power_ns: power.violation_time, thermal_ns: thermal.violation_time })
    }

    fn ecc(&self) -> Answer<bool> {
        self.ask(|device| device.is_ecc_enabled()).map(|state| state.currently_enabled)
    }

    fn ecc_uncorrected(&self) -> Answer<u64> {
        self.ask(|device| device.total_ecc_errors(MemoryError::Uncorrected, EccCounter::Volatile)).and_then(counted)
    }

    fn ecc_corrected(&self) -> Answer<u64> {
        self.ask(|device| device.total_ecc_errors(MemoryError::Corrected, EccCounter::Volatile)).and_then(counted)
    }

    fn row_remap(&self) -> Answer<RowRemap> {
        let fields = [FieldId(NVML_FI_DEV_REMAPPED_PENDING), FieldId(NVML_FI_DEV_REMAPPED_FAILURE)];
        let values = self.ask(|device| device.field_values_for(&fields))?;
        let mut flags = values.into_iter().map(|value| truth(value.and_then(|sample| sample.value).map_err(typed)?));
        let mut next = || flags.next().unwrap_or(Err(GpuError::Unsupported));
        Ok(RowRemap { pending: next()?, failed: next()? })
    }

    fn mig(&self) -> Answer<bool> {
        self.ask(|device| device.mig_mode()).map(|mode| mode.current != 0)
    }

    fn memory(&self) -> Answer<Memory> {
        let info = self.ask(|device| device.memory_info())?;
        Ok(Memory { used: counted(info.used)?, total: counted(info.total)? })
    }

    fn busy_pct(&self) -> Answer<u32> {
        self.ask(|device| device.utilization_rates()).map(|rates| rates.gpu).and_then(read)
    }

    fn persistence(&self) -> Answer<bool> {
        self.ask(|device| device.is_in_persistent_mode())
    }

    fn compute_processes(&self) -> Answer<Vec<u32>> {
        let processes = self.ask(|device| device.running_compute_processes())?;
        Ok(processes.into_iter().map(|process| process.pid).collect())
    }

    fn lock_sm(&self, mhz: u32) -> Answer<()> {
        let setting = GpuLockedClocksSetting::Numeric { min_clock_mhz: mhz, max_clock_mhz: mhz };
        self.set(|device| device.set_gpu_locked_clocks(setting))
    }

    fn reset_sm(&self) -> Answer<()> {
        self.set(|device| device.reset_gpu_locked_clocks())
    }

    fn lock_memory(&self, mhz: u32) -> Answer<()> {
        self.set(|device| device.set_mem_locked_clocks(mhz, mhz))
    }

    fn reset_memory(&self) -> Answer<()> {
        self.set(|device| device.reset_mem_locked_clocks())
    }

    fn setter_calls(&self) -> u32 {
        self.setter_calls.load(Ordering::SeqCst)
    }
}

/// `NVML_ERROR_DEPRECATED` of nvml.h (CUDA 13.0), which the wrapper does not name.
const DEPRECATED: u32 = 26;
/// `NVML_ERROR_GPU_NOT_FOUND`, likewise.
const GPU_NOT_FOUND: u32 = 28;

/// All ones is the library's word for "not available" (`NVML_VALUE_NOT_AVAILABLE` of nvml.h), never a reading.
fn read(value: u32) -> Answer<u32> {
    if value == u32::MAX { Err(GpuError::Unsupported) } else { Ok(value) }
}

/// See [`read`].
fn counted(value: u64) -> Answer<u64> {
    if value == u64::MAX { Err(GpuError::Unsupported) } else { Ok(value) }
}

fn typed(error: NvmlError) -> GpuError {
    match error {
        NvmlError::NotSupported
        | NvmlError::FunctionNotFound
        | NvmlError::FailedToLoadSymbol(_)
        | NvmlError::VgpuEccNotSupported
        | NvmlError::UnexpectedVariant(DEPRECATED) => GpuError::Unsupported,
        // A cgroup that forbids the device reads as "blocked by the operating system".
        NvmlError::NoPermission | NvmlError::OperatingSystem => GpuError::NoPermission,
        NvmlError::GpuLost | NvmlError::ResetRequired | NvmlError::UnexpectedVariant(GPU_NOT_FOUND) => GpuError::Lost,
        NvmlError::LibRmVersionMismatch => GpuError::Mismatch,
        NvmlError::NotFound
        | NvmlError::DriverNotLoaded
        | NvmlError::LibraryNotFound
        | NvmlError::LibloadingError(_) => GpuError::NotFound(error.to_string()),
        other => GpuError::Other(other.to_string()),
    }
}

fn not_empty(text: String) -> Answer<String> {
    if text.is_empty() { Err(GpuError::Other("answered with an empty text".to_owned())) } else { Ok(text) }
}

fn truth(value: SampleValue) -> Answer<bool> {
    match value {
        SampleValue::U32(v) => Ok(v != 0),
        SampleValue::U64(v) => Ok(v != 0),
        SampleValue::I64(v) => Ok(v != 0),
        SampleValue::F64(_) => Err(GpuError::Other("a flag was returned as a floating-point number".to_owned())),
    }
}

/// The file behind the mapping that the loader made, since a name alone says nothing about what was loaded.
fn loaded_file(asked: Option<&Path>) -> Option<(PathBuf, Digest)> {
    let asked = asked.and_then(|path| path.canonicalize().ok());
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    let mut mapped = maps.lines().filter_map(|line| line.find('/').map(|start| Path::new(&line[start..])));
    let path = mapped.find(|path| match &asked {
        Some(asked) => *path == asked,
        None => path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("libnvidia-ml.so")),
    })?;
    Some((path.to_owned(), Digest::of_file(path).ok()?))
}
