//! Familiar stacks: those that a thread comes back to, recognised without a walk.
//!
//! **Claim.** A stack whose registers are those of a familiar one, and whose words are, is that one.
//!
//! **Why.** As for the memo: a step is a function of registers and of the words it reads. Registers are compared, and so is
//! every word that any step of the stack read.
//!
//! A program allocates at a few dozen places in turn, from a few callers each: where stacks differ in their youngest frames,
//! or in the middle, the memo has to walk them again and again. Most stacks come once, though, so one becomes familiar when it
//! is captured a second time, with few others in between that share its set.
#![allow(unsafe_code)]

use super::checks::Check;
use super::stack::load;
use super::{Entry, State};
use crate::arch::at_hand;

/// Sets of familiar stacks, as a power of two, and how many are in each: 208 KiB a thread, if it ever has so many. Of the stacks that python
/// allocates json with, 1 in 5 is not familiar with 64 sets of 4, hardly fewer with 128 of 8, and 2 in 5 with 256 of one.
const BITS: u32 = 6;
/// Some differ in nothing but words, so they share their set.
const WAYS: usize = 4;
/// Pairs of words that the steps of most stacks read; deeper ones never become familiar.
const PAIRS: usize = 33;

/// In the stack pointer of a stack that only those find who compare: no stack is there.
const COMPARED: u64 = 1 << 63;

/// Two words of a stack. In twos, because most stacks that repeat are short, and what is left over of more costs more
/// than it gains.
#[derive(Clone, Copy)]
#[repr(C)]
struct Pair {
    words: [u64; 2],
    /// Where they are, in bytes from the stack pointer on.
    places: [u32; 2],
}

/// A stack of the thread's own. Zeroed memory is valid: none, since no stack is at 0.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Familiar {
    sp: u64,
    pc: u64,
    fp: u64,
    /// The bits of the frame pointer that matter: all when it is live, else none.
    live: u64,
    node: u32,
    /// Of the pairs in use.
    bytes: u32,
    pairs: [Pair; PAIRS],
}

/// Zeroed memory is valid: nothing is familiar.
pub(super) struct FamiliarStacks {
    sets: [[Familiar; WAYS]; 1 << BITS],
    /// The nodes of each set that were captured last, the last first.
    latest: [[u32; WAYS]; 1 << BITS],
    /// Which of a set is replaced next.
    turn: usize,
}

/// A captured stack of the thread's own, whose youngest frame was not interrupted.
pub(super) struct Whole<'a> {
    pub(super) youngest: State,
    /// Whether its frame pointer is live.
    pub(super) live: bool,
    pub(super) node: u32,
    pub(super) checks: &'a [Check],
}

#[inline(always)]
fn slot(sp: u64, pc: u64) -> usize {
    (pc ^ sp >> 4) as usize & ((1 << BITS) - 1)
}

impl FamiliarStacks {
    /// The node of the stack at `entry`, if that is a familiar one.
    #[inline(always)]
    pub(super) fn node(&self, entry: Entry) -> Option<u32> {
        self.node_of(entry, entry.sp)
    }

    /// The same among stacks that became familiar while stacks are compared.
    pub(super) fn compared(&self, entry: Entry) -> Option<u32> {
        self.node_of(entry, entry.sp ^ COMPARED)
    }

    #[inline(always)]
    fn node_of(&self, entry: Entry, sp: u64) -> Option<u32> {
        let set = at_hand(self.sets.get(slot(entry.sp, entry.pc))?);
        let is_it = |stack: &&Familiar| {
            let same = stack.sp == sp && stack.pc == entry.pc && (stack.fp ^ entry.fp) & stack.live == 0;
            same && stack.holds_at(entry.sp)
        };
        set.iter().find(is_it).map(|stack| stack.node)
    }

    /// A stack was captured, whose steps read so many words: whether it is to become familiar.
    #[inline(always)]
    pub(super) fn comes_back(&mut self, youngest: &State, node: u32, words: usize) -> bool {
        if words.wrapping_sub(1) >= 2 * PAIRS {
            return false;
        }
        let Some(latest) = self.latest.get_mut(slot(youngest.sp, youngest.pc)) else { return false };
        if latest.contains(&node) {
            return true;
        }
        latest.copy_within(..WAYS - 1, 1);
        latest[0] = node;
        false
    }

    /// Makes a stack familiar, which came back; whether stacks are compared.
    #[cold]
    #[inline(never)]
    pub(super) fn keep(&mut self, stack: Whole, is_compared: bool) {
        self.turn = self.turn.wrapping_add(1);
        let set = self.sets.get_mut(slot(stack.youngest.sp, stack.youngest.pc));
        if let Some(familiar) = set.and_then(|set| set.get_mut(self.turn % WAYS)) {
            familiar.become_of(stack, if is_compared { COMPARED } else { 0 });
        }
    }

    /// Forgets all: something changed that stacks depend on.
    pub(super) fn forget(&mut self) {
        self.sets.iter_mut().flatten().for_each(|stack| stack.sp = 0);
        self.latest.fill([0; WAYS]);
    }
}

impl Familiar {
    /// Whether every word is what it was. To be asked at the stack pointer that it belongs to: all words are above it, on the
    /// stack in use.
    #[inline(always)]
    fn holds_at(&self, sp: u64) -> bool {
        let mut end = self.bytes as usize;
        loop {
            let pair = self.pairs.as_ptr().wrapping_byte_add(end).wrapping_sub(1);
            // SAFETY: of a stack that has a stack pointer, that many bytes of the pairs are in use, and one pair at least.
            let Pair { words: [a, b], places: [at_a, at_b] } = unsafe { &*pair };
            // SAFETY: see above; `become_of` took only words between the stack pointer and the end of the thread's stack.
            let word = |place: u32| unsafe { load(sp.wrapping_add(place.into())) };
            if word(*at_a) != *a || word(*at_b) != *b {
                return false;
            }
            end -= size_of::<Pair>();
            if end == 0 {
                return true;
            }
        }
    }

