//! See `assay_fuzz::lock`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| assay_fuzz::lock(data));
