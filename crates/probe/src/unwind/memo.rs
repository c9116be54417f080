//! The last stack of a thread, so that only what changed has to be unwound.
//!
//! **Claim.** With the rules fixed, the result equals that of a full walk from the same registers.
//!
//! **Why.** A step is a function of the frame's registers and of the ≤ 3 words it reads. The memo keeps, for
//! each frame of the last stack, its registers, and each word its step read as a [`Check`]. A walk starts at
//! the caller's registers. When it arrives at a frame of the memo with equal registers, and all words that
//! the older steps read are still the same, then by induction every older frame is the same. At the first
//! word that is not, the frames up to it are still true, and the walk goes on from there in real memory.
//! No assumption is made about calls and returns: `longjmp`, exceptions, coroutines, copied stacks
//! are all decided by what the memory holds now.
//!
//! **The frame pointer** mostly is an ordinary register. It takes part in the comparison only where it is
//! *live*: where an older frame's rule will use it before one restores it.
//!
//! **What is not memoised:** broken stacks (their end depends on more than the words read), stacks deeper than
//! [`DEPTH`], and anything of another module generation.
#![allow(unsafe_code)]

use super::checks::Checks;
use super::familiar::{FamiliarStacks, Whole};
use super::rule::Rule;
use super::rule_cache::Rules;
use super::stack::{OwnStack, Window};
use super::step::{State, Step, step};
use super::suffix::{self, Suffixes};
use super::walk::{Frame, breaks};
use super::{Captured, Entry, MAX_DEPTH, is_paranoid};
use crate::atomics::Ordering::Relaxed;
use crate::modules;
use crate::stack_tree::{self, Way};

/// Deepest stack that is memoised; beyond the recorded depth, so that cut stacks are cheap too.
const DEPTH: usize = 2 * MAX_DEPTH;
/// A program whose stacks are broken or too deep has many such: most of them are not tried.
const PAUSE: u32 = 15;

/// No node's number.
const UNASKED: u32 = u32::MAX;

/// A frame of the last stack.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub(super) struct Known {
    pub(super) state: State,
    pub(super) rule: Rule,
    /// Its node; 0 beyond the depth limit, and where nobody has asked yet (see [`node_at`]).
    pub(super) node: u32,
    /// Its caller's node, or [`UNASKED`].
    parent: u32,
    /// Checks of this frame's step and of all older ones.
    pub(super) checks: u32,
    /// Is its frame pointer live?
    pub(super) live: bool,
}

/// A frame of this walk that is not (or no longer) known.
#[derive(Clone, Copy)]
#[repr(C)]
struct Fresh {
    state: State,
    rule: Rule,
}

impl Fresh {
    /// Word by word: a vector load of words that were just stored one by one would wait until they have
    /// left the store buffer, which is a sixth of a capture.
    #[inline(always)]
    fn read(&self) -> Fresh {
        Fresh { state: self.state.read(), rule: self.rule }
    }
}

/// A thread's last stack. Zeroed memory is valid: no stack yet.
#[repr(C)]
pub(crate) struct Memo {
    own: OwnStack,
    /// Segment and module generation this was learnt in.
    epoch: u32,
    generation: u32,
    max_depth: usize,
    /// Captures to leave to the full walk, after one that could not be memoised.
    pause: u32,
    /// Frames known, the outermost first.
    len: usize,
    /// The cut stack of `cut_len` known frames, if there is one.
    cut_len: usize,
    cut_node: u32,
    /// The node of the last stack that was captured here, and that of the one which is likely to come.
    last: u32,
    next: u32,
    known: [Known; DEPTH],
    checks: Checks<{ 3 * DEPTH }>,
    fresh: [Fresh; DEPTH],
    suffixes: Suffixes,
    familiar: FamiliarStacks,
}

/// How a walk met the memo.
enum Met {
    /// At frame `top - 1`, which and whose callers are verified; `fresh` younger frames are new.
    At { top: usize, fresh: usize },
    /// Not at all: `fresh` frames up to the end of the stack, which is a zero return address or a rule.
    Never { fresh: usize, end: Option<State> },
}

impl Memo {
    /// The node of the stack at `entry`, if that is a familiar one: no step has to be made, and all words are where they
    /// were. Only while generation, epoch and depth are those of the last capture: see [`Memo::distrust`].
    #[inline(always)]
    pub(super) fn familiar(&self, entry: Entry) -> Option<u32> {
        self.familiar.node(entry)
    }

