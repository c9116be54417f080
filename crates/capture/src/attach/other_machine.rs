//! Attach on machines for which calls in a running process are not implemented.

use super::Attached;
use crate::failure::{Failure, Outcome};

fn refuse() -> Outcome<Attached> {
    Err(Failure::new("attach works on x86-64 only; start the program with `heapwise run`"))
}

/// Whether a process carries the probe: only from its start.
pub fn is_hooked(pid: u32) -> bool {
    crate::process::has_probe(pid)
}

/// Refuses.
pub fn attach(_pid: u32, _conf: &str) -> Outcome<Attached> {
    refuse()
}

/// Refuses.
pub fn detach(_pid: u32) -> Outcome<Attached> {
    refuse()
}
