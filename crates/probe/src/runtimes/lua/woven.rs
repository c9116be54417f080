//! Puts Lua's frames between the native frames that run them.
//!
//! The struct of a state's innermost protected call is on the C stack. All frames of the state are
//! put inside of the native frame that has it.

use super::memo::Memo;
use crate::runtimes::woven::{self, Woven};
use crate::session::Session;
use crate::sites::tallies::CachedTally;
use crate::unwind::{Entry, NativeId, NativeStack};

/// The calling thread's tally of a stack, if it is cached.
#[inline(always)]
pub(in crate::runtimes) fn cached_tally<'m>(
    session: &Session,
    memo: &mut Memo,
    woven: &'m mut Woven,
    native: NativeId,
    entry: &Entry,
) -> Option<&'m CachedTally> {
    let hash = match session.provider.is_set() {
        true => None,
        false => memo.capture_known(session, native, entry)?,
    };
    woven.tally(woven::key(hash, native))
}

/// The node of the whole stack, when `base` is that of its native frames, with those of another
/// runtime between them.
pub(in crate::runtimes) fn weave(
    session: &Session,
    memo: &mut Memo,
    woven: &mut Woven,
    base: u32,
    stack: &mut NativeStack<'_>,
) -> u32 {
    let hash = match session.provider.is_set() {
        true => None,
        false => memo.capture(session, stack),
    };
    woven.node(session, hash, base, |woven| memo.collect(session, woven, base, stack))
}
