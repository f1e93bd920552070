//! Device memory that grows as needed, and host words that the device sees.
//!
//! Nothing is freed or allocated while a persistent grid is resident: callers allocate before they launch.
#![expect(unsafe_code, reason = "wraps the driver's memory calls")]

use super::abi::{Address, BlockRecord, ClockSample};
use crate::failure::fail;
use anyhow::Context as _;
use cudarc::driver::{DriverError, result, sys};
use schema::ExitCode;
use std::sync::atomic::{AtomicU32, Ordering};

/// Share of the free device memory that we never go beyond, in per cent.
const MOST_OF_FREE_PCT: u64 = 60;

/// Types that are nothing but their bytes, any of which are valid.
///
/// # Safety
/// The type has no padding, no pointers and no invalid bit patterns.
pub unsafe trait Plain: Copy + Default {}

// SAFETY: integers and floats are nothing but their bytes.
unsafe impl Plain for u8 {}
// SAFETY: as above.
unsafe impl Plain for u32 {}
// SAFETY: as above.
unsafe impl Plain for u64 {}
// SAFETY: as above.
unsafe impl Plain for i64 {}
// SAFETY: as above.
unsafe impl Plain for f32 {}
// SAFETY: `repr(C)` structs of integers whose sizes leave no padding (asserted beside the kernels).
unsafe impl Plain for BlockRecord {}
// SAFETY: as above.
unsafe impl Plain for ClockSample {}

/// Device memory.
#[derive(Default)]
pub struct Buffer {
    address: Address,
    bytes: usize,
}

impl Buffer {
    /// Makes room for `bytes`; what was there before is lost when it has to grow.
    ///
    /// # Errors
    /// When that is more than our share of the free memory, or the allocation fails.
    pub fn ensure(&mut self, bytes: usize, what: &str) -> anyhow::Result<()> {
        if bytes <= self.bytes {
            return Ok(());
        }
        let (free, _) = result::mem_get_info()?;
        let most = share_of(free as u64 + self.bytes as u64);
        anyhow::ensure!(
            bytes as u64 <= most,
            "{what} need {} MiB of device memory, and {} MiB ({MOST_OF_FREE_PCT} % of what is free) is the most; ask for fewer tiles",
            bytes as u64 >> 20,
            most >> 20
        );
        *self = Self::default();
        // SAFETY: the context is current (the device binds it before every call).
        self.address = unsafe { result::malloc_sync(bytes) }.with_context(|| format!("failed to allocate {what}"))?;
        self.bytes = bytes;
        Ok(())
    }

    /// The address of byte `offset`.
    ///
    /// # Panics
    /// When it lies outside.
    #[must_use]
    pub fn at(&self, offset: usize) -> Address {
        assert!(offset <= self.bytes, "offset {offset} is inside a buffer of {} bytes", self.bytes);
        self.address + offset as u64
    }

    /// Sets `bytes` bytes from `offset` on to `value`.
    ///
    /// # Errors
    /// When the driver refuses.
    pub fn fill(&self, offset: usize, bytes: usize, value: u8) -> anyhow::Result<()> {
        assert!(offset + bytes <= self.bytes, "a fill stays inside its buffer");
        if bytes == 0 {
            return Ok(());
        }
        // SAFETY: the range lies inside our allocation.
        unsafe { result::memset_d8_sync(self.at(offset), value, bytes) }.context("failed to fill device memory")
    }

    /// Copies `values` to byte `offset`.
    ///
    /// # Errors
    /// When the driver refuses.
    pub fn upload<T: Plain>(&self, offset: usize, values: &[T]) -> anyhow::Result<()> {
        assert!(offset + size_of_val(values) <= self.bytes, "an upload stays inside its buffer");
        if values.is_empty() {
            return Ok(());
        }
        // SAFETY: the range lies inside our allocation, and `T` is plain bytes.
        unsafe { result::memcpy_htod_sync(self.at(offset), values) }.context("failed to copy to the device")
    }

    /// Copies `count` values from byte `offset`.
    ///
    /// # Errors
    /// When the driver refuses, which is also how a fault of an earlier kernel shows.
    pub fn download<T: Plain>(&self, offset: usize, count: usize) -> anyhow::Result<Vec<T>> {
        assert!(offset + count * size_of::<T>() <= self.bytes, "a download stays inside its buffer");
        let mut values = vec![T::default(); count];
        if count > 0 {
            // SAFETY: the range lies inside our allocation, and `T` is plain bytes.
            unsafe { result::memcpy_dtoh_sync(&mut values, self.at(offset)) }
                .context("failed to copy from the device")?;
        }
        Ok(values)
    }

    /// Copies one value from byte `offset`.
    ///
    /// # Errors
    /// As [`Self::download`].
    pub fn download_one<T: Plain>(&self, offset: usize) -> anyhow::Result<T> {
        Ok(self.download(offset, 1)?[0])
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if self.address != 0 {
            // SAFETY: allocated by `ensure` and freed once. The error is of no use to anyone here.
            let _ = unsafe { result::free_sync(self.address) };
        }
    }
}

