//! What we write, read by the tools it is written for. A tool that is missing fails its test and
//! says what to install; none is skipped.

#[path = "../specimen/mod.rs"]
mod specimen;

mod callgrind;
mod dh_view;
mod firefox;
mod go_pprof;
mod heaptrack;
mod jeprof;
mod tool;
