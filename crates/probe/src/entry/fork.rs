//! Detects that this process is a forked child, whose memory still refers to its parent's segment.
//!
//! The number of the last applied control sequence lives on a page that the kernel wipes in a child
//! (`MADV_WIPEONFORK`). So a child finds on its first slow path that something is to be applied,
//! sees the wiped mark and starts a segment of its own: no handler runs inside `fork`, a child that
//! only execs pays nothing, and a raw `clone` is noticed too. `vfork` shares memory, wipes nothing,
//! and changes nothing. A child is noticed at the latest before it starts a thread (`hooks`), so
//! the thread that finds the mark wiped is the only thread.
#![allow(unsafe_code)]

use core::ffi::c_void;

use heapwise_format::segment::Counter;

use super::session::{self, Session};
use crate::atomics::{AtomicBool, AtomicU64, Ordering};
use crate::declared_frames::Inherited;
use crate::live::filter;
use crate::threads::{State, ThreadWords};
use crate::{arena, control, hooks, symbols, sys};

const PAGE: usize = 4096;
/// Offset in the page. Not 0: the word is read at every event together with the control page, and
/// lines at the start of pages share a set of the processor's cache.
const PLACE: usize = 37 * 64;
const MARK: u64 = u64::from_le_bytes(*b"heapwise");
const MADV_WIPEONFORK: i32 = 18;

/// The page of a session that is zero in a forked child.
#[repr(C, align(4096))]
pub(crate) struct ForkPage {
    padding: [u8; PLACE],
    mark: AtomicU64,
    /// Control sequence last applied.
    applied: AtomicU64,
    /// A thread applies the control page. On this page, because a thread that did so during a
    /// `fork` is not in the child.
    applying: AtomicBool,
    /// Changes so far, times [`CHANGE`].
    generation: AtomicU64,
}

const _: () = assert!(size_of::<ForkPage>() == PAGE);

/// Larger than any control sequence, so that the sum of both is unique.
const CHANGE: u64 = 1 << 32;

/// The right to apply the control page, while it exists.
pub(crate) struct Turn<'a>(&'a ForkPage);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.applying.store(false, Ordering::Release);
    }
}

impl ForkPage {
    /// Control sequence last applied by this process.
    #[inline(always)]
    pub(crate) fn applied(&self) -> u64 {
        self.applied.load(Ordering::Relaxed)
    }

    pub(crate) fn set_applied(&self, sequence: u64) {
        self.applied.store(sequence, Ordering::Relaxed);
    }

    /// `None` when another thread has it; threads do not wait.
    pub(crate) fn take_turn(&self) -> Option<Turn<'_>> {
        // Constructed lazily: dropping a `Turn` releases it.
        let taken = self.applying.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed);
        taken.is_ok().then(|| Turn(self))
    }

    /// The configuration generation: changes with the control sequence, and with everything that
    /// the process changes by itself and that threads cache. In a forked child without a session of
    /// its own it is below [`CHANGE`], which no thread has validated.
    #[inline(always)]
    pub(crate) fn generation_under(&self, sequence: u64) -> u64 {
        self.generation.load(Ordering::Acquire).wrapping_add(sequence)
    }

    /// The generation under the control sequence last applied.
    #[inline(always)]
    pub(crate) fn generation(&self) -> u64 {
        self.generation_under(self.applied())
    }

    /// Invalidates what threads cache; to be called after the change.
    pub(crate) fn change_generation(&self) {
        self.generation.fetch_add(CHANGE, Ordering::Release);
    }

    /// Whether this process is a forked child of the one that the session belongs to.
    pub(super) fn is_wiped(&self) -> bool {
        self.mark.load(Ordering::Relaxed) != MARK
    }

    /// Sets up the page of a new session; whether the kernel wipes it in a forked child. Kernels
    /// before 4.14 cannot, and qemu-user before 8.0 accepts any advice and does nothing.
    pub(super) fn begin(&self) -> bool {
        let address = (&raw const *self) as usize;
        self.mark.store(MARK, Ordering::Relaxed);
        self.generation.store(CHANGE, Ordering::Relaxed);
        sys::heeds_advice(address, PAGE) && sys::advise(address, PAGE, MADV_WIPEONFORK).is_ok()
    }

    fn wipe(&self) {
        for word in [&self.mark, &self.applied, &self.generation] {
            word.store(0, Ordering::Relaxed);
        }
        self.applying.store(false, Ordering::Relaxed);
    }
}

extern "C" fn wipe() {
    if let Some(session) = session::current() {
        session.fork.wipe();
    }
}

/// Lets a handler wipe the page, where the kernel does not; once, children inherit the handler.
pub(super) fn register_handler() {
    type Handler = Option<extern "C" fn()>;
    type Register = unsafe extern "C" fn(Handler, Handler, Handler, *mut c_void) -> i32;
    if let Some(register) = symbols::find_next(c"__register_atfork") {
        // SAFETY: glibc's function behind pthread_atfork, with its signature.
        let register: Register = unsafe { core::mem::transmute(register.address) };
        // SAFETY: the handler is never unloaded; no handle, because the probe is never unloaded.
        unsafe { register(None, None, Some(wipe), core::ptr::null_mut()) };
    }
}

/// Starts over in a forked child: a session of its own, with the parent's configuration; `None`
/// without memory. The last thing it does in its parent's segment is to be counted.
///
/// Signals are blocked meanwhile. A handler of a fault that comes in spite of that finds the
/// parent's session, whose page is wiped, and does not use it.
pub(super) fn reinit_in_child(words: &ThreadWords, parent: &'static Session) -> Option<&'static Session> {
    let blocked = sys::block_signals();
    let child = replace(words, parent);
    sys::restore_signals(blocked);
    child
}

fn replace(words: &ThreadWords, parent: &'static Session) -> Option<&'static Session> {
    let (child, _) = Session::create()?;
    let state = words.take_state();
    // SAFETY: this thread's own state, detached and not yet unmapped.
    let frames = state.and_then(|state| Inherited::of(parent, unsafe { &(*state).declared }));
    words.drop_samples();
    parent.segment.count(Counter::Forks);
    let config = control::in_force(parent);
    let live = |counter| (parent.segment.counter(counter).load(Ordering::Relaxed) as i64).max(0) as u64;
    let inherited = live(Counter::LiveBytes).saturating_add(live(Counter::InheritedBytes));
    child.inherit(parent);
    // Before the child's segment is made: both together may not fit a limit on addresses.
    parent.release();
    if let Some(state) = state {
        State::destroy(parent, state);
    }
    filter::clear();
    arena::pin_blocks();
    child.begin(&config, hooks::allocator_kind(), inherited);
    session::publish(child);
    // SAFETY: the child's only thread is here, on its way from the parent's session to its own.
    unsafe { parent.unmap() };
    if let Some(frames) = frames {
        words.inherit(child, frames);
    }
    Some(child)
}
