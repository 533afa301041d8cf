//! See `harness::strangers::hpack`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| harness::strangers::hpack::run(data));
