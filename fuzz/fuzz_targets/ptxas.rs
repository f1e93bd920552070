//! See `assay_fuzz::ptxas`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| assay_fuzz::ptxas(data));
