//! Memos for threads without a state: rare samples, mappings.

use super::Memo;
use crate::os::slots::Slots;

/// Threads that use one at the same time; the stacks of others stay without frames of a runtime.
const MEMOS: usize = 4;

/// The memos of a session. Zeroed memory is valid: all are free.
pub(crate) struct Spare(Slots<Memo, MEMOS>);

impl Spare {
    /// Calls `act` with a memo that knows nothing of the calling thread; `None` when all are in
    /// use.
    pub(crate) fn with_memo<T>(&self, act: impl FnOnce(&mut Memo) -> T) -> Option<T> {
        let on_empty = |memo: &mut Memo| {
            memo.reset();
            act(memo)
        };
        self.0.with(on_empty).ok()
    }
}
