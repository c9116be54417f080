//! Our exports, read by the tools they are written for. A missing tool fails its test with a
//! message that names the package; no test is skipped.

#[path = "../specimen/mod.rs"]
mod specimen;

mod callgrind;
mod dh_view;
mod firefox;
mod go_pprof;
mod heaptrack;
mod jeprof;
mod memray;
mod tool;
