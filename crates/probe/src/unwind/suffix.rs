//! Ends of stacks seen lately. A program that allocates at several places in turn changes only the youngest frames of
//! its stack, and to the same ones over and over.
//!
//! **Claim.** A suffix holds the frames that a walk from equal registers would step through before it meets the memo,
//! if the words that those steps read are the same, and the frame met is.
//!
//! **Why.** As for the memo: a step is a function of registers and of the words it reads. The registers of the youngest
//! frame are compared, and each word; so those of every older frame follow, up to the one where the memo was met. The
//! frame pointer is compared where it is live, which depends on the rules of the frames above and on whether it is live
//! in the frame met.

use super::checks::{Check, all_hold};
use super::memo::Known;
use super::rule::Rule;
use super::step::State;
use super::walk::Frame;
use crate::stack_tree::Way;

/// Frames of the longest suffix.
pub(super) const FRAMES: usize = 6;
/// Words that the steps of most suffixes read; longer ones are not kept.
pub(super) const WORDS: usize = 10;
/// Suffixes that begin alike, and the sets of them as a power of two: 256 KiB a thread, if it ever uses them all. In a recursion, what a
/// function allocates first comes upon either of two call sites of its caller, and of the caller's caller.
const WAYS: usize = 4;
const BITS: u32 = 7;

/// The youngest frames of a stack, above a frame of the memo.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub(super) struct Suffix {
    /// What it is recognised by: the youngest frame, and how many known frames it was put upon, the last of them
    /// `met`.
    youngest: Registers,
    /// The bits of the youngest frame's frame pointer that matter.
    live: u64,
    met: Registers,
    /// A hash of the frames.
    path: u64,
    /// In which it was learnt.
    era: u32,
    pub(super) top: u32,
    /// The node of `met` when the suffix was seen last, and of the whole stack then.
    pub(super) upon: u32,
    pub(super) node: u32,
    frames: u8,
    words: u8,
    met_live: bool,
    checks: [Check; WORDS],
    /// The oldest first.
    kept: [Kept; FRAMES],
}

/// The registers of a frame that was not interrupted.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct Registers {
    pc: u64,
    sp: u64,
    fp: u64,
}

/// A frame.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct Kept {
    registers: Registers,
    pub(super) rule: Rule,
    /// As in [`Known`], but counted from the first of the suffix on.
    pub(super) checks: u32,
    pub(super) live: bool,
}

impl Registers {
    #[inline(always)]
    fn of(state: &State) -> Registers {
        let State { pc, sp, fp, .. } = state.read();
        Registers { pc, sp, fp }
    }
}

impl Kept {
    #[inline(always)]
    pub(super) fn state(&self) -> State {
        let Registers { pc, sp, fp } = self.registers;
        State { pc, sp, fp, context: 0 }
    }
}

/// Zeroed memory is valid: none.
pub(super) struct Suffixes {
    /// Changes with the rules that suffixes are learnt under; 0 before the first.
    era: u32,
    /// Which of a set is replaced next.
    turn: usize,
    sets: [[Suffix; WAYS]; 1 << BITS],
}

impl Suffixes {
    /// The suffix of a stack that is at `youngest`, upon one of the frames of a memo.
    #[inline(always)]
    pub(super) fn of(&mut self, youngest: &State, memo: &[Known]) -> Option<&mut Suffix> {
        let era = self.era;
        self.set(youngest)?.iter_mut().find(|suffix| {
            let met = memo.get((suffix.top as usize).wrapping_sub(1));
            suffix.era == era && met.is_some_and(|met| suffix.ends(youngest, met))
        })
    }

    /// Keeps `known`, which was just put upon `top` frames, the last of them `met`; `words` are what its steps read. The way to the
    /// whole stack's node.
    #[inline(always)]
    pub(super) fn keep(&mut self, top: usize, met: &Known, known: &[Known], words: &[Check]) -> Option<Way> {
        let youngest = known.last()?;
        if known.len() > FRAMES || words.len() > WORDS || known.iter().any(|known| known.state.context != 0) {
            return None;
        }
        let era = self.era;
        self.turn = self.turn.wrapping_add(1);
        let way = self.turn % WAYS;
        let suffix = self.set(&youngest.state)?.get_mut(way)?;
        suffix.era = era;
        suffix.become_of(youngest, top, met, known, words);
        Some(suffix.way_from(met.node))
    }

    #[inline(always)]
    fn set(&mut self, youngest: &State) -> Option<&mut [Suffix; WAYS]> {
        let mixed = (youngest.sp ^ youngest.pc << 16).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.sets.get_mut((mixed >> (64 - BITS)) as usize)
    }

    /// Forgets all: they were learnt under other rules.
    pub(super) fn forget(&mut self) {
        self.era = self.era.wrapping_add(1).max(1);
    }
}

impl Suffix {
    /// All of it was just stored, word by word, and is read so.
    #[inline(always)]
    fn become_of(&mut self, youngest: &Known, top: usize, met: &Known, known: &[Known], words: &[Check]) {
        (self.youngest, self.live) =
            (Registers::of(&youngest.state), if youngest.live { u64::MAX } else { 0 });
        (self.top, self.frames, self.words) = (top as u32, known.len() as u8, words.len() as u8);
        (self.met, self.met_live) = (Registers::of(&met.state), met.live);
        (self.upon, self.node, self.path) = (met.node, youngest.node, 0);
        for (kept, known) in self.kept.iter_mut().zip(known) {
            let Known { state, rule, checks, live, .. } = known.read();
            *kept = Kept {
                registers: Registers::of(&state),
                rule,
                checks: checks.wrapping_sub(met.checks),
                live,
            };
            self.path = Frame::of(&state, rule).hash_after(self.path);
        }
        for (kept, word) in self.checks.iter_mut().zip(words) {
            *kept = word.read();
        }
    }

    /// The way to the node of the whole stack, where `met` is that of the frame met.
    #[inline(always)]
    pub(super) fn way_from(&self, met: u32) -> Way {
        Way::new(met, self.path)
    }

    /// Whether these are the youngest frames of a stack that is at `state`, upon a memo whose frame number `top` is
    /// `met`. The words are of the thread's own stack.
    #[inline(always)]
    fn ends(&self, state: &State, met: &Known) -> bool {
        self.youngest.sp == state.sp
            && self.youngest.pc == state.pc
            && (self.youngest.fp ^ state.fp) & self.live == 0
            && self.met.sp == met.state.sp
            && self.met.pc == met.state.pc
            && self.met_live == met.live
            && (!met.live || self.met.fp == met.state.fp)
            && met.state.context == 0
            && all_hold(self.words())
    }

    /// What its steps read.
    #[inline(always)]
    pub(super) fn words(&self) -> &[Check] {
        self.checks.get(..usize::from(self.words)).unwrap_or(&[])
    }

    #[inline(always)]
    pub(super) fn frames(&self) -> &[Kept] {
        self.kept.get(..usize::from(self.frames)).unwrap_or(&[])
    }
}
