//! See `heapwise_fuzz::entry::question`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| heapwise_fuzz::entry::question(bytes));
