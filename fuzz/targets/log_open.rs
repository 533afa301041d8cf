//! See `harness::log_open`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| harness::log_open::run(data));
