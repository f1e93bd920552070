//! See `assay_fuzz::attempts`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| assay_fuzz::attempts(data));
