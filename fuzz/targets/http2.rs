//! See `harness::http2`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| harness::http2::run(data));
