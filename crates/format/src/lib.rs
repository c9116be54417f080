#![no_std]
#![forbid(unsafe_code)]
//! heapwise-format
