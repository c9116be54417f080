//! Per-thread data of the probe: 128 bytes of thread-local words, and a mapped [`State`] for
//! threads that record every block or close samples.
//!
//! *Invariant*: only its thread touches a state, and only while the thread is marked as inside the
//! probe.
#![allow(unsafe_code)]

mod ending;
mod registry;
mod state;

use core::cell::UnsafeCell;

pub(crate) use ending::create_key;
#[cfg(all(test, loom))]
pub(crate) use registry::{acquire as acquire_state, release as release_state};
pub(crate) use registry::{init, name_in_dumps, read as thread_record, used as threads_used};
pub(crate) use state::State;

use crate::atomics::{AtomicPtr, AtomicU8, AtomicU32, AtomicU64, Ordering, compiler_fence};
use crate::declared_frames::Inherited;
use crate::unwind::OwnStack;

/// The words in thread-local storage. All zero on a new thread, so that its first allocation takes
/// the slow path. Atomic because signal handlers of the same thread use them too.
#[repr(C)]
pub(crate) struct Words {
    /// Bytes to allocate until the next slow path. First: the stubs subtract from it.
    pub(crate) countdown: AtomicU64,
    /// Bytes of the sampling gap that follow the countdown.
    pub(crate) gap: AtomicU64,
    /// State of the random numbers; 0 before the first.
    pub(crate) random: AtomicU64,
    /// Mapped state, null until the thread records everything.
    state: AtomicPtr<State>,
    /// The thread's state while the thread is outside the probe, [`inside`] while it is inside.
    at_rest: AtomicPtr<State>,
    /// Where this thread's stack is, for stacks captured without a state.
    own_stack: UnsafeCell<OwnStack>,
    /// Sampling epoch that the gap was drawn in.
    pub(crate) epoch: AtomicU32,
    /// The thread's destructors have run: what comes now is shared accounting.
    ended: AtomicU8,
    /// Whether what the thread allocates is recorded (`prof`); 0: not decided.
    pub(crate) active: AtomicU8,
}

const _: () = assert!(size_of::<Words>() <= 128, "the room in thread-local storage (arch)");
const _: () = assert!(core::mem::offset_of!(Words, countdown) == 0);

impl Words {
    /// Enters the probe; `None` when the thread is inside already (a signal handler).
    #[inline(always)]
    pub(crate) fn enter(&self) -> Option<Busy<'_>> {
        if self.at_rest.load(Ordering::Relaxed) == inside() {
            return None;
        }
        self.at_rest.store(inside(), Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
        Some(Busy(self))
    }

    /// Enters the probe for a short operation on the thread's state, in as few instructions as
    /// possible; `None` when the thread has no state, or is inside already. The operation must not
    /// flush or poll, because that could drop the state.
    #[inline(always)]
    pub(crate) fn with_state<T>(&self, act: impl FnOnce(&mut State) -> T) -> Option<T> {
        let state = self.at_rest.load(Ordering::Relaxed);
        if state <= inside() {
            return None;
        }
        self.at_rest.store(inside(), Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
        // SAFETY: this thread's own; a nested call that finds `inside` set does not access it.
        let result = act(unsafe { &mut *state });
        compiler_fence(Ordering::SeqCst);
        self.at_rest.store(state, Ordering::Relaxed);
        Some(result)
    }

    /// Cached bounds of this thread's stack.
    pub(crate) fn own_stack<'b>(&self, _busy: &'b mut Busy<'_>) -> &'b mut OwnStack {
        // SAFETY: this thread's own, and borrowing the one `Busy` makes it the only use.
        unsafe { &mut *self.own_stack.get() }
    }

    /// The mapped state, created on first use; `None` after the thread's end or without memory.
    #[inline(always)]
    pub(crate) fn state<'b>(&self, _busy: &'b mut Busy<'_>) -> Option<&'b mut State> {
        let state = self.state.load(Ordering::Relaxed);
        let state = if state.is_null() { self.new_state()? } else { state };
        // SAFETY: this thread's own, and borrowing the one `Busy` makes it the only use.
        Some(unsafe { &mut *state })
    }

    /// The mapped state, if there is one.
    #[inline(always)]
    pub(crate) fn existing_state<'b>(&self, _busy: &'b mut Busy<'_>) -> Option<&'b mut State> {
        // SAFETY: as `state`.
        unsafe { self.state.load(Ordering::Relaxed).as_mut() }
    }

    #[cold]
    fn new_state(&self) -> Option<*mut State> {
        if self.ended.load(Ordering::Relaxed) != 0 {
            return None;
        }
        let state = registry::acquire()?;
        self.state.store(state, Ordering::Relaxed);
        ending::watch();
        Some(state)
    }

    /// Detaches the state: the thread ends, or the process is a forked child.
    pub(crate) fn take_state(&self) -> Option<*mut State> {
        let state = self.state.swap(core::ptr::null_mut(), Ordering::Relaxed);
        (!state.is_null()).then_some(state)
    }

    /// Gives the thread of a forked child the frames that it had declared before the fork. Called
    /// inside the probe, where the thread has no state.
    pub(crate) fn inherit(&self, frames: Inherited) {
        let script = frames.renew();
        if let Some(state) = self.new_state() {
            // SAFETY: this thread's own and new, so nothing else refers to it.
            unsafe { &mut *state }.declare(|declared| *declared = script);
        }
    }

    fn set_ended(&self) {
        self.ended.store(1, Ordering::Relaxed);
    }
}

/// Not the address of a state, and below them all.
#[inline(always)]
fn inside() -> *mut State {
    core::ptr::without_provenance_mut(1)
}

/// While it exists, the thread is inside the probe.
pub(crate) struct Busy<'a>(&'a Words);

impl Drop for Busy<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        compiler_fence(Ordering::SeqCst);
        self.0.at_rest.store(self.0.state.load(Ordering::Relaxed), Ordering::Relaxed);
    }
}
