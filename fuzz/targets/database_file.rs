//! See `harness::database_file`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| harness::database_file::run(data));
