//! See `harness::peer_frame`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| harness::peer_frame::run(data));
