//! CPython: frames of Python functions in the stacks of every block, and blocks of its own
//! allocator.
//!
//! ```text
//! find ─► Interpreter (offsets, functions)
//! domains ─► blocks in arenas          memo ─► frames ─► locations (file, function, line)
//!                                        └─► woven: frames between the native ones ─► stack tree
//! ```
#![allow(unsafe_code)]

pub(crate) mod arenas;
pub(crate) mod codes;
pub(crate) mod counting;
mod domains;
mod find;
mod layout;
mod lines;
mod locations;
mod memo;
mod positions;
mod text;
mod woven;

use core::ffi::c_void;
use core::ops::Range;

use heapwise_format::segment::Runtime;

pub(crate) use domains::{may_need_note, note_free};
pub(crate) use memo::Memo;
use memo::OwnThread;
pub(crate) use positions::{tally as tally_by_position, tally_at_once};
pub(crate) use woven::{cached_tally, weave};

use crate::arch::{opaque_word, words};
use crate::atomics::{AtomicBool, AtomicPtr, AtomicU64, Ordering};
use crate::inside::enter;
use crate::runtimes::memory::{Pages, word};
use crate::session::Session;
use crate::{environment, hooks, record, sys};
use layout::Layout;

/// A function without arguments that returns a thread state.
type Getter = unsafe extern "C" fn() -> *mut c_void;

/// What is known of the process's CPython, from when it was found.
pub(crate) struct Interpreter {
    layout: Layout,
    /// Address of `_PyRuntime`.
    runtime: u64,
    /// The thread state that runs on this thread (3.12 on).
    unchecked: Getter,
    /// The thread state of this thread.
    this: Getter,
    get_allocator: domains::Access,
    set_allocator: domains::Access,
    /// Code of the eval loop, where native frames are recognized by it.
    eval_loop: Option<Range<u64>>,
    /// Code of the interpreter's binary.
    code: Range<u64>,
    start: Start,
    originals: domains::Originals,
    /// The domains are wrapped.
    hooked: AtomicBool,
    /// The interpreter is being finalized.
    ending: AtomicBool,
    /// The thread that noticed it, see [`this_thread`].
    ending_thread: AtomicU64,
}

/// When the interpreter was found.
#[derive(Clone, Copy)]
struct Start {
    /// It was loaded after the start: a thread's first use of its thread-local storage allocates.
    is_late: bool,
    /// It ran already, so its domains may be wrapped under its lock only.
    is_running: bool,
}

/// The interpreter of the process, once it was found.
static INTERPRETER: AtomicPtr<Interpreter> = AtomicPtr::new(core::ptr::null_mut());
/// An encoded [`Runtime`]; 0 until one was found.
static RUNTIME: AtomicU64 = AtomicU64::new(0);

/// Bytes of an arena: up to 3.9, and later.
const ARENA_BYTES: [u64; 2] = [256 << 10, 1 << 20];

/// The interpreter, if there is one whose stacks can be read.
#[inline(always)]
pub(crate) fn interpreter() -> Option<&'static Interpreter> {
    // SAFETY: null, or published by `publish`, and never unmapped.
    unsafe { INTERPRETER.load(Ordering::Acquire).as_ref() }
}

/// Whether the frames of a thread are found without a call: those of CPython 3.11 are.
pub(crate) fn finds_frames_at_once() -> bool {
    interpreter().is_some_and(|interpreter| interpreter.layout == layout::PYTHON_3_11)
}

/// Looks for CPython among the objects of the start. It does not run yet, so its allocators can be
/// wrapped, unless it will choose others itself. While nothing is recorded, the first arena leads
/// to them.
pub(crate) fn start() {
    if let Some(interpreter) = find::at_start().and_then(publish)
        && !interpreter.start.is_running
        && !environment::has(b"PYTHONMALLOC")
        && record::poll(0)
    {
        interpreter.install();
    }
}

/// The encoded [`Runtime`]; 0: none.
pub(super) fn description() -> u64 {
    RUNTIME.load(Ordering::Relaxed)
}

/// Stores what was found; the first one stays.
fn publish(found: find::Python) -> Option<&'static Interpreter> {
    let word = Runtime::encode(found.runtime);
    if RUNTIME.compare_exchange(0, word, Ordering::AcqRel, Ordering::Relaxed).is_err() {
        return None;
    }
    if let Some(interpreter) = found.interpreter {
        let memory = sys::map_private(size_of::<Interpreter>()).ok()?.cast::<Interpreter>();
        // SAFETY: fresh memory of that size, aligned to a page.
        unsafe { memory.write(interpreter) };
        INTERPRETER.store(memory, Ordering::Release);
    }
    if let Some(inside) = enter() {
        super::found(&inside);
    }
    self::interpreter()
}

