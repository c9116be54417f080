//! The unwinder: from the registers at a hook's entry to a node of the stack tree.
//!
//! ```text
//! Entry ─► State ─► rule_cache ──miss──► modules::Image ─► eh_frame ─► cfi ─► Rule
//!            ▲          │ Rule
//!            └── step ◄─┘   reads ≤ 3 words of the stack, never faults
//!                │ End, Broken
//!                ▼
//!          stack_tree::child, root to leaf ─► Captured
//! ```
//!
//! It takes no lock, allocates nothing, patches nothing, and is safe in a signal handler. What it
//! cannot follow with certainty ends the stack and is reported as broken: nothing is guessed.
#![allow(unsafe_code)]

mod cfi;
mod checks;
mod eh_frame;
mod expression;
mod memo;
pub(crate) mod modules;
mod native_id;
mod paranoia;
mod rule;
mod rule_cache;
mod scratch;
mod stack;
mod stack_cache;
mod step;
mod visit;
mod walk;

#[cfg(target_arch = "aarch64")]
#[path = "aarch64.rs"]
mod machine;
#[cfg(target_arch = "x86_64")]
#[path = "x86_64.rs"]
mod machine;

pub(crate) use machine::thread_pointer;
pub(crate) use memo::Memo;
pub(crate) use native_id::{NativeId, mixed};
pub(crate) use rule::MODULE_LIMIT;
pub(crate) use stack::{OwnStack, is_readable};
pub(crate) use stack_cache::{CachedStack, StackCache, StackPlace};
pub(crate) use visit::{KEPT_REGISTERS, NativeFrame, NativeFrames, NativeStack, find_saved, visit_words};

use heapwise_format::segment::Control;

use crate::atomics::{AtomicBool, Ordering::Relaxed};
use crate::session::Session;
use crate::sites::stack_tree;
use crate::sites::tallies::TallyRef;
use modules::Modules;
use rule_cache::{RuleCache, Rules};
use scratch::ScratchFrames;
use step::State;

/// Deepest stack that is recorded.
pub(crate) const MAX_DEPTH: usize = Control::MAX_DEPTH as usize;

/// Walks tried when the module generation changes in the middle: one that came across a replaced
/// module may have used rules of the old one.
const ATTEMPTS: u32 = 3;

/// The caller's registers at a hook's entry.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct Entry {
    /// Where the hook will return to: the word at the stack pointer, or the unmodified link
    /// register.
    pub(crate) pc: u64,
    /// The caller's stack pointer after the hook has returned.
    pub(crate) sp: u64,
    /// The frame-pointer register, untouched since the entry.
    pub(crate) fp: u64,
}

impl From<&Entry> for State {
    #[inline(always)]
    fn from(entry: &Entry) -> State {
        // Word by word: the stub has just stored them so (see `memo::Fresh::read`).
        // SAFETY: references can be read.
        unsafe {
            State {
                pc: (&raw const entry.pc).read_volatile(),
                sp: (&raw const entry.sp).read_volatile(),
                fp: (&raw const entry.fp).read_volatile(),
                context: 0,
            }
        }
    }
}

/// A captured stack: `Name` is a node, or a [`NativeId`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Captured<Name = u32> {
    /// Its name; node 0 for the empty stack.
    pub(crate) name: Name,
    /// The depth limit cut it: only the youngest frames are there.
    pub(crate) truncated: bool,
    /// The stack ends in code without usable unwind information, or passes through such code.
    pub(crate) broken: bool,
}

impl Captured {
    /// A stack for which the tree has no room.
    fn out_of_space() -> Captured {
        Captured { name: stack_tree::OUT_OF_STACKS, truncated: false, broken: false }
    }

    fn with_id(self) -> Captured<NativeId> {
        let Captured { name, truncated, broken } = self;
        Captured { name: NativeId::of_node(name), truncated, broken }
    }
}

/// Captures by a full walk. May run in a signal handler, also one that interrupted a capture; then
/// `own` must not be the interrupted thread state's, but a fresh one.
pub(crate) fn capture_plain(
    session: &Session,
    own: &mut OwnStack,
    entry: &Entry,
    max_depth: u32,
) -> Captured {
    let Unwind { modules, scratch, .. } = &session.unwind;
    let max_depth = (max_depth as usize).clamp(1, MAX_DEPTH);
    let captured = scratch.with_frames(|frames| {
        let mut walk = walk::Walk::default();
        for _ in 0..ATTEMPTS {
            let generation = modules.generation();
            let mut stack = own.window(entry.sp);
            let rules = Rules::of(session, generation);
            walk = walk::walk(entry.into(), &mut stack, rules, max_depth, frames);
            if modules.generation() == generation {
                break;
            }
        }
        walk.intern(session, frames)
    });
    captured.unwrap_or(Captured { name: stack_tree::ROOT, truncated: false, broken: true })
}

