//! Language runtimes inside the program: their stacks continue the native ones, and blocks of
//! their own allocators are recorded.
//!
//! A runtime is found by its symbols or texts: CPython at the start of the process or when it maps
//! its first arena, Lua when a stack first passes through its binary. Facts about it (offsets,
//! functions) are true in every forked child and stay outside of the session. A process without a
//! runtime pays for two loads where a stack is captured and where memory is mapped. Where several
//! are present, the frames of CPython are put into the native stack, then those of Lua.
//!
//! *Invariant*: memory of a runtime is read only at addresses that were checked, and only on the
//! thread whose stack it is. Nothing there is written; no function is called that locks or
//! allocates.

mod by_address;
mod lua;
mod luajit;
mod memory;
mod names;
pub(crate) mod python;
mod ruby;
mod spare;
mod stack_reader;
mod woven;

use heapwise_format::segment::Counter;

use crate::atomics::{AtomicBool, AtomicU32, Ordering};
use crate::inside::Inside;
use crate::modules::Image;
use crate::record;
use crate::session::Session;
use crate::sites::tallies::TallyRef;
use crate::unwind::{Entry, NativeId, NativeStack, StackCache};
use by_address::Weaving;

/// The runtimes' part of a session. Zeroed memory is valid: nothing is known.
pub(crate) struct Runtimes {
    spare: spare::Spare,
}

/// What is known of a thread's stack of the runtimes. Zeroed memory is valid: nothing.
pub(crate) struct Memo {
    python: python::Memo,
    lua: lua::Memo,
    luajit: luajit::Memo,
    ruby: ruby::Memo,
    /// Stacks with frames of a runtime other than CPython.
    woven: woven::Woven,
}

/// Whether objects in arenas of a runtime are recorded; else the arenas are, as blocks.
static OBJECTS: AtomicBool = AtomicBool::new(true);

/// Whether objects in arenas of a runtime are recorded.
pub(crate) fn records_objects() -> bool {
    OBJECTS.load(Ordering::Relaxed)
}

/// Records arenas and not the objects in them. Before a runtime was looked for.
pub(crate) fn leave_objects() {
    OBJECTS.store(false, Ordering::Relaxed);
}

/// The runtime generation: changes when memory is unmapped while there is a runtime, and when a
/// code object ended whose address a thread may have cached.
static GENERATION: AtomicU32 = AtomicU32::new(0);

/// Runtimes other than CPython that were found, as bits of [`Other`].
static OTHERS: AtomicU32 = AtomicU32::new(0);

/// A runtime other than CPython.
#[derive(Clone, Copy)]
enum Other {
    Lua = 1,
    LuaJit = 2,
    Ruby = 4,
}

impl Other {
    #[inline(always)]
    fn is_present(self) -> bool {
        OTHERS.load(Ordering::Relaxed) & self as u32 != 0
    }

    /// Whether it is the only one, CPython aside.
    #[inline(always)]
    fn is_only_one(self) -> bool {
        OTHERS.load(Ordering::Relaxed) == self as u32
    }

    /// It was found: frames of it are put into stacks from now on.
    fn add(self) {
        OTHERS.fetch_or(self as u32, Ordering::Release);
    }
}

#[inline(always)]
fn generation() -> u32 {
    GENERATION.load(Ordering::Acquire)
}

/// Invalidates the pages and stacks of runtimes that threads cache; to be called after the change.
fn change_generation() {
    GENERATION.fetch_add(1, Ordering::Release);
}

/// Looks for runtimes among the objects of the start.
pub(crate) fn start() {
    python::start();
}

/// A stack passes through a binary that was not seen before.
pub(crate) fn consider(session: &Session, image: &Image) {
    lua::consider(session, image);
    luajit::consider(session, image);
    ruby::consider(session, image);
}

/// Describes the runtime in a session.
pub(crate) fn describe(session: &Session) {
    let words =
        [python::description(), lua::description(session), luajit::description(), ruby::description()];
    let word = words.into_iter().find(|word| *word != 0).unwrap_or(0);
    session.segment.counter(Counter::Runtime).store(word, Ordering::Relaxed);
    if python::interpreter().is_some() {
        session.unwind.name_by_hash();
    }
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
    python::interpreter().is_some() || are_others_present()
}

