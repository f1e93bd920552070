//! See `assay_fuzz::pack`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| assay_fuzz::pack(data));
