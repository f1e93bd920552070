//! See `assay_fuzz::metrics`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| assay_fuzz::metrics(data));
