//! See `harness::commands`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| harness::commands::run(data));