    /// The same while stacks are compared, when nobody else finds one: also before the thread has heard of a change.
    pub(super) fn familiar_compared(&self, entry: Entry, max_depth: usize) -> Option<u32> {
        let is_valid = self.is_of(modules::generation(), max_depth);
        is_valid.then(|| self.familiar.compared(entry)).flatten()
    }

    /// The first bucket of the stack that is likely to come.
    #[inline(always)]
    pub(crate) fn next_bucket(&self) -> Option<u32> {
        stack_tree::first_bucket(self.next).map(|bucket| bucket.load(Relaxed))
    }

    /// Whether what is known was learnt under the rules in force.
    #[inline(always)]
    fn is_of(&self, generation: u32, max_depth: usize) -> bool {
        (generation, stack_tree::epoch(), max_depth) == (self.generation, self.epoch, self.max_depth)
    }

    /// Something changed that stacks depend on: no stack is familiar any more.
    #[cold]
    pub(crate) fn distrust(&mut self) {
        self.familiar.forget();
    }

    /// Captures the stack of `state`; `None` when it cannot be memoised.
    #[inline(always)]
    pub(super) fn capture(&mut self, state: State, max_depth: usize) -> Option<Captured> {
        if self.pause != 0 {
            self.pause -= 1;
            return None;
        }
        let generation = modules::generation();
        if !self.is_of(generation, max_depth) {
            self.forget(generation, max_depth);
        }
        if self.own.contains(state.sp)
            && self.checks.are_own()
            && let Some(node) = self.ends_as_lately(&state)
        {
            self.note(state, node);
            return Some(Captured { node, truncated: false, broken: false });
        }
        let mut stack = self.own.window(state.sp);
        let met = self.walk(state, &mut stack);
        let known = match met {
            Some(Met::At { top, fresh: 0 }) => {
                self.len = top;
                true
            }
            Some(met) => self.learn(met, &stack) && modules::generation() == generation,
            None => false,
        };
        if !known {
            (self.len, self.pause) = (0, PAUSE);
            return None;
        }
        self.result()
    }

    /// What is known of the own stack, for a full walk.
    pub(super) fn own(&mut self) -> &mut OwnStack {
        &mut self.own
    }

    #[cold]
    fn forget(&mut self, generation: u32, max_depth: usize) {
        if self.epoch != stack_tree::epoch() {
            for known in &mut self.known {
                known.node = 0;
            }
            self.epoch = stack_tree::epoch();
        }
        self.suffixes.forget();
        self.familiar.forget();
        (self.generation, self.max_depth) = (generation, max_depth);
        (self.len, self.cut_len) = (0, 0);
        (self.last, self.next) = (0, 0);
    }

    /// Makes the memo's stack that of `state`, if it ends in frames seen lately, upon known ones; its node.
    #[inline(always)]
    fn ends_as_lately(&mut self, state: &State) -> Option<u32> {
        let suffix = self.suffixes.of(state, self.known.get(..self.len)?)?;
        let (top, frames) = (suffix.top as usize, suffix.frames().len());
        let met = self.known.get(top.wrapping_sub(1))?;
        let checks = met.checks;
        if !self.checks.hold(checks as usize) || top + frames > self.max_depth {
            return None;
        }
        // What is above is no longer true, whatever comes of this.
        self.len = top;
        self.checks.put(checks as usize, suffix.words());
        self.cut_len = 0;
        for (kept, place) in suffix.frames().iter().zip(self.known.get_mut(top..top + frames)?) {
            // From registers, not from words that were just stored.
            (place.state, place.rule, place.live) = (kept.state(), kept.rule, kept.live);
            (place.node, place.parent, place.checks) = (0, UNASKED, kept.checks.wrapping_add(checks));
        }
        self.len = top + frames;
        let upon = node_at(&mut self.known, top - 1)?;
        if upon != suffix.upon {
            let way = suffix.way_from(upon);
            let mut node = self.next;
            if !stack_tree::is_at_end_of(way, node) {
                node = node_at(&mut self.known, self.len - 1)?;
                stack_tree::set_next(self.last, way, node);
            }
            (suffix.upon, suffix.node) = (upon, node);
        }
        let node = suffix.node;
        self.known.get_mut(self.len - 1)?.node = node;
        self.came_to(node);
        Some(node)
    }

