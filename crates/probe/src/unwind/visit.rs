//! The native frames of a stack one by one, with their places on it.
#![allow(unsafe_code)]

use super::memo::Known;
use super::rule::Rule;
use super::rule_cache::Rules;
use super::stack::load;
use super::step::{State, Step, step};
use super::walk::place_of;
use super::{Entry, MAX_DEPTH, Memo, NativeId, OwnStack, capture_plain, eh_frame, machine};
use crate::modules::Image;
use crate::session::Session;
use crate::sites::stack_tree;

/// A native frame.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct NativeFrame {
    /// An encoded `NodePlace`.
    pub(crate) place: u64,
    /// As in a node of the stack tree.
    pub(crate) module: u32,
    /// An address in the code that runs.
    pub(crate) code: u64,
    /// Start of its part of the stack.
    pub(crate) sp: u64,
}

impl NativeFrame {
    #[inline(always)]
    fn new(state: &State, rule: Rule) -> NativeFrame {
        NativeFrame { place: place_of(state), module: rule.module(), code: state.code(), sp: state.sp }
    }

    fn of(known: &Known) -> NativeFrame {
        NativeFrame::new(&known.state, known.rule)
    }
}

/// The native stack of a hook's caller.
pub(crate) struct NativeStack<'a> {
    pub(crate) entry: &'a Entry,
    pub(crate) id: NativeId,
    /// The last stack of the calling thread; `None` on a thread without a state.
    pub(crate) memo: Option<&'a mut Memo>,
    /// Whether the memo has captured this stack already.
    pub(crate) is_captured: bool,
}

/// The frames of a stack, the outermost first. Zeroed memory is valid: none.
pub(crate) struct NativeFrames {
    frames: [NativeFrame; MAX_DEPTH],
    len: usize,
    /// Outermost frames of the stack that are not recorded.
    cut: usize,
}

impl NativeFrames {
    pub(crate) fn get(&self) -> &[NativeFrame] {
        self.frames.get(..self.len).unwrap_or(&[])
    }

    /// The end of a frame's part of the stack; the largest address where it is not known: of the
    /// outermost frame, and where the stack was switched.
    pub(crate) fn end_of(&self, index: usize) -> u64 {
        let sp = |index: usize| self.get().get(index).map(|frame| frame.sp);
        let outer = index.checked_sub(1).and_then(sp);
        outer.filter(|outer| Some(*outer) > sp(index)).unwrap_or(u64::MAX)
    }
}