/// Whether there is a runtime other than CPython.
#[inline(always)]
fn are_others_present() -> bool {
    OTHERS.load(Ordering::Relaxed) != 0
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
        change_generation();
        python::unmapping(start, bytes);
    }
}

/// The node of the whole stack.
#[inline(always)]
pub(crate) fn weave(session: &Session, memo: &mut Memo, stack: &mut NativeStack<'_>) -> u32 {
    let base = match python::interpreter() {
        Some(interpreter) => python::weave(session, interpreter, &mut memo.python, stack),
        None => stack.node(session),
    };
    if are_others_present() { weave_others(session, memo, base, stack) } else { base }
}

/// The node of a stack with the frames of runtimes other than CPython; `node` is that of the rest.
fn weave_others(session: &Session, memo: &mut Memo, node: u32, stack: &mut NativeStack<'_>) -> u32 {
    let Memo { lua, luajit, ruby, woven, .. } = memo;
    let mut weaving = Weaving { session, stack, woven, node };
    if Other::Lua.is_present() {
        lua::weave(lua, &mut weaving);
    }
    if Other::LuaJit.is_present() {
        luajit::weave(luajit, &mut weaving);
    }
    if Other::Ruby.is_present() {
        ruby::weave(ruby, &mut weaving);
    }
    weaving.node
}

/// The calling thread's tally of the stack at `entry` of CPython, if it is cached by position. Only
/// where [`python::finds_frames_at_once`].
#[inline(always)]
pub(crate) fn tally_at_once(
    natives: &StackCache,
    memo: &mut Memo,
    entry: Entry,
    size: usize,
) -> Option<TallyRef> {
    let interpreter = python::interpreter().filter(|_| !are_others_present())?;
    python::tally_at_once(interpreter, natives, &mut memo.python, entry, size)
}

/// The calling thread's tally of the stack at `entry`, if it is cached, with the sizes of the
/// tally. Nothing is cached where two runtimes are present, or one whose stacks are never cached.
pub(crate) fn cached_tally(
    session: &Session,
    natives: &mut StackCache,
    memo: &mut Memo,
    entry: Entry,
    size: usize,
) -> Option<TallyRef> {
    let Memo { python, lua, woven, .. } = memo;
    let interpreter = python::interpreter();
    if let Some(interpreter) =
        interpreter.filter(|_| !are_others_present() && !python::finds_frames_at_once())
        && let Some(tally) = python::tally_by_position(interpreter, natives, python, entry, size)
    {
        return Some(tally);
    }
    let (id, place) = natives.find_place(entry)?;
    match interpreter {
        None if Other::Lua.is_only_one() => lua::cached_tally(session, lua, woven, id, &entry)?.of_size(size),
        Some(interpreter) if !are_others_present() => {
            python::cached_tally(session, interpreter, python, natives, (id, place), entry, size)
        }
        _ => None,
    }
}

/// As [`weave`], on a thread without a state.
pub(crate) fn weave_shared(session: &Session, native: u32, entry: &Entry) -> u32 {
    match are_present() {
        true => {
            let id = NativeId::of_node(native);
            let mut stack = NativeStack { entry, id, memo: None, is_captured: false };
            let woven = session.runtimes.spare.with_memo(|memo| weave(session, memo, &mut stack));
            woven.unwrap_or(native)
        }
        false => native,
    }
}

impl Memo {
    /// Drops the last stack: it was that of another thread.
    pub(crate) fn reset(&mut self) {
        self.python.reset();
        if are_others_present() {
            self.lua.reset();
            self.luajit.reader.reset();
            self.ruby.reader.reset();
        }
    }

    /// Caches the tally of the last stack, in which a block of `size` bytes was counted.
    pub(crate) fn cache_tally(&mut self, session: &Session, tally: TallyRef, size: u64) {
        match are_others_present() {
            true => self.woven.cache_tally(session, tally, size),
            false => self.python.cache_tally(session, tally, size),
        }
    }

    /// Drops the cached stacks of another generation.
    pub(crate) fn validate_cached(&mut self, generation: u64) {
        if python::interpreter().is_some() {
            self.python.validate(generation);
        }
        if are_others_present() {
            self.lua.validate(generation);
            self.luajit.reader.validate(generation);
            self.ruby.reader.validate(generation);
            self.woven.validate(generation);
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
        if Other::Lua.is_present()
            && let (_, Some(state)) = inside.with_existing_state()
        {
            state.script.lua.set_moving(moving);
        }
    }
}
