//! The driver: which GPU, its context and streams, modules, launches and waits.
//!
//! Everything is loaded and resolved when the device is opened, so that nothing is loaded beside a resident grid.
#![expect(unsafe_code, reason = "wraps the driver's calls")]

use super::{choice, preflight};
use anyhow::Context as _;
use cudarc::driver::{result, sys};
use schema::Digest;
use schema::cell::LaunchConfig;
use std::ffi::{CStr, CString, c_void};
use std::path::Path;
use std::time::{Duration, Instant};

/// How long the host waits for any launch, also under a sanitizer that slows it down.
const PATIENCE: Duration = Duration::from_secs(240);

/// The GPU we work on, with a context that is current on the thread that uses it.
pub(super) struct Gpu {
    handle: sys::CUdevice,
    context: sys::CUcontext,
    /// `GPU-…`.
    pub(super) uuid: String,
    /// For drains.
    pub(super) background: Stream,
    /// For the urgent and the setter kernel.
    pub(super) priority: Stream,
}

/// A stream that does not wait for the default one.
#[derive(Clone, Copy)]
pub(super) struct Stream(sys::CUstream);

impl Gpu {
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

    /// Waits until all work is done, that of the default stream included, and reports any fault of it.
    ///
    /// Fills run on the default stream, and our streams do not wait for it: a launch that did not wait here would race
    /// with the fill of its own counters.
    ///
    /// # Errors
    /// When a kernel failed, or did not end in time.
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

impl Drop for Gpu {
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
    /// The default stream, on which fills and copies run.
    const DEFAULT: Self = Self(std::ptr::null_mut());

    /// Whether all its work is done.
    fn idle(self, what: &str) -> anyhow::Result<bool> {
        // SAFETY: the stream is alive as long as its `Gpu`.
        match unsafe { sys::cuStreamQuery(self.0) } {
            sys::CUresult::CUDA_SUCCESS => Ok(true),
            sys::CUresult::CUDA_ERROR_NOT_READY => Ok(false),
            error => Err(result::DriverError(error)).with_context(|| format!("{what} failed on the GPU")),
        }
    }
}

/// A cubin that the driver has loaded.
pub(super) struct Module {
    handle: sys::CUmodule,
    /// Kernel file relative to `kernels/`, without suffix.
    file: &'static str,
    /// Digest of the bytes the driver got.
    digest: Digest,
}

impl Module {
    /// Hashes a cubin and hands the very bytes to the driver.
    ///
    /// # Errors
    /// When the file cannot be read, or the driver refuses it.
    pub(super) fn load(folder: &Path, file: &'static str) -> anyhow::Result<Self> {
        let path = folder.join(format!("{file}.cubin"));
        let bytes = fs_err::read(&path).context("failed to read a kernel; build it with cargo xtask build")?;
        anyhow::ensure!(bytes.starts_with(b"\x7fELF"), "{} is not a cubin", path.display());
        // SAFETY: the driver reads a whole ELF file, whose length its header gives.
        let handle = unsafe { result::module::load_data(bytes.as_ptr().cast()) }
            .with_context(|| format!("the driver refused {}", path.display()))?;
        Ok(Self { handle, file, digest: Digest::of(&bytes) })
    }

    /// File and digest.
    pub(super) fn identity(&self) -> (String, Digest) {
        (self.file.to_owned(), self.digest)
    }

    /// Resolves a kernel and asks how many of its blocks an SM holds.
    ///
    /// # Errors
    /// When the cubin lacks it.
    pub(super) fn kernel(&self, symbol: &'static str, threads: u32) -> anyhow::Result<Kernel> {
        let name = CString::new(symbol)?;
        // SAFETY: the module stays loaded as long as the context.
        let function = unsafe { result::module::get_function(self.handle, name) }
            .with_context(|| format!("{} has no kernel {symbol}", self.file))?;
        // SAFETY: `function` was just resolved. Asking also makes the driver load it now.
        let per_sm =
            unsafe { result::occupancy::max_active_block_per_multiprocessor(function, i32::try_from(threads)?, 0)? };
        Ok(Kernel { symbol, function, threads, per_sm: u32::try_from(per_sm)?, cubin: self.digest })
    }
}

/// A kernel ready to launch.
#[derive(Clone, Copy)]
pub(super) struct Kernel {
    pub(super) symbol: &'static str,
    function: sys::CUfunction,
    threads: u32,
    /// Resident blocks per SM.
    pub(super) per_sm: u32,
    cubin: Digest,
}

/// How to launch a kernel.
#[derive(Clone, Copy)]
pub(super) struct Shape {
    pub(super) mode: &'static str,
    pub(super) grid: u32,
    pub(super) shared_bytes: u32,
    pub(super) cooperative: bool,
}

impl Kernel {
    /// What a launch of this shape is recorded as.
    pub(super) fn config(&self, shape: &Shape) -> LaunchConfig {
        LaunchConfig {
            symbol: self.symbol.to_owned(),
            mode: shape.mode.to_owned(),
            grid: shape.grid,
            block: self.threads,
            shared_bytes: shape.shared_bytes,
            cooperative: shape.cooperative,
            cubin: Some(self.cubin),
        }
    }

    /// Lets a launch have `bytes` of dynamic shared memory.
    ///
    /// # Errors
    /// When that is more than a block can have.
    pub(super) fn allow_shared(&self, bytes: u32) -> anyhow::Result<()> {
        let attribute = sys::CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        // SAFETY: the function stays loaded as long as the context.
        unsafe { result::function::set_function_attribute(self.function, attribute, i32::try_from(bytes)?) }
            .with_context(|| format!("{} cannot have {bytes} bytes of shared memory", self.symbol))
    }

    /// Launches with one argument.
    ///
    /// # Errors
    /// When the driver refuses the launch.
    pub(super) fn launch<A: Copy>(&self, stream: Stream, shape: &Shape, args: &A) -> anyhow::Result<()> {
        self.launch_raw(stream, shape, &mut [pointer(args)])
    }

    /// Launches with two arguments.
    ///
    /// # Errors
    /// When the driver refuses the launch.
    pub(super) fn launch2<A: Copy, B: Copy>(&self, on: Stream, shape: &Shape, a: &A, b: &B) -> anyhow::Result<()> {
        self.launch_raw(on, shape, &mut [pointer(a), pointer(b)])
    }

    /// Launches with three arguments.
    ///
    /// # Errors
    /// When the driver refuses the launch.
    pub(super) fn launch3<A: Copy, B: Copy, C: Copy>(
        &self,
        on: Stream,
        shape: &Shape,
        (a, b, c): (&A, &B, &C),
    ) -> anyhow::Result<()> {
        self.launch_raw(on, shape, &mut [pointer(a), pointer(b), pointer(c)])
    }

    fn launch_raw(&self, stream: Stream, shape: &Shape, args: &mut [*mut c_void]) -> anyhow::Result<()> {
        let launch = if shape.cooperative { result::launch_cooperative_kernel } else { result::launch_kernel };
        let (grid, block) = ((shape.grid, 1, 1), (self.threads, 1, 1));
        // SAFETY: the arguments are the structs the kernel declares (`abi.rs`), and the driver copies them before it returns.
        unsafe { launch(self.function, grid, block, shape.shared_bytes, stream.0, args) }
            .with_context(|| format!("failed to launch {} with {} blocks", self.symbol, shape.grid))
    }
}

fn pointer<T>(value: &T) -> *mut c_void {
    std::ptr::from_ref(value).cast_mut().cast()
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
