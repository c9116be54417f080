//! Language runtimes inside the program: their stacks continue the native ones, and blocks of
//! their own allocators are recorded.
//!
//! A runtime is found by the symbols that it exports: CPython at the start of the process or when
//! it maps its first arena, Lua when a stack first passes through its binary. Facts about it
//! (offsets, functions) are true in every forked child and stay outside of the session. A process
//! without a runtime pays for two loads where a stack is captured and where memory is mapped.
//! Where both are present, the frames of CPython are read and those of Lua are not.
//!
//! *Invariant*: memory of a runtime is read only at addresses that were checked, and only on the
//! thread whose stack it is. Nothing there is written; no function is called that locks or
//! allocates.

pub(crate) mod lua;
mod memory;
pub(crate) mod python;
mod spare;
mod woven;

use heapwise_format::segment::Counter;

use crate::atomics::{AtomicU32, Ordering};
use crate::inside::Inside;
use crate::modules::Image;
use crate::record;
use crate::session::Session;
use crate::sites::tallies::{CachedTally, TallyRef};
use crate::unwind::Entry;

/// The runtimes' part of a session. Zeroed memory is valid: nothing is known.
pub(crate) struct Runtimes {
    spare: spare::Spare,
}

/// What is known of a thread's stack of the runtimes. Zeroed memory is valid: nothing.
pub(crate) struct Memo {
    python: python::Memo,
    lua: lua::Memo,
}

/// Times that memory was unmapped while there was a runtime.
static UNMAPPED: AtomicU32 = AtomicU32::new(0);

fn unmapped() -> u32 {
    UNMAPPED.load(Ordering::Relaxed)
}

/// Looks for runtimes among the objects of the start.
pub(crate) fn start() {
    python::start();
}

/// A stack passes through a binary that was not seen before.
pub(crate) fn consider(session: &Session, image: &Image) {
    if python::interpreter().is_none() {
        lua::consider(session, image);
    }
}

/// Describes the runtime in a session.
pub(crate) fn describe(session: &Session) {
    let word = match python::description() {
        0 => lua::description(session),
        word => word,
    };
    session.segment.counter(Counter::Runtime).store(word, Ordering::Relaxed);
}

/// A runtime was found: stacks are deeper, and cached ones lack its frames.
fn found(session: &Session) {
    describe(session);
    session.control.deepen();
    record::choose_fast_path(session, session.control.activity());
    session.fork.change_generation();
}

/// The program declares frames itself from now on.
pub(crate) fn provider_changed(session: &Session) {
    describe(session);
    session.fork.change_generation();
}

/// Whether stacks may have frames of a runtime.
#[inline(always)]
pub(crate) fn are_present() -> bool {
    python::interpreter().is_some() || lua::engine().is_some()
}

/// Whether a runtime has an allocator of its own, whose blocks are recorded.
#[inline(always)]
pub(crate) fn have_arenas() -> bool {
    python::interpreter().is_some()
}

/// Whether a runtime is being finalized.
pub(crate) fn is_ending() -> bool {
    python::interpreter().is_some_and(python::Interpreter::is_ending)
}

/// Whether events of the calling thread are not recorded: its interpreter frees what the program
/// held until its end.
#[inline(always)]
pub(crate) fn is_thread_ending() -> bool {
    python::interpreter().is_some_and(python::Interpreter::is_thread_ending)
}

/// The program unmaps memory.
pub(crate) fn unmapping(start: u64, bytes: u64) {
    if are_present() {
        UNMAPPED.fetch_add(1, Ordering::Relaxed);
        python::unmapping(start, bytes);
    }
}

/// The node of the whole stack, when `native` is the node of its native frames.
#[inline(always)]
pub(crate) fn weave(session: &Session, memo: &mut Memo, native: u32, entry: &Entry) -> u32 {
    if let Some(interpreter) = python::interpreter() {
        return python::weave(session, interpreter, &mut memo.python, native, entry);
    }
    match lua::engine() {
        Some(engine) => lua::weave(session, engine, &mut memo.lua, native, entry),
        None => native,
    }
}

/// The calling thread's tally of a stack whose native frames are those of `native`, if it is
/// cached.
#[inline(always)]
pub(crate) fn cached_tally<'m>(
    session: &Session,
    memo: &'m mut Memo,
    native: u32,
    entry: &Entry,
) -> Option<&'m CachedTally> {
    if let Some(interpreter) = python::interpreter() {
        return python::cached_tally(session, interpreter, &mut memo.python, native);
    }
    lua::cached_tally(session, lua::engine()?, &mut memo.lua, native, entry)
}

/// As [`weave`], on a thread without a state.
pub(crate) fn weave_shared(session: &Session, native: u32, entry: &Entry) -> u32 {
    match are_present() {
        true => {
            let woven = session.runtimes.spare.with_memo(|memo| weave(session, memo, native, entry));
            woven.unwrap_or(native)
        }
        false => native,
    }
}

impl Memo {
    /// Drops the last stack: it was that of another thread.
    pub(crate) fn reset(&mut self) {
        self.python.reset();
        if lua::engine().is_some() {
            self.lua.reset();
        }
    }

    /// Caches the tally of the last stack, in which a block of `size` bytes was counted.
    pub(crate) fn cache_tally(&mut self, session: &Session, tally: TallyRef, size: u64) {
        match python::interpreter() {
            Some(_) => self.python.woven.cache_tally(session, tally, size),
            None => self.lua.woven.cache_tally(session, tally, size),
        }
    }

    /// Drops the cached stacks of another generation.
    pub(crate) fn validate_cached(&mut self, generation: u64) {
        match python::interpreter() {
            Some(_) => self.python.woven.validate(generation),
            None => self.lua.validate(generation),
        }
    }
}

/// A block that was moved by `realloc`, which has not returned yet.
#[derive(Clone, Copy)]
pub(crate) struct Moving {
    pub(crate) old: u64,
    pub(crate) new: u64,
}

impl Moving {
    /// Notes the move for stacks that the calling thread captures.
    #[inline(always)]
    pub(crate) fn note(self, inside: &mut Inside) {
        Moving::set(inside, Some(self));
    }

    /// `realloc` is about to return.
    #[inline(always)]
    pub(crate) fn end(inside: &mut Inside) {
        Moving::set(inside, None);
    }

    fn set(inside: &mut Inside, moving: Option<Moving>) {
        if lua::engine().is_some()
            && let (_, Some(state)) = inside.with_existing_state()
        {
            state.script.lua.set_moving(moving);
        }
    }
}
