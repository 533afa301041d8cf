//! See `harness::strangers::first_bytes`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| harness::strangers::first_bytes::run(data));
