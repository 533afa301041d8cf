//! See `harness::tokens`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| harness::tokens::run(data));
