//! See `harness::strangers::tokens`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| harness::strangers::tokens::run(data));
