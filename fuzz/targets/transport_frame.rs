//! See `harness::transport_frame`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| harness::transport_frame::run(data));
