//! Models of the lock-free parts: loom runs each through the schedules of its threads, with at most
//! three preemptions (`LOOM_MAX_PREEMPTIONS`), and gives every load each value that it may see on a
//! weakly ordered machine. The code is the probe's own (see [`crate::atomics`]), and that of
//! readers and controllers from the format crate.
//!
//! For each word loom stores only the last access: a thread that reads before it writes hides the
//! read of another thread. So each model is explored from both sides (see [`check`]).
//!
//! `cargo xtask loom` runs them. Each model names the ordering that it checks: with that ordering
//! weakened, it fails.

mod control;
mod log;
mod outside;
mod tables;
mod threads;

use core::cell::Cell;
use std::sync::Mutex;

use loom::thread::spawn;

use crate::atomics;
use crate::session::{Session, TestSession};

std::thread_local! {
    static SWAPPED: Cell<bool> = const { Cell::new(false) };
}

/// Explores `threads` on a session that `prepare` may fill before: twice, once with either of those
/// that work [`together`] as the one that begins.
pub(crate) fn check(
    prepare: impl FnOnce(&'static Session),
    threads: impl Fn(&'static Session) + Clone + Send + Sync + 'static,
) {
    check_of(96, prepare, threads);
}

/// As [`check`], of a model that touches at most `words` words.
fn check_of(
    words: usize,
    prepare: impl FnOnce(&'static Session),
    threads: impl Fn(&'static Session) + Clone + Send + Sync + 'static,
) {
    static TURN: Mutex<()> = Mutex::new(());
    // One model at a time: an execution unmaps addresses that another model may have got meanwhile.
    let _turn = TURN.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let session = TestSession::new().leak();
    prepare(session);
    for swapped in [false, true] {
        SWAPPED.set(swapped);
        let threads = threads.clone();
        atomics::explore(words, move || threads(session));
    }
}

/// Runs both at once; returns both results.
pub(crate) fn together<A: 'static, B: 'static>(
    one: impl FnOnce() -> A + 'static,
    other: impl FnOnce() -> B + 'static,
) -> (A, B) {
    let (one, other) = if SWAPPED.get() {
        let other = spawn(other);
        (spawn(one), other)
    } else {
        (spawn(one), spawn(other))
    };
    let ended = "its panic ends the model";
    (one.join().expect(ended), other.join().expect(ended))
}
