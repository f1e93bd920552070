//! Loaded cubins and their kernels, and how a kernel is launched.
#![expect(unsafe_code, reason = "wraps the driver's calls for modules and launches")]

use super::driver::Stream;
use anyhow::Context as _;
use cudarc::driver::{result, sys};
use schema::Digest;
use schema::cell::LaunchConfig;
use std::ffi::{CString, c_void};
use std::marker::PhantomData;
use std::path::Path;

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

    /// Kernel file relative to `kernels/`, without suffix.
    pub(super) fn file(&self) -> &'static str {
        self.file
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
pub struct Kernel {
    /// Its symbol.
    pub symbol: &'static str,
    function: sys::CUfunction,
    threads: u32,
    /// Resident blocks per SM.
    pub per_sm: u32,
    cubin: Digest,
}

/// How to launch a kernel.
#[derive(Clone, Copy)]
pub struct Shape {
    /// What the launch is for, as it is recorded.
    pub mode: &'static str,
    /// Blocks in the grid.
    pub grid: u32,
    /// Dynamic shared memory of a block in bytes.
    pub shared_bytes: u32,
    /// Whether all blocks must be resident at once.
    pub cooperative: bool,
}

impl Kernel {
    /// What a launch of this shape is recorded as.
    #[must_use]
    pub fn config(&self, shape: &Shape) -> LaunchConfig {
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
    pub fn allow_shared(&self, bytes: u32) -> anyhow::Result<()> {
        let attribute = sys::CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        // SAFETY: the function stays loaded as long as the context.
        unsafe { result::function::set_function_attribute(self.function, attribute, i32::try_from(bytes)?) }
            .with_context(|| format!("{} cannot have {bytes} bytes of shared memory", self.symbol))
    }

    /// Launches with these arguments, in the order that the kernel declares them.
    ///
    /// # Errors
    /// When the driver refuses the launch.
    pub fn launch(&self, on: Stream, shape: &Shape, args: &[Arg<'_>]) -> anyhow::Result<()> {
        let launch = if shape.cooperative { result::launch_cooperative_kernel } else { result::launch_kernel };
        let (grid, block) = ((shape.grid, 1, 1), (self.threads, 1, 1));
        let mut pointers: Vec<*mut c_void> = args.iter().map(|arg| arg.0).collect();
        // SAFETY: the arguments are the structs the kernel declares (its wrapper's `abi`), and the driver copies them before it
        // returns.
        unsafe { launch(self.function, grid, block, shape.shared_bytes, on.handle(), &mut pointers) }
            .with_context(|| format!("failed to launch {} with {} blocks", self.symbol, shape.grid))
    }
}

/// One argument of a launch.
pub struct Arg<'a>(*mut c_void, PhantomData<&'a ()>);

impl<'a> Arg<'a> {
    /// A struct or number as the kernel declares it.
    pub fn of<T: Copy>(value: &'a T) -> Self {
        Self(std::ptr::from_ref(value).cast_mut().cast(), PhantomData)
    }
}