    /// For some words, and no more than there is room for.
    fn become_of(&mut self, stack: Whole, mark: u64) {
        let State { sp, pc, fp, .. } = stack.youngest;
        self.sp = 0;
        // The youngest last, where comparing begins: they differ most.
        for (pair, checks) in self.pairs.iter_mut().zip(stack.checks.chunks(2)) {
            // Of an odd number, the last twice.
            let (Some(young), Some(old)) = (checks.last(), checks.first()) else { return };
            let (Some(young), Some(old)) = (young.from(sp), old.from(sp)) else { return };
            *pair = Pair { words: [young.1, old.1], places: [young.0, old.0] };
        }
        (self.pc, self.fp, self.live) = (pc, fp, if stack.live { u64::MAX } else { 0 });
        self.node = stack.node;
        self.bytes = (stack.checks.len().div_ceil(2) * size_of::<Pair>()) as u32;
        self.sp = sp ^ mark;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A stack of words, all of which its steps read.
    struct Words<const N: usize>([u64; N]);

    impl<const N: usize> Words<N> {
        fn entry(&self) -> Entry {
            Entry { pc: 0x40_1234, sp: self.0.as_ptr() as u64, fp: 7 }
        }

        fn is_noted_in(&self, stacks: &mut FamiliarStacks, live: bool, node: u32) {
            let Entry { pc, sp, fp } = self.entry();
            let checks: Vec<Check> =
                (sp..).step_by(8).zip(self.0).map(|(at, word)| Check::new(at, word)).collect();
            let youngest = State { pc, sp, fp, context: 0 };
            if stacks.comes_back(&youngest, node, checks.len()) {
                stacks.keep(Whole { youngest, live, node, checks: &checks }, false);
            }
        }
    }

    fn none() -> Box<FamiliarStacks> {
        // SAFETY: zeroed memory is valid.
        unsafe { Box::new_zeroed().assume_init() }
    }

    #[test]
    fn the_second_time_it_is_familiar_while_every_word_is_the_same() {
        let mut stacks = none();
        let mut words = Words([1, 2, 3, 4, 5]);
        words.is_noted_in(&mut stacks, false, 9);
        assert_eq!(stacks.node(words.entry()), None, "one may come once");
        words.is_noted_in(&mut stacks, false, 9);
        for at in 0..words.0.len() {
            assert_eq!(stacks.node(words.entry()), Some(9));
            words.0[at] += 1;
            assert_eq!(stacks.node(words.entry()), None, "word {at}");
            words.0[at] -= 1;
        }
        assert_eq!(stacks.node(Entry { pc: 0x40_1235, ..words.entry() }), None);
        assert_eq!(stacks.compared(words.entry()), None);
        stacks.forget();
        assert_eq!(stacks.node(words.entry()), None);
    }

    /// Stacks that are alike but for a word, which is their node.
    fn note(words: &mut Words<4>, stacks: &mut FamiliarStacks, node: u32) -> Option<u32> {
        words.0[2] = node.into();
        words.is_noted_in(stacks, false, node);
        stacks.node(words.entry())
    }

    #[test]
    fn several_that_differ_in_words_are_familiar_at_once() {
        let (mut stacks, mut words) = (none(), Words([1, 2, 3, 4]));
        let nodes = 1..=WAYS as u32;
        assert!(nodes.clone().all(|node| note(&mut words, &mut stacks, node).is_none()));
        assert!(nodes.clone().all(|node| note(&mut words, &mut stacks, node) == Some(node)));
        for node in nodes {
            words.0[2] = node.into();
            assert_eq!(stacks.node(words.entry()), Some(node));
        }
    }

    #[test]
    fn what_comes_once_drives_nothing_away() {
        let (mut stacks, mut words) = (none(), Words([1, 2, 3, 4]));
        note(&mut words, &mut stacks, 1);
        assert_eq!(note(&mut words, &mut stacks, 1), Some(1));
        assert!((2..1000).all(|node| note(&mut words, &mut stacks, node).is_none()));
        words.0[2] = 1;
        assert_eq!(stacks.node(words.entry()), Some(1));
    }

    #[test]
    fn the_frame_pointer_matters_where_it_is_live() {
        for live in [false, true] {
            let (mut stacks, words) = (none(), Words([1, 2, 3]));
            words.is_noted_in(&mut stacks, live, 9);
            words.is_noted_in(&mut stacks, live, 9);
            assert_eq!(stacks.node(words.entry()), Some(9));
            assert_eq!(stacks.node(Entry { fp: 8, ..words.entry() }).is_none(), live);
        }
    }

    #[test]
    fn deep_stacks_are_not_kept() {
        let (mut stacks, most, more) = (none(), Words([1; 2 * PAIRS]), Words([1; 2 * PAIRS + 1]));
        for _ in 0..2 {
            most.is_noted_in(&mut stacks, false, 9);
        }
        assert_eq!(stacks.node(most.entry()), Some(9));
        for _ in 0..2 {
            more.is_noted_in(&mut stacks, false, 10);
        }
        assert_eq!(stacks.node(more.entry()), None);
    }
}
