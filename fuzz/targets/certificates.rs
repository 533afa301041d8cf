//! See `harness::strangers::certificates`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| harness::strangers::certificates::run(data));