/// Captures, unwinding only what changed since the last call with this memo.
#[inline(never)]
pub(crate) fn capture(
    session: &Session,
    memo: &mut Memo,
    entry: &Entry,
    max_depth: u32,
) -> Captured<NativeId> {
    let captured = memo_capture(session, memo, entry, max_depth);
    if session.unwind.is_paranoid() {
        compare(session, captured, capture_plain(session, memo.own(), entry, max_depth));
    }
    captured
}

/// Compares a memoised stack, which has a node in paranoid mode, with a full walk.
#[cold]
fn compare(session: &Session, Captured { name, truncated, broken }: Captured<NativeId>, walked: Captured) {
    if let Some(name) = name.node() {
        paranoia::compare(session, Captured { name, truncated, broken }, walked);
    }
}

/// The cached stack at `entry`. In paranoid mode nothing is found, but what would have been is
/// compared with a full walk.
#[inline(always)]
pub(crate) fn find_cached<'c>(
    session: &Session,
    cache: &'c mut StackCache,
    memo: &mut Memo,
    entry: Entry,
    max_depth: u32,
) -> Option<&'c CachedStack> {
    if session.unwind.is_paranoid() {
        compare_cached(session, cache, memo, entry, max_depth);
    }
    cache.find(entry)
}

#[cold]
#[inline(never)]
fn compare_cached(session: &Session, cache: &mut StackCache, memo: &mut Memo, entry: Entry, max_depth: u32) {
    memo.validate(cache);
    // Modules or depth may have changed since the stack was admitted.
    if !memo.is_of(session.unwind.modules.generation(), (max_depth as usize).clamp(1, MAX_DEPTH)) {
        return;
    }
    if let Some(name) = cache.find_paranoid(entry).map(CachedStack::id) {
        let walked = capture_plain(session, memo.own(), &entry, max_depth);
        // An entry does not keep whether its stack was broken.
        let cached = Captured { name, truncated: false, broken: walked.broken };
        compare(session, cached, walked);
    }
}

/// Admits the stack that was captured last to the cache, with the thread's tally of it, if it was
/// captured before.
#[inline(always)]
pub(crate) fn cache_last(
    session: &Session,
    cache: &mut StackCache,
    memo: &mut Memo,
    id: NativeId,
    tally: Option<TallyRef>,
) {
    memo.validate(cache);
    if cache.should_admit(id, memo.words()) {
        memo.admit_to(session, cache, id, tally);
    }
}

#[inline(always)]
fn memo_capture(session: &Session, memo: &mut Memo, entry: &Entry, max_depth: u32) -> Captured<NativeId> {
    let depth = (max_depth as usize).clamp(1, MAX_DEPTH);
    match memo.capture(session, entry.into(), depth) {
        Some(captured) => captured,
        None => capture_plain(session, memo.own(), entry, max_depth).with_id(),
    }
}

/// The unwinder of a session. Zeroed memory is valid: no modules, no rules.
pub(crate) struct Unwind {
    /// Whether every memoised stack is compared with a full walk.
    is_paranoid: AtomicBool,
    /// Whether memoised stacks are named by their hashes.
    names_by_hash: AtomicBool,
    pub(crate) modules: Modules,
    rules: RuleCache,
    scratch: ScratchFrames,
}

impl Unwind {
    /// Compares every memoised stack with a full walk from now on, and aborts on a difference; or
    /// no longer.
    pub(crate) fn set_paranoid(&self, paranoid: bool) {
        self.is_paranoid.store(paranoid, Relaxed);
    }

    #[inline(always)]
    fn is_paranoid(&self) -> bool {
        self.is_paranoid.load(Relaxed)
    }

    /// Names memoised stacks by their hashes from now on: frames of a runtime are put between
    /// theirs.
    pub(crate) fn name_by_hash(&self) {
        self.names_by_hash.store(true, Relaxed);
    }

    #[inline(always)]
    pub(crate) fn names_by_hash(&self) -> bool {
        self.names_by_hash.load(Relaxed) && !self.is_paranoid()
    }

    /// Unmaps the rules. No thread may use them afterwards.
    pub(crate) fn release(&self) {
        self.rules.release();
    }
}