    /// Walks until it meets the memo or the end of the stack; `None` when the stack is broken or too deep.
    #[inline(always)]
    fn walk(&mut self, mut state: State, stack: &mut Window) -> Option<Met> {
        let mut top = self.len;
        let mut fresh = 0;
        // Known frames down to this one are true again, but for the step of the last.
        let mut replay = usize::MAX;
        let rules = Rules::of(self.generation);
        loop {
            let rule = if top > replay {
                top -= 1;
                self.known.get(top)?.rule
            } else {
                while let Some(known) = self.known(top)
                    && known.state.sp < state.sp
                {
                    top -= 1;
                }
                if let Some(known) = self.known(top)
                    && known.state.sp == state.sp
                {
                    if known.is_met_by(&state) {
                        match self.checks.first_broken(known.checks as usize, stack) {
                            None => return Some(Met::At { top, fresh }),
                            Some(check) => {
                                replay = self.frame_of(check, top);
                                continue;
                            }
                        }
                    }
                    top -= 1;
                }
                let rule = rules.rule(state.code());
                if breaks(&state, rule) {
                    return None;
                }
                rule
            };
            *self.fresh.get_mut(fresh)? = Fresh { state, rule };
            fresh += 1;
            match step(&state, rule, stack) {
                Step::Caller(caller) if caller.pc != 0 => state = caller,
                Step::Caller(end) => return Some(Met::Never { fresh, end: Some(end) }),
                Step::End => return Some(Met::Never { fresh, end: None }),
                Step::Broken => return None,
            }
        }
    }

    /// The youngest of the first `top` known frames.
    #[inline(always)]
    fn known(&self, top: usize) -> Option<&Known> {
        self.known.get(top.wrapping_sub(1))
    }

    /// The frame below `top` whose step a check belongs to.
    #[cold]
    fn frame_of(&self, check: usize, top: usize) -> usize {
        let frames = self.known.get(..top).unwrap_or(&[]);
        frames.partition_point(|known| known.checks as usize <= check)
    }

    /// Puts the fresh frames on top of what was met; false when there was no room for them.
    #[inline(always)]
    fn learn(&mut self, met: Met, stack: &Window) -> bool {
        let (top, fresh, end) = match met {
            Met::At { top, fresh } => (top, fresh, None),
            Met::Never { fresh, end } => (0, fresh, end),
        };
        let (mut older, mut live, mut checks) = match self.known(top) {
            Some(known) => (Some(known.state), known.live, known.checks as usize),
            None => (end, false, 0),
        };
        let upon =
            if top <= self.max_depth { node_at(&mut self.known, top.wrapping_sub(1)) } else { Some(0) };
        let Some(mut node) = upon else { return false };
        self.checks.found_in(stack, top == 0);
        self.cut_len = 0;
        let (mut len, older_checks) = (top, checks);
        for index in (0..fresh).rev() {
            let Some(Fresh { state, rule }) = self.fresh.get(index).map(Fresh::read) else { return false };
            if let Some(older) = older {
                checks = self.checks.add_step(checks, &state, rule, &older, live);
            }
            live = rule.uses_fp() || rule.keeps_fp() && live;
            let parent = node;
            if len < self.max_depth {
                let before = self.known.get(len);
                let Some(child) = before.and_then(|before| child(before, parent, &state, rule)) else {
                    return false;
                };
                node = child;
            } else {
                node = 0;
            }
            let Some(known) = self.known.get_mut(len) else { return false };
            known.state.write(&state);
            (known.rule, known.checks, known.live) = (rule, checks as u32, live);
            (known.node, known.parent) = (node, parent);
            len += 1;
            older = Some(state);
        }
        self.len = len;
        if top > 0
            && fresh <= suffix::FRAMES
            && self.checks.are_own()
            && len <= self.max_depth
            && let Some(way) = self.keep_suffix(top, older_checks, checks)
        {
            stack_tree::set_next(self.last, way, node);
        }
        self.came_to(node);
        true
    }

    #[inline(always)]
    fn came_to(&mut self, node: u32) {
        (self.last, self.next) = (node, stack_tree::next_of(node));
    }

