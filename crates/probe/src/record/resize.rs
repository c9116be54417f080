//! `realloc` and similar functions: the old block is removed from the index before the real call,
//! because during the call another thread may already get its address. It is inserted again when
//! the call fails.

use heapwise_format::event::Freeing;
use heapwise_format::segment::Counter;

use super::{Block, Pointer, slow_path, usable};
use crate::arch::words;
use crate::live::{self, Removed};
use crate::unwind::Entry;
use crate::{control, fork, hooks, prof, segment};

/// A block that may be about to move.
#[must_use]
pub(crate) struct Resizing {
    address: u64,
    state: Taken,
}

enum Taken {
    /// Null, or a call that is part of another one.
    Nothing,
    /// No index holds it.
    Unknown,
    /// It was in an index; with its slack.
    Removed(Removed, u64),
}

impl Resizing {
    /// Removes a block from its index before the real call.
    pub(crate) fn start(block: Pointer, caller: u64) -> Resizing {
        let address = block as u64;
        if block.is_null() || hooks::is_nested_call(caller) {
            return Resizing { address, state: Taken::Nothing };
        }
        match words().enter() {
            // Inside the probe, because a forked child drops its parent's state here.
            Some(_busy) => control::poll(),
            None if fork::is_forked_child() => return Resizing { address, state: Taken::Nothing },
            None => {}
        }
        let state = match live::remove(address, slow_path::is_sample) {
            Some(removed) => Taken::Removed(removed, usable::slack(address, removed.block.size)),
            None => Taken::Unknown,
        };
        Resizing { address, state }
    }

    /// The real call failed: the block is still there.
    pub(crate) fn undo(self) {
        if let Taken::Removed(removed, _) = &self.state {
            live::put_back(self.address, removed, slow_path::is_sample(removed.block.tally));
        }
    }

    /// The real call freed the block and returned none.
    pub(crate) fn freed(self) {
        self.finish(None);
    }

    /// Bytes of the old block; 0 when that is not known.
    fn size(&self) -> u64 {
        if let Taken::Removed(removed, _) = &self.state { removed.block.size } else { 0 }
    }

    /// Counts the free of the old block and the allocation of the new one.
    fn finish(self, new: Option<(&Block, &Entry)>) {
        let words = words();
        let is_every = matches!(control::activity(), control::Activity::Exact | control::Activity::Log);
        let mut busy = words.enter();
        let interrupted = busy.is_none();
        let mut state = busy
            .as_mut()
            .and_then(|busy| if is_every { words.state(busy) } else { words.existing_state(busy) });
        if let Some(state) = &mut state {
            state.begin_event();
        }
        match &self.state {
            Taken::Nothing => {}
            Taken::Unknown => slow_path::unknown_free(state.as_deref_mut(), self.address),
            Taken::Removed(removed, slack) => {
                if interrupted {
                    segment::count(Counter::Reentrant);
                }
                slow_path::count_free(state.as_deref_mut(), self.address, removed, Freeing::Plain, *slack);
            }
        }
        let Some((block, entry)) = new else { return };
        if is_every && !prof::is_silent(words) {
            slow_path::count(state, block, entry, interrupted);
        } else if !is_every {
            drop(busy);
            super::record(block, entry);
        }
    }
}

/// The real call returned `new` with `size` bytes.
pub(crate) fn resized(resizing: Resizing, new: Pointer, size: usize, entry: &Entry) {
    let size = size as u64;
    let grown = if resizing.address == 0 { 0 } else { size.saturating_sub(resizing.size()) };
    let block = Block { address: new as u64, size, grown: Some(grown) };
    resizing.finish(Some((&block, entry)));
}
