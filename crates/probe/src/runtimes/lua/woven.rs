//! Puts Lua's frames between the native frames that run them.
//!
//! The struct of a state's innermost protected call is on the C stack. All frames of the state are
//! put inside of the native frame that has it.

use super::memo::Memo;
use crate::runtimes::by_address::Weaving;
use crate::runtimes::woven::{self, Woven};
use crate::session::Session;
use crate::sites::tallies::CachedTally;
use crate::unwind::{Entry, NativeId};

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

/// Puts Lua's frames into a stack.
pub(in crate::runtimes) fn weave(memo: &mut Memo, weaving: &mut Weaving<'_, '_>) {
    let hash = match weaving.session.provider.is_set() {
        true => None,
        false => memo.capture(weaving.session, weaving.stack),
    };
    weaving.put(hash, |_| memo.marked());
}
