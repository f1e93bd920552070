//! Every launch of preempt on a real GPU, at small size; and, when asked, how fast and how quick the kernels are.
//!
//! `ASSAY_TEST_CUBINS` names the folder of cubins (`<arch>/<flavor>/preempt/…`), `ASSAY_TEST_FLAVOR` the flavor (`measure`),
//! `ASSAY_TEST_DEVICE` the GPU (`cuda:0`). `ASSAY_TEST_TIMING=1` adds the timing lines; they assert nothing.

mod gpu {
    pub(crate) mod check;
    pub(crate) mod legs;
    pub(crate) mod timing;
}

use harness_core::gpu::Gpu;
use preempt::cuda::{CUBINS, PreemptGpu};
use std::path::Path;

#[test]
fn every_call_of_the_trait() {
    let Some(mut device) = open() else { return };
    gpu::check::all(&mut device);
    gpu::legs::all(&mut device);
    if std::env::var("ASSAY_TEST_TIMING").is_ok_and(|value| value == "1") {
        gpu::timing::all(&mut device);
    }
}

/// The device under test, or why there is none.
fn open() -> Option<PreemptGpu> {
    let setting = |name: &str, default: &str| std::env::var(name).unwrap_or_else(|_| default.to_owned());
    let Ok(cubins) = std::env::var("ASSAY_TEST_CUBINS") else {
        eprintln!("skipped: no device (ASSAY_TEST_CUBINS is not set)");
        return None;
    };
    let (selector, flavor) = (setting("ASSAY_TEST_DEVICE", "cuda:0"), setting("ASSAY_TEST_FLAVOR", "measure"));
    match Gpu::open(&selector, Path::new(&cubins), &flavor, CUBINS).and_then(PreemptGpu::new) {
        Ok(device) => Some(device),
        Err(error) if error.to_string().starts_with("no CUDA driver library") => {
            eprintln!("skipped: no device ({error})");
            None
        }
        Err(error) => panic!("failed to open {selector}: {error:#}"),
    }
}
