//! See `assay_fuzz::counters`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| assay_fuzz::counters(data));
