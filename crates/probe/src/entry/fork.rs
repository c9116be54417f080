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

use crate::arch::words;
use crate::atomics::{AtomicBool, AtomicPtr, AtomicU64, Ordering};
use crate::declared_frames::Inherited;
use crate::threads::State;
use crate::{control, segment, start, symbols, sys};

const PAGE: usize = 4096;
/// Offset in the page. Not 0: the word is read at every event together with the control page, and
/// lines at the start of pages share a set of the processor's cache.
const PLACE: usize = 37 * 64;
const MARK: u64 = u64::from_le_bytes(*b"heapwise");
const MADV_WIPEONFORK: i32 = 18;

struct Wiped {
    mark: AtomicU64,
    applied: AtomicU64,
    /// A thread applies the control page. On this page, because a thread that did so during a
    /// `fork` is not in the child.
    applying: AtomicBool,
    /// Changes so far, times [`CHANGE`].
    generation: AtomicU64,
}

/// Larger than any control sequence, so that the sum of both is unique.
const CHANGE: u64 = 1 << 32;

/// Used until the page is mapped.
static INITIAL: Wiped = Wiped {
    mark: AtomicU64::new(MARK),
    applied: AtomicU64::new(0),
    applying: AtomicBool::new(false),
    generation: AtomicU64::new(CHANGE),
};
static PAGE_OF_PROCESS: AtomicPtr<Wiped> = AtomicPtr::new((&raw const INITIAL).cast_mut());

#[inline(always)]
fn wiped() -> &'static Wiped {
    // SAFETY: `INITIAL` or a page that is never unmapped.
    unsafe { &*PAGE_OF_PROCESS.load(Ordering::Relaxed) }
}

/// Control sequence last applied by this process.
#[inline(always)]
pub(crate) fn applied() -> u64 {
    wiped().applied.load(Ordering::Relaxed)
}

pub(crate) fn set_applied(sequence: u64) {
    wiped().applied.store(sequence, Ordering::Relaxed);
}

/// The right to apply the control page, while it exists.
pub(crate) struct Turn(());

/// `None` when another thread has it; threads do not wait.
pub(crate) fn take_turn() -> Option<Turn> {
    // Constructed lazily: dropping a `Turn` releases it.
    let taken = wiped().applying.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed);
    taken.is_ok().then(|| Turn(()))
}

impl Drop for Turn {
    fn drop(&mut self) {
        wiped().applying.store(false, Ordering::Release);
    }
}

/// The configuration generation: changes with the control sequence, and with everything that the
/// process changes by itself and that threads cache. In a forked child without a segment of its own
/// it is below [`CHANGE`], which no thread has validated.
#[inline(always)]
pub(crate) fn generation_under(sequence: u64) -> u64 {
    wiped().generation.load(Ordering::Acquire).wrapping_add(sequence)
}

/// The generation under the control sequence last applied.
#[inline(always)]
pub(crate) fn generation() -> u64 {
    generation_under(applied())
}

/// Invalidates what threads cache; to be called after the change.
pub(crate) fn change_generation() {
    wiped().generation.fetch_add(CHANGE, Ordering::Release);
}

pub(crate) fn is_forked_child() -> bool {
    wiped().mark.load(Ordering::Relaxed) != MARK
}

/// Sets up the page. Kernels before 4.14 cannot wipe it, and qemu-user before 8.0 accepts any
/// advice and does nothing; there a fork handler wipes it.
pub(crate) fn begin() {
    let Ok(memory) = sys::map_private(PAGE) else { return };
    // SAFETY: inside the page.
    let page = unsafe { memory.add(PLACE) }.cast::<Wiped>();
    // SAFETY: fresh zeroed memory.
    unsafe {
        (*page).mark.store(MARK, Ordering::Relaxed);
        (*page).generation.store(wiped().generation.load(Ordering::Relaxed) + CHANGE, Ordering::Relaxed);
    };
    let wipes = sys::heeds_advice(memory as usize, PAGE)
        && sys::advise(memory as usize, PAGE, MADV_WIPEONFORK).is_ok();
    PAGE_OF_PROCESS.store(page, Ordering::Release);
    if !wipes {
        register_fork_handler();
    }
}

extern "C" fn wipe() {
    wiped().mark.store(0, Ordering::Relaxed);
    wiped().applied.store(0, Ordering::Relaxed);
    wiped().applying.store(false, Ordering::Relaxed);
    wiped().generation.store(0, Ordering::Relaxed);
}

fn register_fork_handler() {
    type Handler = Option<extern "C" fn()>;
    type Register = unsafe extern "C" fn(Handler, Handler, Handler, *mut c_void) -> i32;
    if let Some(register) = symbols::find_next(c"__register_atfork") {
        // SAFETY: glibc's function behind pthread_atfork, with its signature.
        let register: Register = unsafe { core::mem::transmute(register.address) };
        // SAFETY: the handler is never unloaded; no handle, because the probe is never unloaded.
        unsafe { register(None, None, Some(wipe), core::ptr::null_mut()) };
    }
}

/// Starts over in a forked child: its own segment, empty tables, the parent's configuration. The
/// last thing it does in its parent's segment is to be counted.
///
/// Signals are blocked meanwhile: segment and tables are inconsistent while they change from the
/// parent's to the child's.
pub(crate) fn reinit_in_child() {
    let blocked = sys::block_signals();
    wiped().mark.store(MARK, Ordering::Relaxed);
    let frames = words().take_state().and_then(|state| {
        // SAFETY: this thread's own state, detached and not yet unmapped.
        let frames = Inherited::of(unsafe { &(*state).declared });
        State::destroy(state);
        frames
    });
    words().epoch.store(0, Ordering::Relaxed);
    words().random.store(0, Ordering::Relaxed);
    segment::count(Counter::Forks);
    let config = control::in_force();
    let live = |counter| (segment::counter(counter).load(Ordering::Relaxed) as i64).max(0) as u64;
    let inherited = live(Counter::LiveBytes).saturating_add(live(Counter::InheritedBytes));
    segment::leave();
    start::begin_segment(&config);
    segment::counter(Counter::InheritedBytes).store(inherited, Ordering::Relaxed);
    if let Some(frames) = frames {
        words().inherit(frames);
    }
    sys::restore_signals(blocked);
}
