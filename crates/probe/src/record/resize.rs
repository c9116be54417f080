//! `realloc` and similar functions: the old block is removed from the index before the real call,
//! because during the call another thread may already get its address. It is inserted again when
//! the call fails.

use heapwise_format::event::Freeing;
use heapwise_format::segment::Counter;

use super::usable::{Family, Source};
use super::{Block, Pointer, record_inside, record_nested, slow_path};
use crate::inside::{Inside, enter, nested};
use crate::live::{self, Removed};
use crate::session::Session;
use crate::threads::State;
use crate::unwind::Entry;
use crate::{hooks, runtimes};

/// A block that may be about to move.
#[must_use]
pub(crate) struct Resizing {
    address: u64,
    family: Family,
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

impl Taken {
    fn take(session: &Session, address: u64, family: Family) -> Taken {
        match live::remove(session, address, |tally| slow_path::is_sample(session, tally)) {
            Some(removed) => Taken::Removed(removed, session.slack.of_removed(address, &removed, family)),
            None => Taken::Unknown,
        }
    }
}

/// Calls `act` with the session, also where the probe was interrupted.
fn with_session<T>(act: impl FnOnce(&Session) -> T) -> Option<T> {
    match enter() {
        Some(inside) => Some(act(&inside)),
        None => nested().map(|session| act(&session)),
    }
}

impl Resizing {
    /// Removes a block from its index before the real call.
    pub(crate) fn start(block: Pointer, caller: u64, family: Family) -> Resizing {
        let address = block as u64;
        if block.is_null() || hooks::is_nested_call(caller) || runtimes::is_thread_ending() {
            return Resizing { address, family, state: Taken::Nothing };
        }
        let state = with_session(|session| Taken::take(session, address, family)).unwrap_or(Taken::Nothing);
        Resizing { address, family, state }
    }

    /// The real call failed: the block is still there.
    pub(crate) fn undo(self) {
        if let Taken::Removed(removed, _) = &self.state {
            with_session(|session| {
                let is_sample = slow_path::is_sample(session, removed.block.tally);
                live::put_back(session, self.address, removed, is_sample);
            });
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
        match enter() {
            Some(mut inside) => self.finish_inside(&mut inside, new),
            None => self.finish_nested(new),
        }
    }

    fn finish_inside(self, inside: &mut Inside, new: Option<(&Block, &Entry)>) {
        let (session, mut state) = slow_path::with_state_of_event(inside);
        if let Some(state) = &mut state {
            state.begin_event(session);
        }
        self.count_old(session, state);
        if let Some((block, entry)) = new {
            runtimes::Moving { old: self.address, new: block.address }.note(inside);
            record_inside(inside, block, entry);
            runtimes::Moving::end(inside);
        }
    }

    #[cold]
    fn finish_nested(self, new: Option<(&Block, &Entry)>) {
        if let Some(session) = nested() {
            if matches!(self.state, Taken::Removed(..)) {
                session.segment.count(Counter::Reentrant);
            }
            self.count_old(&session, None);
        }
        if let Some((block, entry)) = new {
            record_nested(block, entry);
        }
    }

    /// Counts the free of the old block.
    fn count_old(&self, session: &Session, state: Option<&mut State>) {
        match &self.state {
            Taken::Nothing => {}
            Taken::Unknown => slow_path::unknown_free(session, state, self.address),
            Taken::Removed(removed, slack) => {
                slow_path::count_free(session, state, self.address, removed, Freeing::Plain, *slack);
            }
        }
    }
}

/// The real call returned `new` with `size` bytes.
pub(crate) fn resized(resizing: Resizing, new: Pointer, size: usize, entry: &Entry) {
    let size = size as u64;
    let grown = if resizing.address == 0 { 0 } else { size.saturating_sub(resizing.size()) };
    // The block may be the old one, with the room that it had.
    let source = Source { family: resizing.family, is_measured: true };
    let block = Block { address: new as u64, size, grown: Some(grown), source, is_uncached: false };
    resizing.finish(Some((&block, entry)));
}
