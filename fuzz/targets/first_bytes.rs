//! See `harness::first_bytes`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| harness::first_bytes::run(data));
