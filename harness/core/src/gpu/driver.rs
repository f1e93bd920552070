//! The CUDA driver: chooses the GPU, makes its context and streams, and waits for streams.
#![expect(unsafe_code, reason = "wraps the driver's calls")]

use super::{choice, preflight};
use anyhow::Context as _;
use cudarc::driver::{result, sys};
use std::ffi::CStr;
use std::time::{Duration, Instant};

/// How long the host waits for any launch, also under a sanitizer that slows it down.
const PATIENCE: Duration = Duration::from_secs(240);

/// The GPU we work on, with a context that is current on the thread that uses it.
pub(super) struct Driver {
    handle: sys::CUdevice,
    context: sys::CUcontext,
    /// `GPU-…`.
    pub(super) uuid: String,
    /// For grids that may run long.
    pub(super) background: Stream,
    /// For what must start beside them.
    pub(super) priority: Stream,
}

/// A stream that does not wait for the default one.
#[derive(Clone, Copy)]
pub struct Stream(sys::CUstream);

impl Driver {
    /// Opens the GPU that `selector` names and creates its streams.
    ///
    /// # Errors
    /// When there is no driver, no such GPU, or the context cannot be made.
    pub(super) fn open(selector: &str) -> anyhow::Result<Self> {
        preflight::initialise()?;
        let uuids = (0..result::device::get_count()?).map(uuid_of).collect::<anyhow::Result<Vec<_>>>()?;
        let ordinal = choice::select(selector, &uuids)?;
        let handle = result::device::get(i32::try_from(ordinal)?)?;
        // SAFETY: `handle` is a device; the flags are set before the context exists or are refused harmlessly.
        let context = unsafe {
            let _ = sys::cuDevicePrimaryCtxSetFlags_v2(handle, sys::CUctx_flags::CU_CTX_SCHED_SPIN as u32);
            let context = result::primary_ctx::retain(handle).context("failed to create a context on the GPU")?;
            result::ctx::set_current(context)?;
            context
        };
        let (least, greatest) = result::stream::get_priority_range()?;
        let stream = |priority| result::stream::create_with_priority(result::stream::StreamKind::NonBlocking, priority);
        Ok(Self {
            handle,
            context,
            uuid: uuids[ordinal].clone(),
            background: Stream(stream(least)?),
            priority: Stream(stream(greatest)?),
        })
    }

    /// Makes the context current on this thread.
    ///
    /// # Errors
    /// When the driver refuses.
    pub(super) fn bind(&self) -> anyhow::Result<()> {
        // SAFETY: the context is ours until we drop.
        Ok(unsafe { result::ctx::set_current(self.context) }?)
    }

    /// The product's name.
    ///
    /// # Errors
    /// When the driver refuses.
    pub(super) fn name(&self) -> anyhow::Result<String> {
        Ok(result::device::get_name(self.handle)?)
    }

    /// Its PCI address, e.g. `0000:3B:00.0`.
    ///
    /// # Errors
    /// When the driver refuses.
    pub(super) fn pci(&self) -> anyhow::Result<String> {
        let mut text = [0_u8; 32];
        // SAFETY: the driver writes a NUL-terminated text of at most the length given, and `handle` is a device.
        unsafe { sys::cuDeviceGetPCIBusId(text.as_mut_ptr().cast(), i32::try_from(text.len())?, self.handle) }
            .result()?;
        Ok(CStr::from_bytes_until_nul(&text)?.to_str()?.to_owned())
    }

    /// Device memory in bytes.
    ///
    /// # Errors
    /// When the driver refuses.
    pub(super) fn memory_bytes(&self) -> anyhow::Result<u64> {
        // SAFETY: `handle` is a device.
        Ok(unsafe { result::device::total_mem(self.handle) }? as u64)
    }

    /// An attribute of the GPU, none of which is negative.
    ///
    /// # Errors
    /// When the driver refuses.
    pub(super) fn attribute(&self, attribute: sys::CUdevice_attribute) -> anyhow::Result<u32> {
        // SAFETY: `handle` is a device.
        let value = unsafe { result::device::get_attribute(self.handle, attribute) }?;
        u32::try_from(value).with_context(|| format!("{attribute:?} is {value}"))
    }

    /// See [`super::Gpu::finish`].
    pub(super) fn finish(&self, what: &str) -> anyhow::Result<()> {
        let begun = Instant::now();
        for stream in [Stream::DEFAULT, self.background, self.priority] {
            while !stream.idle(what)? {
                anyhow::ensure!(
                    begun.elapsed() < PATIENCE,
                    "{what} did not end within {PATIENCE:?}; the GPU may need a reset"
                );
                std::hint::spin_loop();
            }
        }
        Ok(())
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        // SAFETY: ours, and used by nobody after this. The errors are of no use to anyone here.
        unsafe {
            let _ = result::stream::destroy(self.background.0);
            let _ = result::stream::destroy(self.priority.0);
            let _ = result::primary_ctx::release(self.handle);
        }
    }
}

impl Stream {
    /// As the driver knows it.
    pub(super) fn handle(self) -> sys::CUstream {
        self.0
    }

    /// The default stream, on which fills and copies run.
    const DEFAULT: Self = Self(std::ptr::null_mut());

    /// Whether all its work is done.
    fn idle(self, what: &str) -> anyhow::Result<bool> {
        // SAFETY: the stream is alive as long as its `Driver`.
        match unsafe { sys::cuStreamQuery(self.0) } {
            sys::CUresult::CUDA_SUCCESS => Ok(true),
            sys::CUresult::CUDA_ERROR_NOT_READY => Ok(false),
            error => Err(result::DriverError(error)).with_context(|| format!("{what} failed on the GPU")),
        }
    }
}

/// The UUID of a GPU as NVML and `nvidia-smi` write it.
fn uuid_of(ordinal: i32) -> anyhow::Result<String> {
    let uuid = result::device::get_uuid(result::device::get(ordinal)?)?;
    Ok(choice::uuid_text(&uuid.bytes.map(|byte| byte.cast_unsigned())))
}

/// The driver's CUDA version, e.g. `13000`.
///
/// # Errors
/// When the driver refuses.
pub(super) fn cuda_version() -> anyhow::Result<u32> {
    let mut version = 0;
    // SAFETY: a valid out-parameter.
    unsafe { sys::cuDriverGetVersion(&raw mut version) }.result()?;
    Ok(u32::try_from(version)?)
}
