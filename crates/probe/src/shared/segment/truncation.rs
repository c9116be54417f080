//! A truncated segment file costs the recording, not the program.
//!
//! An access behind the end of a mapped file is a `SIGBUS`. Only a handler helps: a sealed memfd
//! cannot be truncated, but ends with its process, and a killed program must leave its segment. So
//! the probe handles `SIGBUS` where the program had the default action when its segment was made. A
//! fault inside the segment replaces all of it by private zeroed memory; zeroed control words mean
//! that the probe is off. For every other `SIGBUS` the handler restores the default action and
//! returns: the instruction faults again and ends the program as it would have without the probe.
//!
//! A program that handles `SIGBUS` itself keeps its handler; there a truncated segment is its fault
//! to handle.
#![allow(unsafe_code)]

use core::ffi::{c_int, c_void};
use core::ptr::null_mut;

use super::Segment;
use crate::atomics::{AtomicPtr, Ordering};
use crate::sys;

/// The segment that the handler protects; null for none.
static WATCHED: AtomicPtr<Segment> = AtomicPtr::new(null_mut());

/// Stops to watch a segment.
pub(super) fn unwatch(segment: &Segment) {
    let own = (&raw const *segment).cast_mut();
    let _ = WATCHED.compare_exchange(own, null_mut(), Ordering::Relaxed, Ordering::Relaxed);
}

/// Prepares for a new segment in a file.
pub(super) fn watch(segment: &Segment) {
    WATCHED.store((&raw const *segment).cast_mut(), Ordering::Relaxed);
    // SAFETY: zero is a valid action: the default one, nothing blocked.
    let mut action: libc::sigaction = unsafe { core::mem::zeroed() };
    // SAFETY: reads the action in force.
    let asked = unsafe { libc::sigaction(libc::SIGBUS, core::ptr::null(), &raw mut action) };
    if asked != 0 || action.sa_sigaction != libc::SIG_DFL {
        return;
    }
    let handler: extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) = handle;
    action.sa_sigaction = handler as usize;
    action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART;
    // SAFETY: a handler of this signature that is never unloaded (nodelete) and uses only atomics,
    // system calls and the segment's own pages.
    unsafe { libc::sigaction(libc::SIGBUS, &raw const action, core::ptr::null_mut()) };
}

extern "C" fn handle(signal: c_int, information: *mut libc::siginfo_t, _: *mut c_void) {
    // SAFETY: the kernel passes valid information.
    let (code, address) = unsafe { ((*information).si_code, (*information).si_addr() as usize) };
    let is_fault = code > 0;
    if is_fault && watched().is_some_and(|segment| segment.holds(address) && segment.replace()) {
        return;
    }
    // SAFETY: as `watch`; the default action.
    unsafe {
        let action: libc::sigaction = core::mem::zeroed();
        libc::sigaction(signal, &raw const action, core::ptr::null_mut());
    }
    if !is_fault {
        // Sent by a process, not a fault: delivered again when this handler returns.
        sys::raise(signal);
    }
}

/// The protected segment.
fn watched() -> Option<&'static Segment> {
    // SAFETY: part of a session, which is unmapped after `unwatch`.
    unsafe { WATCHED.load(Ordering::Relaxed).as_ref() }
}

impl Segment {
    /// Whether an address is the segment's.
    fn holds(&self, address: usize) -> bool {
        let offset = address.wrapping_sub(self.base() as usize) as u64;
        offset < self.bytes.load(Ordering::Relaxed) && self.pages.is_ours(offset)
    }

    /// Replaces the segment; false without memory. A thread that finds another one replacing it
    /// returns and faults again until that one is done.
    fn replace(&self) -> bool {
        self.is_replaced.swap(true, Ordering::Relaxed)
            || self.pages.replace(self.base(), self.bytes.load(Ordering::Relaxed))
    }
}
