//! See `assay_fuzz::claims`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| assay_fuzz::claims(data));
