//! See `heapwise_testkit::fuzz::heap_v2`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| heapwise_testkit::fuzz::heap_v2(bytes));
