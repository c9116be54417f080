//! The words that the steps of a memoised stack read, to be read again.
#![allow(unsafe_code)]

use super::machine::SIGNAL_LINK_WORD;
use super::rule::{Kind, Rule};
use super::stack::{Window, load};
use super::step::State;

/// A word of the stack, and what it held.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct Check {
    address: u64,
    word: u64,
}

/// Checks of a whole stack, the oldest first. Zeroed memory is valid.
#[repr(C)]
pub(super) struct Checks<const N: usize> {
    /// May some of the words be unreadable by now? Those of the thread's own stack never are.
    foreign: bool,
    list: [Check; N],
}

impl<const N: usize> Checks<N> {
    /// Notes in which memory the words of a walk were found; `afresh` when older ones were dropped.
    #[inline(always)]
    pub(super) fn found_in(&mut self, stack: &Window, afresh: bool) {
        self.foreign = !stack.is_steady() || self.foreign && !afresh;
    }

    /// Of the oldest `count` checks, the youngest that does not hold.
    #[inline(always)]
    pub(super) fn first_broken(&self, count: usize, stack: &Window) -> Option<usize> {
        let checks = self.list.get(..count)?;
        if self.foreign || !stack.is_steady() {
            return first_broken_of_foreign(checks, *stack);
        }
        first_broken_of_own(checks)
    }

    /// Whether all words are of the thread's own stack.
    pub(super) fn are_own(&self) -> bool {
        !self.foreign
    }

    /// The checks from `first` to `end`.
    pub(super) fn between(&self, first: usize, end: usize) -> &[Check] {
        self.list.get(first..end).unwrap_or(&[])
    }

    /// Adds what the step from `state` to `older` read, behind `count` checks; their new number.
    /// The frame pointer it restored matters only if it is `live` in `older`.
    #[inline(always)]
    pub(super) fn add_step(
        &mut self,
        count: usize,
        state: &State,
        rule: Rule,
        older: &State,
        live: bool,
    ) -> usize {
        if !rule.is_plain() {
            return self.add_unusual_step(count, *state, rule, *older, live);
        }
        let count = self.add(count, older.sp.wrapping_sub(rule.ra_bytes()), older.pc);
        if live && !rule.keeps_fp() && !rule.loses_fp() {
            return self.add(count, older.sp.wrapping_sub(rule.fp_bytes()), older.fp);
        }
        count
    }

    #[cold]
    #[inline(never)]
    fn add_unusual_step(
        &mut self,
        count: usize,
        state: State,
        rule: Rule,
        older: State,
        live: bool,
    ) -> usize {
        let (cfa, ra, fp) = match rule.kind() {
            Kind::Realigned => {
                (state.fp.wrapping_add(rule.cfa_bytes()), older.sp.wrapping_sub(rule.ra_bytes()), state.fp)
            }
            Kind::Signal => (
                state.sp.wrapping_add(rule.cfa_bytes()),
                state.sp.wrapping_add(rule.ra_bytes()),
                state.sp.wrapping_add(rule.fp_bytes()),
            ),
            Kind::Leaf => return self.add(count, state.context.wrapping_add(SIGNAL_LINK_WORD * 8), older.pc),
            Kind::Go => {
                let frame = older.sp.wrapping_sub(16);
                let count = self.add(count, frame.wrapping_add(8), older.pc);
                let count = if live { self.add(count, frame, older.fp) } else { count };
                return if frame == state.fp { count } else { self.add(count, state.fp, frame) };
            }
            // Whether the frame pointer is plausible depends on the one that was saved.
            Kind::Unknown => {
                let count = self.add(count, state.fp.wrapping_add(8), older.pc);
                return self.add(count, state.fp, older.fp);
            }
            // Plain rules have their own way; an outermost frame has no older one.
            Kind::Sp | Kind::Fp | Kind::End => return count,
        };
        let count = self.add(count, ra, older.pc);
        let count = self.add(count, cfa, older.sp);
        if live { self.add(count, fp, older.fp) } else { count }
    }

    #[inline(always)]
    fn add(&mut self, count: usize, address: u64, word: u64) -> usize {
        if let Some(check) = self.list.get_mut(count) {
            *check = Check { address, word };
        }
        count + 1
    }
}

/// Checks of the thread's own stack, above its stack pointer.
#[inline(always)]
fn first_broken_of_own(checks: &[Check]) -> Option<usize> {
    let mut rest = checks;
    // Four at a time, since the loads do not depend on each other: a chain of frame pointers would.
    while let Some((older, [a, b, c, d])) = rest.split_last_chunk() {
        // SAFETY: words of the thread's own stack.
        let difference = unsafe { a.difference() | b.difference() | c.difference() | d.difference() };
        if difference != 0 {
            break;
        }
        rest = older;
    }
    // SAFETY: as above.
    rest.iter().rposition(|check| unsafe { check.difference() } != 0)
}

/// One after the other, which reads exactly what a full walk would, through the window.
#[cold]
#[inline(never)]
fn first_broken_of_foreign(checks: &[Check], mut stack: Window) -> Option<usize> {
    checks.iter().rposition(|check| stack.read(check.address) != Some(check.word))
}

impl Check {
    /// Where the word is, in bytes from the stack pointer on, and the word; `None` for one that is
    /// far away.
    pub(super) fn from(&self, sp: u64) -> Option<(u32, u64)> {
        Some((u32::try_from(self.address.checked_sub(sp)?).ok()?, self.word))
    }

    /// # Safety
    /// The word can be read.
    #[inline(always)]
    unsafe fn difference(&self) -> u64 {
        // SAFETY: the caller's promise.
        unsafe { load(self.address) ^ self.word }
    }
}
