//! See `harness::batch`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| harness::batch::run(data));
