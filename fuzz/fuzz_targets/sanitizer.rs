//! See `assay_fuzz::sanitizer`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| assay_fuzz::sanitizer(data));
