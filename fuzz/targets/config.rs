//! See `harness::config`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| harness::config::run(data));
