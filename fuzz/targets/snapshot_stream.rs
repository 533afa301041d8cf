//! See `harness::snapshot_stream`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| harness::snapshot_stream::run(data));
