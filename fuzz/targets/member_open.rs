//! See `harness::member_open`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| harness::member_open::run(data));
