//! The states that the calling thread runs, found on its C stack.
//!
//! **Claim.** A state whose `errorJmp` points into the live part of the calling thread's C stack is
//! one that the thread runs; the one that points to the lowest address runs innermost.
//!
//! **Why.** `errorJmp` is the struct of the innermost protected call of a state. It is a local
//! variable of `luaD_rawrunprotected`, under which every resumed coroutine runs, and every call by
//! `lua_pcall`. The function restores `errorJmp` before it returns, so a suspended coroutine has
//! none. It needs its state after the call, so the state's address is in its part of the stack: the
//! words of the frames of Lua's binary are tried.
//!
//! A state that runs by `lua_call` outside of every protected call has no `errorJmp`. It runs a
//! call, is not suspended, and its address is in a frame of Lua's binary: it is taken for the
//! outermost one, at the outermost frame that has its address.
//!
//! Stacks with the same native frames at the same addresses have the address at the same place,
//! which is remembered.
#![allow(unsafe_code)]

use super::layout::common::{CALL, FUNCTION, PREVIOUS, STATE_BYTES, THREAD, TYPE};
use super::program_counter::{self, CounterPlace};
use super::{Engine, engine, engine_at};
use crate::runtimes::memory::{Pages, byte, word};
use crate::runtimes::woven::mixed;
use crate::session::Session;
use crate::unwind::{self, Entry, NativeFrame, NativeId, NativeStack, OwnStack, is_readable};

/// Most states that run inside each other on a thread; of more the innermost ones.
const MOST: usize = 64;
/// Most of them in a cached stack.
const MOST_CACHED: usize = 4;
/// Most calls that are followed of a state outside of every protected call.
const MOST_CALLS: u32 = 10_000;
/// Cached stacks, as a power of two.
const BITS: u32 = 9;
/// Bytes of the struct of a protected call, up to the last saved register.
const SAVED_BYTES: u64 = 104;

/// A state that the thread runs.
#[derive(Clone, Copy)]
pub(super) struct Running {
    pub(super) state: u64,
    /// Its `errorJmp`: an address on the C stack.
    pub(super) jump: u64,
    /// The address on the C stack that has the state's address.
    slot: u64,
    /// The number of its engine.
    pub(super) engine: usize,
}

/// States of a stack that was searched.
#[derive(Clone, Copy)]
struct Cached {
    /// Of the native frames and the stack pointer; 0: none.
    key: u64,
    len: usize,
    running: [Running; MOST_CACHED],
    /// See [`program_counter`].
    program_counter: u64,
}

/// What is known of the states that a thread runs. Zeroed memory is valid: nothing.
pub(super) struct States {
    len: usize,
    running: [Running; MOST],
    /// A state outside of every protected call.
    unprotected: Option<Running>,
    /// The address on the C stack that has the innermost state's next instruction; 0: none.
    pub(super) program_counter: u64,
    cached: [Cached; 1 << BITS],
    own_stack: OwnStack,
    /// Pages of words that were tried, in one search.
    tried: Pages,
    searches: u32,
    /// Part of the key of cached stacks: a change drops them.
    epoch: u64,
    places: program_counter::Places,
    sites: program_counter::Sites,
}

impl States {
    /// Drops what is known: of another thread's stack, or of older native frames.
    pub(super) fn reset(&mut self) {
        self.len = 0;
        self.own_stack = OwnStack::default();
        self.epoch = self.epoch.wrapping_add(1);
    }

    /// The states that the thread runs, the innermost first.
    pub(super) fn running(&self) -> &[Running] {
        self.running.get(..self.len).unwrap_or(&[])
    }

    /// Finds the states of the calling thread.
    pub(super) fn find(&mut self, session: &Session, pages: &mut Pages, stack: &mut NativeStack<'_>) {
        if !self.find_cached(stack.id, stack.entry) {
            self.search(session, stack);
            self.find_program_counter(pages, self.key(stack.id, stack.entry));
        }
    }

    fn key(&self, native: NativeId, entry: &Entry) -> u64 {
        mixed(mixed(entry.sp, self.epoch), native.word()).max(1)
    }

    /// Takes the states from the places where those of an equal native stack were; false when there
    /// is none.
    #[inline(always)]
    pub(super) fn find_cached(&mut self, native: NativeId, entry: &Entry) -> bool {
        let key = self.key(native, entry);
        let States { cached, running, len, program_counter, .. } = self;
        let Some(cached) = cached.get_mut(slot_of(key)).filter(|cached| cached.key == key) else {
            return false;
        };
        for (known, place) in cached.running.iter_mut().take(cached.len).zip(running.iter_mut()) {
            // SAFETY: a word of a native frame of the calling thread, which was on its own stack.
            let state = unsafe { word(known.slot) };
            if state != known.state && !is_thread(state) {
                return false;
            }
            let Some(engine) = engine(known.engine) else { return false };
            // SAFETY: checked now, or when it became known: the frame keeps its state alive.
            if unsafe { word(state + u64::from(engine.layout.error_jump)) } != known.jump {
                return false;
            }
            known.state = state;
            *place = *known;
        }
        *len = cached.len;
        *program_counter = cached.program_counter;
        true
    }

    fn find_program_counter(&mut self, pages: &mut Pages, key: u64) {
        let innermost = self.running().first().copied();
        let found = match innermost.and_then(|innermost| Some((innermost, engine(innermost.engine)?))) {
            Some((innermost, engine)) => {
                self.sites.find(&engine.layout, pages, innermost.state, &self.places)
            }
            None => CounterPlace::Saved,
        };
        self.program_counter = match found {
            CounterPlace::At(place) | CounterPlace::NowAt(place) => place,
            CounterPlace::Saved | CounterPlace::Unsure => 0,
        };
        if matches!(found, CounterPlace::At(_) | CounterPlace::Saved) {
            self.cache(key);
        }
    }

