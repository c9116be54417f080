//! See `heapwise_testkit::fuzz::request_target`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| heapwise_testkit::fuzz::request_target(bytes));
