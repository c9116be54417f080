//! See `heapwise_fuzz::entry::heap_v2`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| heapwise_fuzz::entry::heap_v2(bytes));
