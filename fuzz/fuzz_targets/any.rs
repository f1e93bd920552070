//! The target that `ASSAY_FUZZ_TARGET` names: one program to build instead of one for each, for `run.sh`.

#![no_main]

use std::sync::OnceLock;

static TARGET: OnceLock<fn(&[u8])> = OnceLock::new();

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let target = TARGET.get_or_init(|| {
        let name = std::env::var("ASSAY_FUZZ_TARGET").expect("ASSAY_FUZZ_TARGET names a target");
        assay_fuzz::TARGETS.iter().find(|(target, _)| *target == name).expect("there is such a target").1
    });
    target(data);
});
