//! Per-thread data of the probe: 128 bytes of thread-local words, and a mapped [`State`] for
//! threads that record every block or close samples.
//!
//! *Invariant*: only its thread touches a state, and only while the thread is marked as inside the
//! probe (see [`crate::inside`]).
#![allow(unsafe_code)]

mod ending;
mod live_bytes;
mod registry;
mod state;

use core::cell::UnsafeCell;

pub(crate) use ending::create_key;
pub(crate) use registry::{Registry, name_in_dumps, read as thread_record, release_pool, used};
#[cfg(all(test, loom))]
pub(crate) use registry::{acquire as acquire_state, release as release_state};
pub(crate) use state::State;

use crate::atomics::{AtomicPtr, AtomicU8, AtomicU64, Ordering, compiler_fence};
use crate::declared_frames::Inherited;
use crate::session::Session;
use crate::unwind::OwnStack;

/// The words in thread-local storage. All zero on a new thread, so that its first allocation takes
/// the slow path. Atomic because signal handlers of the same thread use them too.
#[repr(C)]
pub(crate) struct ThreadWords {
    /// Bytes to allocate until the next slow path. First: the stubs subtract from it.
    pub(crate) countdown: AtomicU64,
    /// Bytes of the sampling gap that follow the countdown.
    pub(crate) gap: AtomicU64,
    /// State of the random numbers; 0 before the first.
    pub(crate) random: AtomicU64,
    /// Mapped state, null until the thread records everything.
    state: AtomicPtr<State>,
    /// Where this thread's stack is, for stacks captured without a state.
    own_stack: UnsafeCell<OwnStack>,
    /// The [`Rate`](crate::sites::rates::Rate) that the gap was drawn from; 0 before the first.
    pub(crate) rate: AtomicU64,
    /// 1 while the thread is inside the probe.
    reentry: AtomicU8,
    /// The thread's destructors have run: what comes now is shared accounting.
    ended: AtomicU8,
    /// Whether what the thread allocates is recorded (`prof`); 0: not decided.
    pub(crate) active: AtomicU8,
    /// The thread is in an allocator of a language runtime.
    pub(crate) in_domain: AtomicU8,
    /// The probe has called an allocator's function for usable sizes.
    pub(crate) measuring: AtomicU8,
}

const _: () = assert!(size_of::<ThreadWords>() <= 128, "the room in thread-local storage (arch)");
const _: () = assert!(core::mem::offset_of!(ThreadWords, countdown) == 0);

impl ThreadWords {
    /// Marks the thread as inside the probe; false when it is so already (a signal handler).
    #[inline(always)]
    pub(crate) fn mark_inside(&self) -> bool {
        if self.reentry.load(Ordering::Relaxed) != 0 {
            return false;
        }
        self.reentry.store(1, Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
        true
    }

    /// Counts `size` bytes down; false when the countdown ran out, which then is as it was.
    #[inline(always)]
    pub(crate) fn count_down(&self, size: u64) -> bool {
        let rest = self.countdown.load(Ordering::Relaxed).checked_sub(size);
        if let Some(rest) = rest {
            self.countdown.store(rest, Ordering::Relaxed);
        }
        rest.is_some()
    }

    /// Ends what [`ThreadWords::mark_inside`] began.
    #[inline(always)]
    pub(crate) fn unmark(&self) {
        compiler_fence(Ordering::SeqCst);
        self.reentry.store(0, Ordering::Relaxed);
    }

    /// Marks the thread as inside the probe and lends its state to `act`; `None` when it has none,
    /// or is inside already.
    #[inline(always)]
    pub(crate) fn with_state_outside<T>(&self, act: impl FnOnce(&mut State) -> Option<T>) -> Option<T> {
        if !self.mark_inside() {
            return None;
        }
        // After the mark: a signal handler of a forked child replaces the state only before it.
        // SAFETY: this thread's own; a nested call that finds the mark does not access it.
        let result = self.existing_state().and_then(|state| act(unsafe { &mut *state }));
        self.unmark();
        result
    }

    /// Cached bounds of this thread's stack. To be used inside the probe.
    pub(crate) fn own_stack(&self) -> *mut OwnStack {
        self.own_stack.get()
    }

    /// The mapped state, created on first use; `None` after the thread's end or without memory. To
    /// be used inside the probe.
    #[inline(always)]
    pub(crate) fn state(&self, session: &Session) -> Option<*mut State> {
        self.existing_state().or_else(|| self.new_state(session))
    }

    /// The mapped state, if there is one. To be used inside the probe.
    #[inline(always)]
    pub(crate) fn existing_state(&self) -> Option<*mut State> {
        let state = self.state.load(Ordering::Relaxed);
        (!state.is_null()).then_some(state)
    }

    #[cold]
    fn new_state(&self, session: &Session) -> Option<*mut State> {
        if self.ended.load(Ordering::Relaxed) != 0 {
            return None;
        }
        let state = registry::acquire(session)?;
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
    pub(crate) fn inherit(&self, session: &Session, frames: Inherited) {
        let script = frames.renew(session);
        if let Some(state) = self.new_state(session) {
            // SAFETY: this thread's own and new, so nothing else refers to it.
            unsafe { &mut *state }.declare(session, |declared| *declared = script);
        }
    }

    /// Draws another distance to the next sample: the process is a forked child.
    pub(crate) fn drop_samples(&self) {
        self.rate.store(0, Ordering::Relaxed);
        self.random.store(0, Ordering::Relaxed);
    }

    pub(crate) fn set_ended(&self) {
        self.ended.store(1, Ordering::Relaxed);
    }
}
