//! The last stack of a thread, so that only what changed has to be unwound.
//!
//! **Claim.** With the rules fixed, the result equals that of a full walk from the same registers.
//!
//! **Why.** A step is a function of the frame's registers and of the ≤ 3 words it reads. The memo
//! keeps, for each frame of the last stack, its registers, and each word its step read as a
//! [`Check`]. A walk starts at the caller's registers. When it arrives at a frame of the memo with
//! equal registers, and all words that the older steps read are still the same, then by induction
//! every older frame is the same. At the first word that differs, the frames up to it are still
//! valid, and the walk continues from there in memory. No assumption is made about calls and
//! returns: `longjmp`, exceptions, coroutines, copied stacks are all covered, because only the
//! current contents of memory count.
//!
//! **The frame pointer** is usually an ordinary register. It is compared only where it is *live*:
//! where an older frame's rule uses it before another rule restores it.
//!
//! **Code without unwind information** that keeps frame pointers (a just-in-time compiler) is
//! followed into code behind a call instruction. The memo does not read the code again: while a
//! return address is on the stack, the code that it belongs to stays.
//!
//! **What is not memoised:** stacks that end in such code (their end depends on more than the words
//! read), stacks deeper than [`DEPTH`], and anything of another module generation.
#![allow(unsafe_code)]

use super::checks::Checks;
use super::native_id::mixed;
use super::rule::Rule;
use super::rule_cache::Rules;
use super::stack::{OwnStack, Window};
use super::stack_cache::{StackCache, Whole};
use super::step::{State, Step, step};
use super::walk::{Frame, place_of};
use super::{Captured, MAX_DEPTH, NativeId};
use crate::session::Session;
use crate::sites::stack_tree;
use crate::sites::tallies::TallyRef;

/// Deepest stack that is memoised; beyond the recorded depth, so that cut stacks are cheap too.
const DEPTH: usize = 2 * MAX_DEPTH;
/// A program whose stacks are broken or too deep has many such: most of them are not tried.
const PAUSE: u32 = 15;

/// A frame of the last stack.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub(super) struct Known {
    pub(super) state: State,
    pub(super) rule: Rule,
    /// Of its place and of those of all older frames.
    hash: u64,
    /// Its node; 0 beyond the depth limit, and before the first lookup (see [`node_at`]).
    node: u32,
    /// Its caller's node.
    parent: u32,
    /// Checks of this frame's step and of all older ones.
    pub(super) checks: u32,
    /// Is its frame pointer live?
    pub(super) live: bool,
    /// Has it, or an older frame, no unwind information?
    broken: bool,
}

/// A frame of this walk that is not (or no longer) known.
#[derive(Clone, Copy)]
#[repr(C)]
struct Fresh {
    state: State,
    rule: Rule,
}

impl Fresh {
    /// Word by word: a vector load of words that were just stored one by one would wait until they
    /// have left the store buffer, which is a sixth of a capture.
    #[inline(always)]
    fn read(&self) -> Fresh {
        Fresh { state: self.state.read(), rule: self.rule }
    }
}

/// Where frame `index` of a walk is, counted from the innermost.
#[inline(always)]
fn place_of_fresh(index: usize) -> usize {
    (DEPTH - 1).wrapping_sub(index)
}

/// A thread's last stack. Zeroed memory is valid: no stack yet.
#[repr(C, align(4096))]
pub(crate) struct Memo {
    /// Moves what follows so that the last frames of `fresh`, the fields and the first frames of
    /// `known` share a page.
    _offset: [u64; 128],
    /// The innermost frame last.
    fresh: [Fresh; DEPTH],
    own: OwnStack,
    /// Module generation this was learnt in.
    generation: u32,
    max_depth: usize,
    /// How often the rules have changed: a cache of another version was filled under other rules.
    version: u32,
    /// Captures to leave to the full walk, after one that could not be memoised.
    pause: u32,
    /// Frames known, the outermost first.
    len: usize,
    /// See [`Memo::take_kept`].
    kept: usize,
    /// The cut stack of `cut_len` known frames, if there is one.
    cut_len: usize,
    cut_node: u32,
    known: [Known; DEPTH],
    checks: Checks<{ 3 * DEPTH }>,
}

