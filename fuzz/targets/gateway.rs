//! See `harness::strangers::gateway_requests`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| harness::strangers::gateway_requests::run(data));
