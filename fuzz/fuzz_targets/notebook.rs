//! See `assay_fuzz::notebook`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| assay_fuzz::notebook(data));