/// Where a walk reached the memo.
enum Met {
    /// At frame `top - 1`, which and whose callers are verified; `fresh` younger frames are new.
    At { top: usize, fresh: usize },
    /// Not at all: `fresh` frames up to the end of the stack, which is a zero return address or a
    /// rule.
    Never { fresh: usize, end: Option<State> },
}

impl Memo {
    /// Whether what is known was learnt under the rules in force.
    #[inline(always)]
    pub(super) fn is_of(&self, generation: u32, max_depth: usize) -> bool {
        (generation, max_depth) == (self.generation, self.max_depth)
    }

    /// The last captured stack, if it can be cached: all of it is on the thread's own stack, its
    /// innermost frame was not interrupted, and it was not cut.
    fn whole(&self, id: NativeId) -> Option<Whole<'_>> {
        let known = self.known.get(self.len.wrapping_sub(1))?;
        let innermost = known.state.read();
        let is_own = innermost.context == 0 && self.own.contains(innermost.sp) && self.checks.are_own();
        let checks = self.checks.between(0, known.checks as usize);
        let is_last = id == NativeId::of_node(known.node) || id == NativeId::of_hash(known.hash);
        let is_whole = self.len <= self.max_depth;
        (is_own && is_whole && is_last).then_some(Whole { innermost, live: known.live, id, checks })
    }

    /// Admits the last captured stack to a cache, if it can be.
    pub(super) fn admit_to(
        &mut self,
        session: &Session,
        cache: &mut StackCache,
        id: NativeId,
        tally: Option<TallyRef>,
    ) {
        if let Some(whole) = self.whole(id) {
            cache.admit(session, &whole, tally);
        }
    }

    /// Drops the entries of a cache that was filled under other rules.
    pub(super) fn validate(&self, cache: &mut StackCache) {
        if cache.version != self.version {
            cache.clear();
            cache.version = self.version;
        }
    }

    /// Words that the steps of the last captured stack read.
    pub(super) fn words(&self) -> usize {
        self.frame(self.len).map_or(0, |known| known.checks as usize)
    }

    /// Captures the stack of `state`; `None` when it cannot be memoised.
    #[inline(always)]
    pub(super) fn capture(
        &mut self,
        session: &Session,
        state: State,
        max_depth: usize,
    ) -> Option<Captured<NativeId>> {
        if self.pause != 0 {
            self.pause -= 1;
            return None;
        }
        let modules = &session.unwind.modules;
        let generation = modules.generation();
        if !self.is_of(generation, max_depth) {
            self.clear(generation, max_depth);
        }
        let mut stack = self.own.window(state.sp);
        let met = self.walk(session, state, &mut stack);
        let known = match met {
            Some(Met::At { top, fresh: 0 }) => {
                self.len = top;
                self.kept = self.kept.min(top);
                true
            }
            Some(met) => self.learn(session, met, &stack) && modules.generation() == generation,
            None => false,
        };
        if !known {
            self.pause();
            return None;
        }
        self.result(session)
    }

    /// The stack cannot be memoised: leaves it and the next ones to the full walk.
    pub(crate) fn pause(&mut self) {
        (self.len, self.kept, self.pause) = (0, 0, PAUSE);
    }

    /// The frames of the stack that was captured last, the outermost first; empty when it could not
    /// be memoised.
    pub(super) fn known(&self) -> &[Known] {
        self.known.get(..self.len).unwrap_or(&[])
    }

    /// Outermost frames that all stacks since the last call had.
    pub(super) fn take_kept(&mut self) -> usize {
        core::mem::replace(&mut self.kept, self.len)
    }

    /// Another thread continues with the memo: drops the last stack and its bounds.
    pub(crate) fn change_thread(&mut self) {
        self.own = OwnStack::default();
        (self.len, self.kept, self.cut_len) = (0, 0, 0);
    }

    /// Cached bounds of the thread's own stack, for a full walk.
    pub(super) fn own(&mut self) -> &mut OwnStack {
        &mut self.own
    }

    #[cold]
    fn clear(&mut self, generation: u32, max_depth: usize) {
        (self.generation, self.max_depth) = (generation, max_depth);
        (self.len, self.kept, self.cut_len) = (0, 0, 0);
        self.version = self.version.wrapping_add(1);
    }

    /// Walks until it reaches a frame of the memo or the end of the stack; `None` when the end is
    /// not found, or is too deep.
    #[inline(always)]
    fn walk(&mut self, session: &Session, mut state: State, stack: &mut Window) -> Option<Met> {
        let mut top = self.len;
        let mut fresh = 0;
        // Known frames down to this one are true again, but for the step of the last.
        let mut replay = usize::MAX;
        let rules = Rules::of(session, self.generation);
        loop {
            let rule = if top > replay {
                top -= 1;
                self.known.get(top)?.rule
            } else {
                while let Some(known) = self.frame(top)
                    && known.state.sp < state.sp
                {
                    top -= 1;
                }
                if let Some(known) = self.frame(top)
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
                rules.rule(state.code())
            };
            *self.fresh.get_mut(place_of_fresh(fresh))? = Fresh { state, rule };
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
    fn frame(&self, top: usize) -> Option<&Known> {
        self.known.get(top.wrapping_sub(1))
    }

    /// The frame below `top` whose step a check belongs to.
    #[cold]
    fn frame_of(&self, check: usize, top: usize) -> usize {
        let frames = self.known.get(..top).unwrap_or(&[]);
        frames.partition_point(|known| known.checks as usize <= check)
    }

    /// Pushes the new frames on top of the memo's frame that was reached; false when there was no
    /// room for them.
    #[inline(always)]
    fn learn(&mut self, session: &Session, met: Met, stack: &Window) -> bool {
        let (top, fresh, end) = match met {
            Met::At { top, fresh } => (top, fresh, None),
            Met::Never { fresh, end } => (0, fresh, end),
        };
        let (mut older, mut live, mut broken, mut checks) = match self.frame(top) {
            Some(known) => (Some(known.state), known.live, known.broken, known.checks as usize),
            None => (end, false, false, 0),
        };
        let mut hash = self.frame(top).map_or(0, |known| known.hash);
        let has_nodes = !session.unwind.names_by_hash();
        let upon = if has_nodes && top <= self.max_depth {
            node_at(session, &mut self.known, top.wrapping_sub(1))
        } else {
            Some(0)
        };
        let Some(mut node) = upon else { return false };
        self.checks.found_in(stack, top == 0);
        self.kept = self.kept.min(top);
        self.cut_len = 0;
        let mut len = top;
        for index in (0..fresh).rev() {
            let Some(Fresh { state, rule }) = self.fresh.get(place_of_fresh(index)).map(Fresh::read) else {
                return false;
            };
            if let Some(older) = older {
                checks = self.checks.add_step(checks, &state, rule, &older, live);
                // An outermost frame needs no unwind information.
                broken |= rule.is_unknown();
            }
            live = rule.uses_fp() || rule.keeps_fp() && live;
            hash = mixed(hash, place_of(&state) ^ u64::from(rule.module()) << 48);
            let parent = node;
            if has_nodes && len < self.max_depth {
                let before = self.known.get(len);
                let Some(child) = before.and_then(|before| child(session, before, parent, &state, rule))
                else {
                    return false;
                };
                node = child;
            } else {
                node = 0;
            }
            let Some(known) = self.known.get_mut(len) else { return false };
            known.state.write(&state);
            (known.rule, known.checks, known.live, known.broken) = (rule, checks as u32, live, broken);
            (known.hash, known.node, known.parent) = (hash, node, parent);
            len += 1;
            older = Some(state);
        }
        self.len = len;
        true
    }

    #[inline(always)]
    fn result(&mut self, session: &Session) -> Option<Captured<NativeId>> {
        let name = match session.unwind.names_by_hash() {
            true => NativeId::of_hash(self.frame(self.len)?.hash),
            false => NativeId::of_node(self.node(session)?),
        };
        Some(Captured { name, truncated: self.len > self.max_depth, broken: self.is_broken() })
    }

    /// Whether the stack that was captured last passes through code without unwind information,
    /// within the depth limit.
    #[inline(always)]
    fn is_broken(&self) -> bool {
        let is_broken = self.frame(self.len).is_some_and(|known| known.broken);
        is_broken && (self.len <= self.max_depth || self.is_broken_within_limit())
    }

    #[cold]
    fn is_broken_within_limit(&self) -> bool {
        self.known().iter().rev().take(self.max_depth).any(|known| known.rule.is_unknown())
    }

    /// The node of the stack that was captured last; `None` when there is no room for it.
    #[inline(always)]
    pub(super) fn node(&mut self, session: &Session) -> Option<u32> {
        match self.len > self.max_depth {
            true => self.cut(session),
            false => node_at(session, &mut self.known, self.len.wrapping_sub(1)),
        }
    }

    /// The node of the youngest `max_depth` frames.
    #[cold]
    fn cut(&mut self, session: &Session) -> Option<u32> {
        if self.cut_len != self.len {
            let mut node = stack_tree::ROOT;
            for index in self.len - self.max_depth..self.len {
                let Known { state, rule, .. } = self.known.get(index)?;
                node = Frame::of(state, *rule).node_upon(session, node)?;
            }
            (self.cut_len, self.cut_node) = (self.len, node);
        }
        Some(self.cut_node)
    }
}

/// The node of a frame of the memo, not beyond the depth limit; of the empty stack below the first.
/// `None` (counted) when there is no room for it.
#[inline(always)]
fn node_at(session: &Session, known: &mut [Known], index: usize) -> Option<u32> {
    match known.get(index) {
        Some(Known { node: 0, .. }) => make_nodes(session, known, index),
        Some(frame) => Some(frame.node),
        None => Some(stack_tree::ROOT),
    }
}

/// Makes the nodes that are missing up to `index`.
#[inline(never)]
fn make_nodes(session: &Session, known: &mut [Known], index: usize) -> Option<u32> {
    let frames = known.get_mut(..=index)?;
    let missing = frames.iter().rev().take_while(|frame| frame.node == 0).count();
    let (older, missing) = frames.split_at_mut_checked(frames.len() - missing)?;
    let mut node = older.last().map_or(stack_tree::ROOT, |frame| frame.node);
    for frame in missing {
        frame.parent = node;
        node = Frame::of(&frame.state.read(), frame.rule).node_upon(session, node)?;
        frame.node = node;
    }
    Some(node)
}

/// The node of a frame. Often it is the one that was there before.
#[inline(always)]
fn child(session: &Session, before: &Known, parent: u32, state: &State, rule: Rule) -> Option<u32> {
    if before.node != 0
        && before.parent == parent
        && before.state.pc == state.pc
        && before.state.context == state.context
        && before.rule.module() == rule.module()
    {
        return Some(before.node);
    }
    Frame::of(state, rule).node_upon(session, parent)
}

impl Known {
    /// Does a walk that has come to `state` go on here? Not at an interrupted frame: where its
    /// registers were saved would have to be compared too.
    #[inline(always)]
    fn is_met_by(&self, state: &State) -> bool {
        self.state.pc == state.pc
            && (!self.live || self.state.fp == state.fp)
            && (self.state.context | state.context) == 0
    }
}