/// What part of the free memory a buffer may take.
fn share_of(free: u64) -> u64 {
    free / 100 * MOST_OF_FREE_PCT
}

/// Host words that the device sees, each on a cache line of its own.
pub struct Mapped {
    host: *mut u32,
    device: Address,
    lines: usize,
}

/// The driver says "out of memory" of the host's memory too, on a GPU that has plenty.
fn no_host_memory(error: DriverError, bytes: usize) -> anyhow::Error {
    if error.0 != sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY {
        return error.into();
    }
    fail(
        ExitCode::Environment,
        format!(
            "no {bytes} bytes of page-locked host memory (cuMemHostAlloc, out of memory): this is the host's memory, not \
             the GPU's; see ulimit -l and free -m where the harness runs"
        ),
    )
}

/// 32-bit words in a cache line of the host.
const LINE_WORDS: usize = 16;

impl Mapped {
    /// Allocates `lines` words.
    ///
    /// # Errors
    /// When the driver refuses.
    pub fn new(lines: usize) -> anyhow::Result<Self> {
        let flags = sys::CU_MEMHOSTALLOC_DEVICEMAP | sys::CU_MEMHOSTALLOC_PORTABLE;
        let bytes = lines * LINE_WORDS * size_of::<u32>();
        let mut host = std::ptr::null_mut();
        let mut device = 0;
        // SAFETY: both out-parameters are valid, and the context is current.
        unsafe {
            sys::cuMemHostAlloc(&raw mut host, bytes, flags).result().map_err(|error| no_host_memory(error, bytes))?;
            sys::cuMemHostGetDevicePointer_v2(&raw mut device, host, 0).result()?;
        }
        let mapped = Self { host: host.cast(), device, lines };
        mapped.clear();
        Ok(mapped)
    }

    /// How many words there are.
    #[must_use]
    pub fn lines(&self) -> usize {
        self.lines
    }

    /// The device's address of a word.
    #[must_use]
    pub fn at(&self, line: usize) -> Address {
        assert!(line < self.lines, "word {line} of {}", self.lines);
        self.device + (line * LINE_WORDS * size_of::<u32>()) as u64
    }

    /// What a word holds now.
    #[must_use]
    pub fn load(&self, line: usize) -> u32 {
        self.word(line).load(Ordering::Acquire)
    }

    /// Writes a word.
    pub fn store(&self, line: usize, value: u32) {
        self.word(line).store(value, Ordering::Release);
    }

    /// Zeroes every word.
    pub fn clear(&self) {
        (0..self.lines).for_each(|line| self.store(line, 0));
    }

    fn word(&self, line: usize) -> &AtomicU32 {
        assert!(line < self.lines, "word {line} of {}", self.lines);
        // SAFETY: inside our allocation, aligned, and only ever accessed atomically, by us and by the device.
        unsafe { AtomicU32::from_ptr(self.host.add(line * LINE_WORDS)) }
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: allocated by `new` and freed once. The error is of no use to anyone here.
        let _ = unsafe { result::free_host(self.host.cast()) };
    }
}

/// Places in one buffer, handed out in turn, each on a line of its own.
#[derive(Default)]
pub struct Layout {
    bytes: usize,
}

impl Layout {
    /// Distance between two words that different SMs write.
    const LINE: usize = 128;

    /// Room for `count` values of `T`; returns its offset.
    pub fn add<T: Plain>(&mut self, count: usize) -> usize {
        let offset = self.bytes;
        self.bytes += (count * size_of::<T>()).next_multiple_of(Self::LINE);
        offset
    }

    /// What all of it takes, in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_start_on_lines_and_never_overlap() {
        let mut layout = Layout::default();
        let places = [layout.add::<u32>(1), layout.add::<u64>(17), layout.add::<u8>(0), layout.add::<u8>(1)];
        assert_eq!(places, [0, 128, 384, 384]);
        assert_eq!(layout.bytes(), 512);
    }

    #[test]
    fn no_host_memory_is_not_said_to_be_the_gpus() {
        let error = no_host_memory(DriverError(sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY), 4096);
        assert_eq!(crate::failure::code_of(&error), ExitCode::Environment);
        let said = error.to_string();
        assert!(said.contains("4096 bytes of page-locked host memory") && said.contains("ulimit -l"), "{said}");
        // The driver's own words need a driver, so this error is only looked at.
        let other = no_host_memory(DriverError(sys::CUresult::CUDA_ERROR_NOT_PERMITTED), 4096);
        assert_eq!(crate::failure::code_of(&other), ExitCode::Measurement);
    }

    #[test]
    fn our_share_of_the_memory_is_not_all_of_it() {
        assert_eq!(share_of(1000), 600);
    }
}
