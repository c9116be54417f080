//! Puts Lua's frames between the native frames that run them.
//!
//! The struct of a state's innermost protected call is on the C stack. All frames of the state are
//! put inside of the native frame that has it.

use super::Engine;
use super::memo::Memo;
use crate::hooks;
use crate::runtimes::woven::{self, Frame};
use crate::session::Session;
use crate::sites::tallies::CachedTally;
use crate::unwind::{self, Entry, NativeFrame};

/// The calling thread's tally of a stack, if it is cached.
#[inline(always)]
pub(in crate::runtimes) fn cached_tally<'m>(
    session: &Session,
    engine: &Engine,
    memo: &'m mut Memo,
    native: u32,
    entry: &Entry,
) -> Option<&'m CachedTally> {
    let hash = match session.provider.is_set() {
        true => None,
        false => memo.capture_known(session, engine, native, entry)?,
    };
    memo.woven.tally(woven::key(hash, native))
}

/// The node of the whole stack, when `native` is the node of its native frames.
pub(in crate::runtimes) fn weave(
    session: &Session,
    engine: &Engine,
    memo: &mut Memo,
    native: u32,
    entry: &Entry,
) -> u32 {
    let hash = match session.provider.is_set() {
        true => None,
        false => memo.capture(session, engine, native, entry),
    };
    let key = woven::key(hash, native);
    if let Some(node) = memo.woven.find(key) {
        return node;
    }
    if hash.is_none() {
        return memo.woven.insert(key, native);
    }
    collect(session, memo, entry);
    memo.woven.intern(session, key)
}

/// Writes the woven stack to the memo's buffer.
fn collect(session: &Session, memo: &mut Memo, entry: &Entry) {
    memo.woven.clear();
    let mut left = memo.frames().len();
    let mut pending: Option<NativeFrame> = None;
    let mut own_stack = *memo.states.own_stack();
    unwind::visit(session, &mut own_stack, entry, session.control.depth(), &mut |frame| {
        if let Some(inner) = pending.replace(frame) {
            put(memo, &mut left, inner, frame.sp);
        }
    });
    if let Some(outermost) = pending {
        put(memo, &mut left, outermost, u64::MAX);
    }
}

/// Puts a native frame, whose part of the stack ends at `end`, after Lua's frames inside of it.
/// `left` frames of Lua are not put yet: the outermost ones.
fn put(memo: &mut Memo, left: &mut usize, native: NativeFrame, end: u64) {
    while let Some(known) = left.checked_sub(1).and_then(|index| memo.frames().get(index)).copied() {
        if known.jump >= end {
            break;
        }
        memo.woven.put(Frame { place: known.place, module: 0 });
        *left -= 1;
    }
    if !hooks::is_own_code(native.code) {
        memo.woven.put(Frame { place: native.place, module: native.module });
    }
}
