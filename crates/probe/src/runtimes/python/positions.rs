//! Tallies of stacks by the position of the interpreter's innermost frame: one lookup finds the
//! native stack to compare with, and the tally.
//!
//! **Claim.** Stacks with the same native frames, the same position of the innermost Python frame
//! and the same callers of that frame are the same.
//!
//! **Why.** An entry names a stack of the stack cache, whose words are compared. The callers are
//! compared with those of the last stack that was read, down to the outermost frame, and their hash
//! identifies their places. A position belongs to one code object, whose end changes the runtime
//! generation.
#![allow(unsafe_code)]

use super::Interpreter;
use super::layout::{Layout, PYTHON_3_11};
use super::memo::{Memo, key_of};
use crate::runtimes;
use crate::runtimes::memory::{byte, word};
use crate::sites::tallies::{CachedTally, TallyRef};
use crate::unwind::{Entry, StackCache, StackPlace};

/// Cached stacks, as a power of two. A request of a Flask server has about 1 500 stacks.
const BITS: u32 = 11;

#[derive(Clone, Copy)]
#[repr(align(64))]
struct Cached {
    /// Of the innermost frame, see [`Innermost`].
    position: u64,
    /// The hash of the frames outside of it.
    callers: u64,
    native: StackPlace,
    /// The runtime generation.
    generation: u32,
    /// How many frames are outside of the innermost one.
    depth: u16,
    tally: CachedTally,
}

const _: () = assert!(size_of::<Cached>() == 64);

const NOTHING: Cached = Cached {
    position: 0,
    callers: 0,
    native: StackPlace::NONE,
    generation: 0,
    depth: 0,
    tally: CachedTally::NONE,
};

/// The tallies of a thread. Zeroed memory is valid: none.
pub(super) struct Positions {
    cached: [Cached; 1 << BITS],
    /// The native stacks that the entries name, see [`StackCache::filling`].
    filling: u32,
}

/// The first place where a stack may be. The position comes last: it is known last.
#[inline(always)]
fn slot(entry: Entry, position: u64) -> usize {
    let native = entry.pc.wrapping_add(entry.sp.wrapping_mul(8)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    native.wrapping_add(position / 2) as usize % (1 << BITS)
}

impl Positions {
    /// Puts a stack into its first place. What was there moves to the other one.
    fn insert(&mut self, filling: u32, slot: usize, new: Cached) {
        if self.filling != filling {
            self.clear();
            self.filling = filling;
        }
        if let Ok([first, second]) = self.cached.get_disjoint_mut([slot, slot ^ 1]) {
            *second = core::mem::replace(first, new);
        }
    }

    /// Drops the tallies: something changed that they depend on.
    pub(super) fn clear(&mut self) {
        self.cached.fill(NOTHING);
    }
}

/// What is looked up: a block of a size, the stack that allocates it, its innermost frame.
#[derive(Clone, Copy)]
struct Sought {
    entry: Entry,
    size: usize,
    innermost: Innermost,
    /// The runtime generation.
    generation: u32,
}

/// The calling thread's tally of the stack at `entry` of CPython 3.11, if it is cached. Calls
/// nothing, so that callers need no registers of their own callers.
#[inline(always)]
pub(crate) fn tally_at_once(
    interpreter: &Interpreter,
    natives: &StackCache,
    memo: &mut Memo,
    entry: Entry,
    size: usize,
) -> Option<TallyRef> {
    let generation = runtimes::generation();
    let frame = memo.known_top_frame(interpreter, &PYTHON_3_11, generation)?;
    // SAFETY: `known_top_frame` has checked the frame.
    let innermost = unsafe { Innermost::of(&PYTHON_3_11, frame) };
    find(&PYTHON_3_11, natives, memo, Sought { entry, size, innermost, generation })
}

/// The calling thread's tally of the stack at `entry`, if it is cached.
pub(crate) fn tally(
    interpreter: &Interpreter,
    natives: &StackCache,
    memo: &mut Memo,
    entry: Entry,
    size: usize,
) -> Option<TallyRef> {
    let generation = runtimes::generation();
    let frame = memo.readable_top_frame(interpreter, generation)?;
    // SAFETY: `readable_top_frame` has checked the frame.
    let innermost = unsafe { Innermost::of(&interpreter.layout, frame) };
    find(&interpreter.layout, natives, memo, Sought { entry, size, innermost, generation })
}

#[inline(always)]
fn find(layout: &Layout, natives: &StackCache, memo: &mut Memo, sought: Sought) -> Option<TallyRef> {
    let first = slot(sought.entry, sought.innermost.position);
    for slot in [first, first ^ 1] {
        if let Some(tally) = find_at(layout, natives, memo, sought, slot) {
            return Some(tally);
        }
    }
    None
}

/// The tally in a place, if it is that of the stack.
#[inline(always)]
fn find_at(
    layout: &Layout,
    natives: &StackCache,
    memo: &mut Memo,
    Sought { entry, size, innermost: Innermost { position, previous }, generation }: Sought,
    slot: usize,
) -> Option<TallyRef> {
    let cached = memo.positions.cached.get(slot)?;
    let is_it = cached.position == position
        && cached.generation == generation
        && memo.positions.filling == natives.filling()
        // SAFETY: of this filling.
        && unsafe { natives.is_at(cached.native, entry) };
    let depth = usize::from(cached.depth);
    if !is_it || depth > memo.len || memo.hash_of(depth) != cached.callers {
        return None;
    }
    if !memo.is_unchanged(layout, depth, previous) {
        return None;
    }
    let tally = cached.tally.of_size(size)?;
    memo.note_callers(depth);
    Some(tally)
}

/// Caches the tally of the stack at `entry`, whose frames of the interpreter were read last.
pub(super) fn insert(
    interpreter: &Interpreter,
    natives: &StackCache,
    native: StackPlace,
    memo: &mut Memo,
    entry: Entry,
    tally: CachedTally,
) {
    let generation = runtimes::generation();
    let Some(frame) = memo.frames().last().map(|last| last.frame) else { return };
    if !memo.may_skip_names(interpreter, generation) {
        return;
    }
    // SAFETY: a frame of the stack that was just read.
    let Innermost { position, .. } = unsafe { Innermost::of(&interpreter.layout, frame) };
    let depth = memo.frames().len() - 1;
    let callers = memo.hash_of(depth);
    let new = Cached { position, callers, native, generation, depth: depth as u16, tally };
    memo.positions.insert(natives.filling(), slot(entry, position), new);
}

/// Of the innermost frame.
#[derive(Clone, Copy)]
struct Innermost {
    /// Its position, and in the highest byte whether an eval loop begins with it.
    position: u64,
    /// Its caller.
    previous: u64,
}

impl Innermost {
    /// # Safety
    /// The frame can be read.
    #[inline(always)]
    unsafe fn of(layout: &Layout, frame: u64) -> Innermost {
        // SAFETY: the caller's promise.
        unsafe {
            let owner = match layout.has_instruction_address() {
                true => byte(frame + u64::from(layout.owner)),
                // Each frame has an eval loop of its own.
                false => 0,
            };
            let position = key_of(layout, frame) ^ u64::from(owner) << 56;
            Innermost { position, previous: word(frame + u64::from(layout.previous)) }
        }
    }
}
