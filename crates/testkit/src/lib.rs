//! What tests, fuzzers and xtask share: victim programs, the witnesses' accounts, long workloads.

pub mod account;
pub mod failure;
#[cfg(feature = "fuzz")]
pub mod fuzz;
pub mod kills;
pub mod programs;
pub mod random;
pub mod soak;
pub mod torture;
