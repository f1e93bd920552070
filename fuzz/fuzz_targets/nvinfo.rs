//! See `assay_fuzz::nvinfo`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| assay_fuzz::nvinfo(data));
