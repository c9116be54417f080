//! One file per command: its options, and what it does.

pub(crate) mod agent;
pub(crate) mod at;
pub(crate) mod attach;
pub(crate) mod check;
pub(crate) mod collect;
pub(crate) mod diff;
pub(crate) mod doctor;
pub(crate) mod dump;
pub(crate) mod export;
pub(crate) mod fragmentation;
pub(crate) mod leaks;
pub(crate) mod live;
pub(crate) mod mark;
pub(crate) mod picture;
pub(crate) mod ps;
pub(crate) mod record;
pub(crate) mod report;
pub(crate) mod run;
mod run_allocators;
mod run_resident;
mod run_watchers;
pub(crate) mod serve;
mod skynet_names;
pub(crate) mod stats;
pub(crate) mod summary;
pub(crate) mod switch;
pub(crate) mod timeline;
