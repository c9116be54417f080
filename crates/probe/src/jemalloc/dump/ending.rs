//! The end of the process: one complete last dump, even when several threads end the process at
//! once.
//!
//! A thread that calls `exit` goes through the probe's hook and waits there for an earlier caller.
//! The return of `main` does not. In glibc before 2.41 both then take turns in calling exit
//! handlers, and the first that finds none left ends the process while the other thread still runs.
//! So the probe registers a handler that runs last and waits for the dump.
#![allow(unsafe_code)]

use core::ffi::{c_int, c_void};

use super::{Kind, PATIENCE_MS, leaks, write_announced};
use crate::atomics::{AtomicBool, AtomicU32, Ordering};
use crate::inside::enter;
use crate::jemalloc::options::options;
use crate::session::Session;
use crate::symbols::{find_next, function};
use crate::sys;

/// The end of the process. Zeroed memory is valid: no thread ends it.
pub(super) struct Ending {
    /// The last dump was begun, and is written.
    is_begun: AtomicBool,
    is_written: AtomicBool,
    /// The thread that ends the process; 0 for none.
    thread: AtomicU32,
}

/// Longest time for destructors of other libraries before the probe's begins, where another thread
/// runs them.
const DESTRUCTORS_MS: u32 = 1000;

fn wants_last() -> bool {
    options().prof && options().at_exit
}

/// Registers the handler that runs last: from our constructor, and so before the loader's own
/// handler, which runs the destructors. Other C libraries have another order.
pub(crate) fn watch_exit() {
    type Register = unsafe extern "C" fn(extern "C" fn(*mut c_void), *mut c_void, *mut c_void) -> c_int;
    if !wants_last() || find_next(c"gnu_get_libc_version").is_none() {
        return;
    }
    // SAFETY: the signature of __cxa_atexit.
    if let Some(register) = unsafe { function::<Register>(c"__cxa_atexit") } {
        // SAFETY: the handler is never unloaded (nodelete), and belongs to no object that could be
        // unloaded before.
        unsafe { register(await_last, core::ptr::null_mut(), core::ptr::null_mut()) };
    }
}

/// Waits for the last dump if another thread is at it or about to be.
extern "C" fn await_last(_: *mut c_void) {
    let is_set = |flag: fn(&Ending) -> &AtomicBool| {
        enter().is_some_and(|inside| flag(&inside.dump.ending).load(Ordering::Acquire))
    };
    let wait = |flag: fn(&Ending) -> &AtomicBool, patience_ms: u32| {
        (0..patience_ms).any(|_| {
            let done = is_set(flag);
            if !done {
                sys::sleep(1_000_000);
            }
            done
        })
    };
    let _ = wait(|ending| &ending.is_begun, DESTRUCTORS_MS) && wait(|ending| &ending.is_written, PATIENCE_MS);
}

/// Called by a thread that is about to end the process: where a last dump is wanted it waits for
/// one that does so already.
pub(crate) fn before_exit() {
    if !wants_last() {
        return;
    }
    for _ in 0..PATIENCE_MS {
        let Some(inside) = enter() else { return };
        let thread = &inside.dump.ending.thread;
        match thread.compare_exchange(0, sys::tid(), Ordering::Relaxed, Ordering::Relaxed) {
            Err(other) if other != sys::tid() => {
                drop(inside);
                sys::sleep(1_000_000);
            }
            _ => return,
        }
    }
}

/// The last dump, and the leak report. Does not return when leaks are an error and there are any.
pub(crate) fn at_exit() {
    if wants_last()
        && let Some(inside) = enter()
        && !inside.dump.ending.is_begun.swap(true, Ordering::Relaxed)
    {
        write_last(&inside);
        inside.dump.ending.is_written.store(true, Ordering::Release);
    }
}

fn write_last(session: &Session) {
    let thread = &session.dump.ending.thread;
    let _ = thread.compare_exchange(0, sys::tid(), Ordering::Relaxed, Ordering::Relaxed);
    let Some(mut writer) = session.dump.writer.lock(PATIENCE_MS) else { return };
    if let Some(summary) = write_announced(session, &mut writer, Kind::Final).filter(|_| options().leak) {
        leaks::report(writer.path(), &summary, options().leak_error);
    }
}
