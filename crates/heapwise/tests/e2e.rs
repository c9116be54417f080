//! The whole thing, end to end: victim programs that keep their own account, and real programs, with the
//! executable as a user has it.

#![allow(unreachable_pub, reason = "a test binary exports nothing")]

#[path = "../../../xtask/src/account.rs"]
mod account;
#[path = "../../../xtask/src/arguments.rs"]
#[allow(dead_code, reason = "shared with xtask")]
mod arguments;
#[path = "../../../xtask/src/failure.rs"]
#[allow(dead_code, reason = "shared with xtask")]
mod failure;
#[path = "../../../xtask/src/kills.rs"]
#[allow(dead_code, reason = "shared with xtask")]
mod kills;
#[path = "../../../xtask/src/programs.rs"]
mod programs;
#[path = "../../../xtask/src/random.rs"]
mod random;
#[path = "../../../xtask/src/soak.rs"]
#[allow(dead_code, reason = "shared with xtask")]
mod soak;
#[path = "../../../xtask/src/torture.rs"]
#[allow(dead_code, reason = "shared with xtask")]
mod torture;

#[path = "e2e/client.rs"]
mod client;
#[path = "e2e/compat.rs"]
mod compat;
#[path = "e2e/control.rs"]
mod control;
#[path = "e2e/drain.rs"]
mod drain;
#[path = "e2e/exactness.rs"]
mod exactness;
#[path = "e2e/faults.rs"]
mod faults;
#[path = "e2e/gs.rs"]
mod gs;
#[path = "e2e/harness.rs"]
mod harness;
#[path = "e2e/hostile_requests.rs"]
mod hostile_requests;
#[path = "e2e/hostile_segment.rs"]
mod hostile_segment;
#[path = "e2e/input.rs"]
mod input;
#[path = "e2e/jemalloc.rs"]
mod jemalloc;
#[path = "e2e/jemalloc_options.rs"]
mod jemalloc_options;
#[path = "e2e/jemalloc_threads.rs"]
mod jemalloc_threads;
#[path = "e2e/jeprof_corpus.rs"]
mod jeprof_corpus;
#[path = "e2e/long_life.rs"]
mod long_life;
#[path = "e2e/lua.rs"]
mod lua;
#[path = "e2e/paranoid.rs"]
mod paranoid;
#[path = "e2e/real_programs.rs"]
mod real_programs;
#[path = "e2e/recording.rs"]
mod recording;
#[path = "e2e/remains.rs"]
mod remains;
#[path = "e2e/security.rs"]
mod security;
#[path = "e2e/serve.rs"]
mod serve;
#[path = "e2e/statistics.rs"]
mod statistics;
#[path = "e2e/surroundings.rs"]
mod surroundings;
#[path = "e2e/victims.rs"]
mod victims;
