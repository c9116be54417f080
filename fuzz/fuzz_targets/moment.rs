//! See `heapwise_testkit::fuzz::moment`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| heapwise_testkit::fuzz::moment(bytes));
