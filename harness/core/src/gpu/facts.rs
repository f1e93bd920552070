//! What the driver reports of the GPU: name, architecture, SMs and limits.

use super::choice;
use super::driver::{Driver, cuda_version};
use cudarc::driver::sys::CUdevice_attribute as Attribute;
use schema::Digest;
use schema::cell::DeviceFacts;
use schema::plan::Slots;

pub(super) fn describe(driver: &Driver, arch: String, (major, minor): (u32, u32)) -> anyhow::Result<DeviceFacts> {
    let name = driver.name()?;
    let maps = fs_err::read_to_string("/proc/self/maps").unwrap_or_default();
    let libcuda = choice::libcuda_path(&maps).map(Digest::of_file).transpose()?;
    Ok(DeviceFacts {
        id: choice::hashed(&driver.uuid),
        slug: choice::slug(&name),
        mig: Some(name.contains("MIG ")),
        name,
        compute_capability: format!("{major}.{minor}"),
        arch,
        slots: Slots::of_sms(driver.attribute(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?),
        max_threads_per_sm: driver.attribute(Attribute::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR)?,
        fp32_lanes_per_sm: choice::fp32_lanes(major, minor),
        memory_bytes: driver.memory_bytes()?,
        l2_bytes: driver.attribute(Attribute::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE)?.into(),
        driver_cuda: cuda_version()?,
        kernel_timeout: driver.attribute(Attribute::CU_DEVICE_ATTRIBUTE_KERNEL_EXEC_TIMEOUT)? != 0,
        libcuda,
        pci: Some(driver.pci()?),
    })
}
