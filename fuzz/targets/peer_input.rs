//! See `harness::peer_input`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| harness::peer_input::run(data));
