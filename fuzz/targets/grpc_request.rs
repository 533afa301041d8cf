//! See `harness::strangers::grpc_request`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| harness::strangers::grpc_request::run(data));