impl NativeStack<'_> {
    /// Calls `act` with each frame that is recorded, the innermost first. With a memo, only what
    /// changed since the last stack is unwound.
    pub(crate) fn visit(&mut self, session: &Session, act: &mut dyn FnMut(NativeFrame)) {
        let max_depth = max_depth(session);
        match self.capture(session, max_depth) {
            Some(memo) => memo.known().iter().rev().take(max_depth).map(NativeFrame::of).for_each(act),
            None => self.walk(session, max_depth, act),
        }
    }

    /// The node of the stack; that of stacks without room where there is none for it.
    pub(crate) fn node(&mut self, session: &Session) -> u32 {
        if let Some(node) = self.id.node() {
            return node;
        }
        match self.capture(session, max_depth(session)) {
            Some(memo) => memo.node(session).unwrap_or(stack_tree::OUT_OF_STACKS),
            // A cached stack, right after one that cannot be memoised.
            None => {
                self.with_own(|own, entry| capture_plain(session, own, entry, session.control.depth()).name)
            }
        }
    }

    /// Writes the frames of the stack to `frames`; so many outermost ones are as before.
    pub(crate) fn update(&mut self, session: &Session, frames: &mut NativeFrames) -> usize {
        let max_depth = max_depth(session);
        let NativeFrames { frames: places, len, cut } = frames;
        let Some(memo) = self.capture(session, max_depth) else {
            (*len, *cut) = (0, 0);
            self.walk(session, max_depth, &mut |frame| {
                if let Some(place) = places.get_mut(*len) {
                    *place = frame;
                    *len += 1;
                }
            });
            places.get_mut(..*len).unwrap_or_default().reverse();
            return 0;
        };
        let known = memo.known().len();
        let cut_now = known.saturating_sub(max_depth);
        let kept = memo.take_kept();
        let kept = if *cut == cut_now { kept.saturating_sub(cut_now).min(*len) } else { 0 };
        (*len, *cut) = (known - cut_now, cut_now);
        let changed = memo.known().get(cut_now + kept..).unwrap_or(&[]);
        for (place, known) in places.iter_mut().skip(kept).zip(changed) {
            *place = NativeFrame::of(known);
        }
        kept
    }

    /// The memo, with this stack; `None` when the stack cannot be memoised.
    fn capture(&mut self, session: &Session, max_depth: usize) -> Option<&mut Memo> {
        let memo = self.memo.as_deref_mut()?;
        if !self.is_captured {
            self.is_captured = true;
            memo.capture(session, self.entry.into(), max_depth);
        }
        (!memo.known().is_empty()).then_some(memo)
    }

    /// Calls `act` with each frame of a full walk, the innermost first.
    fn walk(&mut self, session: &Session, max_depth: usize, act: &mut dyn FnMut(NativeFrame)) {
        self.with_own(|own, entry| walk_frames(session, own, entry, max_depth, act));
    }

    /// Calls `act` with the bounds of the thread's own stack.
    fn with_own<T>(&mut self, act: impl FnOnce(&mut OwnStack, &Entry) -> T) -> T {
        match self.memo.as_deref_mut() {
            Some(memo) => act(memo.own(), self.entry),
            None => act(&mut OwnStack::default(), self.entry),
        }
    }
}

/// Most frames of a stack that are recorded.
fn max_depth(session: &Session) -> usize {
    (session.control.depth() as usize).clamp(1, MAX_DEPTH)
}

/// Calls `act` with each frame of a full walk, the innermost first.
fn walk_frames(
    session: &Session,
    own: &mut OwnStack,
    entry: &Entry,
    max_depth: usize,
    act: &mut dyn FnMut(NativeFrame),
) {
    let rules = Rules::of(session, session.unwind.modules.generation());
    let mut stack = own.window(entry.sp);
    let mut state: State = entry.into();
    for _ in 0..max_depth {
        let rule = rules.rule(state.code());
        act(NativeFrame::new(&state, rule));
        match step(&state, rule, &mut stack) {
            Step::Caller(caller) if caller.pc != 0 => state = caller,
            Step::Caller(_) | Step::End | Step::Broken => return,
        }
    }
}

/// Registers that a function keeps for its caller.
pub(crate) const KEPT_REGISTERS: usize = machine::CALLEE_SAVED.len();

/// Writes to `places` where a frame, whose part of the stack ends at `end`, has saved registers of
/// its caller. Returns the bytes of the function's code; 0 when that is not known.
pub(crate) fn find_saved(frame: &NativeFrame, end: u64, places: &mut [u64; KEPT_REGISTERS]) -> u64 {
    let saves = Image::find(frame.code).and_then(|image| eh_frame::saves_at(&image, frame.code));
    let Some((saves, bytes)) = saves else { return 0 };
    for (words, place) in saves.iter().zip(places).filter(|(words, _)| **words != 0) {
        let saved = end.wrapping_sub(u64::from(*words) * 8);
        if (frame.sp..end).contains(&saved) && saved.is_multiple_of(8) {
            *place = saved;
        }
    }
    bytes
}

/// Calls `act` with each word of the calling thread's stack from `start` to `end`, and its address;
/// nothing when they are not on the stack that the thread was started with.
pub(crate) fn visit_words(own: &OwnStack, start: u64, end: u64, act: &mut dyn FnMut(u64, u64)) {
    if own.contains(start) && own.contains(end.wrapping_sub(8)) {
        for address in (start..end).step_by(8) {
            // SAFETY: between the stack pointer and the end of the thread's own stack.
            act(address, unsafe { load(address) });
        }
    }
}