    fn cache(&mut self, key: u64) {
        let States { cached, running, len, program_counter, unprotected, .. } = self;
        let Some(place) = cached.get_mut(slot_of(key)) else { return };
        let found = running.get(..*len).unwrap_or(&[]);
        // A place outside of the struct of the call may hold the word of an earlier frame.
        let is_sure = |running: &Running| (running.jump..running.jump + SAVED_BYTES).contains(&running.slot);
        place.key = 0;
        if unprotected.is_none() && found.len() <= MOST_CACHED && found.iter().all(is_sure) {
            place.running.iter_mut().zip(found).for_each(|(to, from)| *to = *from);
            *place = Cached { key, len: found.len(), program_counter: *program_counter, ..*place };
        }
    }

    /// Searches the native frames.
    #[cold]
    fn search(&mut self, session: &Session, stack: &mut NativeStack<'_>) {
        let entry = stack.entry;
        self.len = 0;
        self.unprotected = None;
        self.places.start(entry);
        if !self.own_stack.holds(entry.sp) {
            return;
        }
        self.searches = self.searches.wrapping_add(1);
        self.tried.validate(self.searches);
        let mut inner: Option<NativeFrame> = None;
        stack.visit(session, &mut |frame| {
            if let Some(inner) = inner.replace(frame) {
                self.search_frame(&inner, frame.sp, entry);
            }
        });
        if let Some(unprotected) = self.unprotected {
            self.insert(unprotected);
        }
    }

    /// Tries the words of a native frame, whose part of the stack ends at `end`.
    fn search_frame(&mut self, frame: &NativeFrame, end: u64, entry: &Entry) {
        self.places.add(frame, end);
        let Some((number, engine)) = engine_at(frame.code) else { return };
        let own_stack = self.own_stack;
        unwind::visit_words(&own_stack, frame.sp, end, &mut |slot, state| {
            if own_stack.contains(state) || !self.is_state(engine, state) {
                return;
            }
            // SAFETY: `is_state` has checked it.
            let jump = unsafe { word(state + u64::from(engine.layout.error_jump)) };
            let running = Running { state, jump, slot, engine: number };
            if jump.is_multiple_of(8) && jump > entry.sp && own_stack.contains(jump) {
                self.insert(running);
            } else if jump == 0 && self.runs_unprotected(engine, state) {
                self.unprotected = Some(Running { jump: slot, ..running });
            }
        });
    }

    /// Whether a state is at an address that may be any.
    fn is_state(&mut self, engine: &Engine, state: u64) -> bool {
        if !state.is_multiple_of(8) || !self.tried.holds_all(state, STATE_BYTES) {
            return false;
        }
        // SAFETY: checked.
        (unsafe { byte(state + TYPE) }) == THREAD && has_base(engine, state)
    }

    /// Whether a state without a protected call runs a call: it is neither suspended nor ended. Its
    /// calls are followed to the first one, because memory of zeros passes the other checks.
    fn runs_unprotected(&mut self, engine: &Engine, state: u64) -> bool {
        let base = state + u64::from(engine.layout.error_jump) + 8;
        // SAFETY: `is_state` has checked it.
        let (status, mut call) =
            unsafe { (byte(state + u64::from(engine.layout.thread_status)), word(state + CALL)) };
        if status != 0 || call == base {
            return false;
        }
        for _ in 0..MOST_CALLS {
            match self.tried.word(call.wrapping_add(PREVIOUS)) {
                Some(previous) if previous == base => return true,
                Some(previous) => call = previous,
                None => return false,
            }
        }
        false
    }

    /// Inserts a state by the order of the stack.
    fn insert(&mut self, new: Running) {
        let States { running, len, .. } = self;
        let known = running.get_mut(..*len).unwrap_or_default();
        if let Some(known) = known.iter_mut().find(|known| known.state == new.state) {
            // The place in the struct of the call is written with every call.
            if (new.jump..new.jump + SAVED_BYTES).contains(&new.slot) {
                *known = new;
            }
            return;
        }
        let at = known.iter().position(|known| known.jump > new.jump).unwrap_or(*len);
        if at < MOST {
            let end = (*len).min(MOST - 1);
            running.copy_within(at..end, at + 1);
            if let Some(place) = running.get_mut(at) {
                *place = new;
            }
            *len = end + 1;
        }
    }
}

fn slot_of(key: u64) -> usize {
    (key >> (64 - BITS)) as usize
}

/// Whether the first call of a state is where it is in every state: the struct follows `errorJmp`,
/// has no caller, and is at the start of the stack. It is an offset while the stack is moved. A
/// word that is not a state may pass the other checks.
fn has_base(engine: &Engine, state: u64) -> bool {
    let base = state + u64::from(engine.layout.error_jump) + 8;
    // SAFETY: the caller has checked the bytes of a state.
    let (function, previous, stack) = unsafe {
        (word(base + FUNCTION), word(base + PREVIOUS), word(state + u64::from(engine.layout.stack)))
    };
    previous == 0 && (function == stack || function == 0)
}

/// Whether a thread is at an address that may be any.
#[cold]
fn is_thread(state: u64) -> bool {
    let last = state.wrapping_add(STATE_BYTES - 8);
    let can_be_read = state.is_multiple_of(8) && is_readable(state) && is_readable(last);
    // SAFETY: the system calls have shown that it can be read.
    can_be_read && unsafe { byte(state + TYPE) } == THREAD
}