/// The program mapped anonymous memory; whether it is an arena of the interpreter.
pub(crate) fn is_arena(start: u64, bytes: u64, caller: u64) -> bool {
    let Some(interpreter) = interpreter() else {
        return ARENA_BYTES.contains(&bytes) && is_first_arena(start, bytes, caller);
    };
    if hooks::is_nested_call(caller) {
        return false;
    }
    let is_in_domain = words().in_domain.load(Ordering::Relaxed) != 0;
    if !is_in_domain {
        if !ARENA_BYTES.contains(&bytes) || !interpreter.code.contains(&caller) {
            return false;
        }
        // The domains were replaced, or not wrapped yet. The thread has the interpreter's lock.
        interpreter.follow();
    }
    arenas::add(start, bytes);
    true
}

/// An interpreter that was loaded after the start maps its first arena.
#[cold]
fn is_first_arena(start: u64, bytes: u64, caller: u64) -> bool {
    if RUNTIME.load(Ordering::Relaxed) != 0 {
        return false;
    }
    let Some(interpreter) = find::at(caller).and_then(publish) else { return false };
    interpreter.follow();
    arenas::add(start, bytes);
    true
}

/// The program unmaps memory.
pub(crate) fn unmapping(start: u64, bytes: u64) {
    if interpreter().is_some() {
        arenas::remove(start, bytes);
    }
}

impl Interpreter {
    /// Whether the end of code objects is noticed.
    #[inline(always)]
    fn is_hooked(&self) -> bool {
        self.hooked.load(Ordering::Relaxed)
    }

    #[inline(always)]
    fn is_finalizing(&self) -> bool {
        // SAFETY: a word of `_PyRuntime`, which is never unloaded while its code runs.
        unsafe { word(self.runtime + u64::from(self.layout.finalizing)) != 0 }
    }

    /// Has frees in wrapped domains notice a change of the phase.
    fn watch_ending(&self) {
        let word = self.runtime + u64::from(self.layout.finalizing);
        counting::watch_ending((!self.is_ending()).then_some(word));
    }

    /// Before an object is freed: notices that finalization began, or that the interpreter was
    /// initialized again.
    #[inline(always)]
    fn notice_ending(&self) {
        let is_ending = self.is_finalizing();
        if self.ending.load(Ordering::Relaxed) != is_ending {
            self.set_ending(is_ending);
        }
    }

    #[cold]
    fn set_ending(&self, is_ending: bool) {
        if let Some(inside) = enter() {
            self.set_ending_inside(&inside, is_ending);
        }
    }

    fn set_ending_inside(&self, session: &Session, is_ending: bool) {
        self.ending_thread.store(this_thread(), Ordering::Relaxed);
        self.ending.store(is_ending, Ordering::Release);
        self.watch_ending();
        // The fast path does not look at it.
        session.fork.change_generation();
    }

    /// As [`Interpreter::notice_ending`], when an allocation is recorded: no domain is wrapped
    /// before the first stack where objects are blocks of `malloc`, and after a new initialization
    /// (3.12 on).
    #[inline(always)]
    fn notice_phase(&self, session: &Session) {
        if self.is_ending() {
            if !self.is_finalizing() {
                self.restart(session);
            }
        } else if !self.is_hooked() && self.is_finalizing() {
            self.set_ending_inside(session, true);
        }
    }

    /// The interpreter was initialized again, by the thread that finalized it: no other thread uses
    /// the domains yet. On another thread, the domains are wrapped with the next arena.
    #[cold]
    fn restart(&self, session: &Session) {
        if self.is_hooked() && self.ending_thread.load(Ordering::Relaxed) == this_thread() {
            self.install();
        }
        self.set_ending_inside(session, false);
    }

    /// Whether the interpreter is being finalized.
    #[inline(always)]
    pub(crate) fn is_ending(&self) -> bool {
        self.ending.load(Ordering::Relaxed)
    }

    /// Whether the interpreter is being finalized and the calling thread is one of its threads.
    #[inline(always)]
    pub(crate) fn is_thread_ending(&self) -> bool {
        // SAFETY: it reads a thread-specific value.
        self.is_ending() && self.is_finalizing() && !unsafe { (self.this)() }.is_null()
    }

    /// The thread state whose frames the calling thread runs.
    #[inline(always)]
    fn thread_state(&self, known_thread: &mut OwnThread, pages: &mut Pages) -> Option<u64> {
        self.known_state(&self.layout, known_thread).or_else(|| self.other_state(known_thread, pages))
    }

