//! Language runtimes inside the program: their stacks continue the native ones, and blocks of
//! their own allocators are recorded.
//!
//! A runtime is found by the symbols that it exports, at the start of the process or when it maps
//! its first arena. Facts about it (offsets, functions) are true in every forked child and stay
//! outside of the session. A process without a runtime pays for one load where a stack is captured
//! and where memory is mapped.
//!
//! *Invariant*: memory of a runtime is read only at addresses that were checked, and only on the
//! thread whose stack it is. Nothing there is written; no function is called that locks or
//! allocates.

pub(crate) mod python;

use crate::session::Session;
use crate::sites::tallies::CachedTally;
use crate::unwind::Entry;

/// The runtimes' part of a session. Zeroed memory is valid: nothing is known.
pub(crate) struct Runtimes {
    pub(crate) python: python::Part,
}

/// Whether stacks may have frames of a runtime.
#[inline(always)]
pub(crate) fn are_present() -> bool {
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

/// The node of the whole stack, when `native` is the node of its native frames.
#[inline(always)]
pub(crate) fn weave(session: &Session, memo: &mut python::Memo, native: u32, entry: &Entry) -> u32 {
    match python::interpreter() {
        Some(interpreter) => python::weave(session, interpreter, memo, native, entry),
        None => native,
    }
}

/// The calling thread's tally of a stack whose native frames are those of `native`, if it is
/// cached.
#[inline(always)]
pub(crate) fn cached_tally<'m>(
    session: &Session,
    memo: &'m mut python::Memo,
    native: u32,
) -> Option<&'m CachedTally> {
    python::cached_tally(session, python::interpreter()?, memo, native)
}

/// As [`weave`], on a thread without a state.
pub(crate) fn weave_shared(session: &Session, native: u32, entry: &Entry) -> u32 {
    match python::interpreter() {
        Some(interpreter) => session
            .runtimes
            .python
            .spare
            .with_memo(|memo| python::weave(session, interpreter, memo, native, entry))
            .unwrap_or(native),
        None => native,
    }
}
