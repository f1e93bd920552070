//! The real library, through nvml-wrapper.

use super::{Answer, Gpu, GpuChoice, GpuError, RowRemap, Violations, device_id};
use nvml_wrapper::enum_wrappers::device::{Clock, EccCounter, MemoryError, PerformancePolicy, TemperatureSensor};
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

    /// The UUIDs of all GPUs, in the library's order.
    ///
    /// # Errors
    /// When they cannot be listed.
    pub fn uuids(&self) -> Answer<Vec<String>> {
        let count = self.nvml.device_count().map_err(typed)?;
        (0..count).map(|idx| self.nvml.device_by_index(idx).and_then(|device| device.uuid()).map_err(typed)).collect()
    }

    /// The chosen GPU.
    ///
    /// # Errors
    /// [`GpuError::NotFound`] when there is none such.
    pub fn gpu(&self, choice: &GpuChoice) -> Answer<NvmlGpu> {
        let uuids = self.uuids()?;
        let found = match choice {
            GpuChoice::Uuid(uuid) => uuids.iter().find(|known| known.eq_ignore_ascii_case(uuid)),
            GpuChoice::DeviceId(id) => uuids.iter().find(|known| device_id(known) == *id),
            GpuChoice::Index(idx) => uuids.get(*idx as usize),
        };
        let uuid = found.filter(|uuid| !uuid.is_empty()).cloned();
        let uuid = uuid.ok_or_else(|| GpuError::NotFound(format!("{choice:?} among {} GPUs", uuids.len())))?;
        Ok(NvmlGpu { library: self.clone(), uuid, setter_calls: AtomicU32::new(0) })
    }
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

    fn set(&self, order: impl FnOnce(&mut Device<'_>) -> Result<(), NvmlError>) -> Answer<()> {
        self.setter_calls.fetch_add(1, Ordering::SeqCst);
        self.ask(order)
    }
}

impl Gpu for NvmlGpu {
    fn uuid(&self) -> &str {
        &self.uuid
    }

    fn name(&self) -> Answer<String> {
        self.ask(|device| device.name()).and_then(not_empty)
    }

    fn driver_version(&self) -> Answer<String> {
        self.library.nvml.sys_driver_version().map_err(typed).and_then(not_empty)
    }

    fn library(&self) -> Option<(PathBuf, Digest)> {
        self.library.file.clone()
    }

    fn sm_mhz(&self) -> Answer<u32> {
        self.ask(|device| device.clock_info(Clock::SM))
    }

    fn memory_mhz(&self) -> Answer<u32> {
        self.ask(|device| device.clock_info(Clock::Memory))
    }

    fn sm_max_mhz(&self) -> Answer<u32> {
        self.ask(|device| device.max_clock_info(Clock::SM))
    }

    fn memory_max_mhz(&self) -> Answer<u32> {
        self.ask(|device| device.max_clock_info(Clock::Memory))
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
        self.ask(|device| device.power_usage())
    }

    fn power_cap_mw(&self) -> Answer<u32> {
        self.ask(|device| device.enforced_power_limit())
    }

    fn temperature_c(&self) -> Answer<u32> {
        self.ask(|device| device.temperature(TemperatureSensor::Gpu))
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
        self.ask(|device| device.total_ecc_errors(MemoryError::Uncorrected, EccCounter::Volatile))
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

fn typed(error: NvmlError) -> GpuError {
    match error {
        NvmlError::NotSupported
        | NvmlError::FunctionNotFound
        | NvmlError::FailedToLoadSymbol(_)
        | NvmlError::VgpuEccNotSupported
        // NVML 13: NVML_ERROR_DEPRECATED, which the wrapper does not name.
        | NvmlError::UnexpectedVariant(26) => GpuError::Unsupported,
        // A cgroup that forbids the device reads as "blocked by the operating system".
        NvmlError::NoPermission | NvmlError::OperatingSystem => GpuError::NoPermission,
        // NVML 13: NVML_ERROR_GPU_NOT_FOUND.
        NvmlError::GpuLost | NvmlError::ResetRequired | NvmlError::UnexpectedVariant(28) => GpuError::Lost,
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
        SampleValue::F64(_) => Err(GpuError::Other("a flag came as a fraction".to_owned())),
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