    /// The thread state, if it is the known one and has the lock (up to 3.11).
    #[inline(always)]
    fn known_state(&self, layout: &Layout, known_thread: &OwnThread) -> Option<u64> {
        if !layout.has_global_current() {
            return None;
        }
        let OwnThread { state, id } = *known_thread;
        // SAFETY: a word of `_PyRuntime`.
        let current = unsafe { word(self.runtime + u64::from(layout.current)) };
        // Opaque: what is read of the known state does not wait for the load of the current one.
        let is_current = state != 0 && opaque_word(current ^ state) == 0;
        // SAFETY: the state that has the lock exists. Another thread's at this address has another
        // id.
        let is_known = is_current && unsafe { word(state + u64::from(layout.thread_id)) } == id;
        is_known.then_some(state)
    }

    /// As [`Interpreter::thread_state`], where it is not the known one.
    #[inline(always)]
    fn other_state(&self, known_thread: &mut OwnThread, pages: &mut Pages) -> Option<u64> {
        let Self { this, unchecked, .. } = self;
        if self.layout.has_global_current() {
            return self.find_state(known_thread, pages);
        }
        // SAFETY: both functions read thread-specific values and words of the runtime.
        if self.start.is_late && unsafe { this() }.is_null() {
            return None;
        }
        // SAFETY: as above.
        let running = unsafe { unchecked() } as u64;
        if running != 0 {
            return Some(running);
        }
        // The lock is released. During finalization the state may be gone.
        // SAFETY: as above.
        if self.is_finalizing() { None } else { known(unsafe { this() } as u64) }
    }

    /// As [`Interpreter::other_state`], up to 3.11.
    #[inline(never)]
    fn find_state(&self, known_thread: &mut OwnThread, pages: &mut Pages) -> Option<u64> {
        let Layout { current, thread_id, frame, .. } = self.layout;
        // SAFETY: a word of `_PyRuntime`.
        let current = unsafe { word(self.runtime + u64::from(current)) };
        // SAFETY: it reads a thread-specific value.
        let own = unsafe { (self.this)() } as u64;
        // SAFETY: it has no preconditions.
        let id = unsafe { libc::pthread_self() };
        let mut has_id = |state: u64| pages.word(state + u64::from(thread_id)) == Some(id);
        if own == current {
            let own = known(own)?;
            if has_id(own) && pages.word(own + u64::from(frame)).is_some() {
                *known_thread = OwnThread { state: own, id };
            }
            return Some(own);
        }
        if own == 0 || self.is_finalizing() {
            return None;
        }
        // A second interpreter may run on this thread.
        Some(if current != 0 && has_id(current) { current } else { own })
    }

    /// Wraps the domains where no arena leads to them: objects are blocks of `malloc`
    /// (`PYTHONMALLOC=malloc`). Only on the thread that has the interpreter's lock.
    #[cold]
    fn install_if_locked(&self) {
        // SAFETY: as `thread_state`.
        let has_lock = unsafe {
            match self.layout.has_global_current() {
                true => (self.this)() as u64 == word(self.runtime + u64::from(self.layout.current)),
                false => !(self.unchecked)().is_null(),
            }
        };
        if has_lock && !self.is_finalizing() {
            self.install();
        }
    }

    /// The innermost frame of the calling thread.
    #[inline(always)]
    fn top_frame(&self, known_thread: &mut OwnThread, pages: &mut Pages) -> Option<u64> {
        let frame = u64::from(self.layout.frame);
        let named = match self.known_state(&self.layout, known_thread) {
            // SAFETY: checked when the state became known.
            Some(thread) => unsafe { word(thread + frame) },
            None => {
                let thread = self.other_state(known_thread, pages)?;
                pages.word(thread + frame)?
            }
        };
        if self.layout.has_frame_in_c_frame() {
            return known(pages.word(named + u64::from(self.layout.c_frame_frame))?);
        }
        known(named)
    }

    /// As [`Interpreter::top_frame`], if it is found without a system call.
    #[inline(always)]
    fn known_top_frame(&self, layout: &Layout, known_thread: &OwnThread, pages: &Pages) -> Option<u64> {
        let named = match layout.has_global_current() {
            true => {
                let thread = self.known_state(layout, known_thread)?;
                // SAFETY: checked when the state became known.
                unsafe { word(thread + u64::from(layout.frame)) }
            }
            false => return None,
        };
        if layout.has_frame_in_c_frame() {
            return pages.known_word(named + u64::from(layout.c_frame_frame));
        }
        Some(named)
    }

    /// The C frame of the innermost eval loop.
    fn c_frame(&self, memo: &mut Memo) -> Option<u64> {
        let thread = memo.thread_state(self)?;
        known(memo.read(thread + u64::from(self.layout.c_frame))?)
    }
}

/// A number of the calling thread.
fn this_thread() -> u64 {
    (&raw const *words()) as u64
}

/// `None` for null.
fn known(address: u64) -> Option<u64> {
    (address != 0).then_some(address)
}