    /// Keeps the frames above the first `top`, whose steps read the words between two numbers of checks.
    #[inline(always)]
    fn keep_suffix(&mut self, top: usize, older_checks: usize, checks: usize) -> Option<Way> {
        let (older, rest) = self.known.split_at_checked(top)?;
        let known = rest.get(..self.len - top)?;
        self.suffixes.keep(top, older.last()?, known, self.checks.between(older_checks, checks))
    }

    #[inline(always)]
    fn result(&mut self) -> Option<Captured> {
        if self.len > self.max_depth {
            return Some(Captured { node: self.cut()?, truncated: true, broken: false });
        }
        let youngest = self.known(self.len)?.state.read();
        let node = node_at(&mut self.known, self.len - 1)?;
        if youngest.context == 0 && self.own.contains(youngest.sp) && self.checks.are_own() {
            self.note(youngest, node);
        }
        Some(Captured { node, truncated: false, broken: false })
    }

    /// Makes the memo's stack familiar, if it came before; all of it is of the thread's own stack.
    #[inline(always)]
    fn note(&mut self, youngest: State, node: u32) {
        let Some(known) = self.known.get(self.len.wrapping_sub(1)) else { return };
        let (words, live) = (known.checks as usize, known.live);
        if self.familiar.comes_back(&youngest, node, words) {
            let checks = self.checks.between(0, words);
            self.familiar.keep(Whole { youngest, live, node, checks }, is_paranoid());
        }
    }

    /// The node of the youngest `max_depth` frames.
    #[cold]
    fn cut(&mut self) -> Option<u32> {
        if self.cut_len != self.len {
            let mut node = stack_tree::ROOT;
            for index in self.len - self.max_depth..self.len {
                let Known { state, rule, .. } = self.known.get(index)?;
                node = Frame::of(state, *rule).node_upon(node)?;
            }
            (self.cut_len, self.cut_node) = (self.len, node);
        }
        Some(self.cut_node)
    }
}

/// The node of a frame of the memo, not beyond the depth limit; of the empty stack below the first. `None` (counted) when there is no
/// room for it.
#[inline(always)]
fn node_at(known: &mut [Known], index: usize) -> Option<u32> {
    match known.get(index) {
        Some(Known { node: 0, .. }) => make_nodes(known, index),
        Some(frame) => Some(frame.node),
        None => Some(stack_tree::ROOT),
    }
}

/// Makes the nodes that are missing up to `index`.
#[inline(never)]
fn make_nodes(known: &mut [Known], index: usize) -> Option<u32> {
    let frames = known.get_mut(..=index)?;
    let missing = frames.iter().rev().take_while(|frame| frame.node == 0).count();
    let (older, missing) = frames.split_at_mut_checked(frames.len() - missing)?;
    let mut node = older.last().map_or(stack_tree::ROOT, |frame| frame.node);
    for frame in missing {
        frame.parent = node;
        node = Frame::of(&frame.state.read(), frame.rule).node_upon(node)?;
        frame.node = node;
    }
    Some(node)
}

/// The node of a frame. Often it is the one that was there before.
#[inline(always)]
fn child(before: &Known, parent: u32, state: &State, rule: Rule) -> Option<u32> {
    if before.node != 0
        && before.parent == parent
        && before.state.pc == state.pc
        && before.state.context == state.context
        && before.rule.module() == rule.module()
    {
        return Some(before.node);
    }
    Frame::of(state, rule).node_upon(parent)
}

impl Known {
    /// A copy made word by word (see [`Fresh::read`]).
    #[inline(always)]
    pub(super) fn read(&self) -> Known {
        // SAFETY: references can be read.
        unsafe {
            Known {
                state: self.state.read(),
                rule: (&raw const self.rule).read_volatile(),
                node: (&raw const self.node).read_volatile(),
                parent: (&raw const self.parent).read_volatile(),
                checks: (&raw const self.checks).read_volatile(),
                live: (&raw const self.live).read_volatile(),
            }
        }
    }

    /// Does a walk that has come to `state` go on here? Not at an interrupted frame: where its registers
    /// were saved would have to be compared too.
    #[inline(always)]
    fn is_met_by(&self, state: &State) -> bool {
        self.state.pc == state.pc
            && (!self.live || self.state.fp == state.fp)
            && (self.state.context | state.context) == 0
    }
}
