//! See `assay_fuzz::progress`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| assay_fuzz::progress(data));
