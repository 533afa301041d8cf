//! See `harness::store_checkpoint`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| harness::store_checkpoint::run(data));
