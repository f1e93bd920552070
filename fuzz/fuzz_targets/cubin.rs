//! See `assay_fuzz::cubin`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| assay_fuzz::cubin(data));
