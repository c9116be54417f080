//! The whole thing, end to end: victim programs that keep their own account, and real programs,
//! with the executable as a user has it.

#![allow(unreachable_pub, reason = "a test binary exports nothing")]

mod agent;
mod allocators;
mod attach;
mod attach_rounds;
mod client;
mod compat;
mod compiled;
mod control;
mod coverage;
mod drain;
mod exactness;
mod faults;
mod findings;
mod forks;
mod from_documents;
mod gs;
mod harness;
mod hostile_requests;
mod hostile_segment;
mod input;
mod interposition;
mod jemalloc;
mod jemalloc_options;
mod jemalloc_threads;
mod jemalloc_usable;
mod jeprof_corpus;
mod jeprof_options;
mod language;
mod launch;
mod leases;
mod ledger;
mod limits;
mod live;
mod long_life;
mod lua;
mod lua_lines;
mod own_code;
mod paranoid;
mod python;
mod python_processes;
mod real_programs;
mod recording;
mod remains;
mod ruby;
mod security;
mod serve;
mod serve_bounds;
mod sites;
mod statistics;
mod surroundings;
mod terminal;
mod users;
mod victims;
