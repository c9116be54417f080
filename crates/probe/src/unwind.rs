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
//! It takes no lock, allocates nothing, patches nothing, and is safe in a signal handler. What it cannot
//! follow with certainty ends the stack and is reported as broken: nothing is guessed.
#![allow(unsafe_code)]

mod cfi;
mod checks;
mod eh_frame;
mod expression;
mod familiar;
mod memo;
mod paranoia;
mod rule;
mod rule_cache;
mod scratch;
mod stack;
mod step;
mod suffix;
mod walk;

#[cfg(target_arch = "aarch64")]
#[path = "unwind/aarch64.rs"]
mod machine;
#[cfg(target_arch = "x86_64")]
#[path = "unwind/x86_64.rs"]
mod machine;

pub(crate) use memo::Memo;
pub(crate) use rule::MODULE_LIMIT;
pub(crate) use rule_cache::forget_rules_on_wrap;
pub(crate) use stack::OwnStack;

use heapwise_format::segment::Control;

use crate::atomics::{AtomicBool, Ordering::Relaxed};
use crate::modules;
use step::State;

/// Deepest stack that is recorded.
const MAX_DEPTH: usize = Control::MAX_DEPTH as usize;

/// Walks tried when the module generation changes in the middle: one that came across a replaced module
/// may have used rules of the old one.
const ATTEMPTS: u32 = 3;

/// The caller's registers at a hook's entry.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct Entry {
    /// Where the hook will return to: the word at the stack pointer, or the link register as it is.
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

/// A captured stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Captured {
    /// Its node; 0 for the empty stack.
    pub(crate) node: u32,
    /// The depth limit cut it: only the youngest frames are there.
    pub(crate) truncated: bool,
    /// It ends where there is no usable unwind information, or passed through such code.
    pub(crate) broken: bool,
}

/// Captures by a full walk. May run in a signal handler, also one that interrupted a capture; then
/// `own` must not be the interrupted thread state's, but a fresh one.
pub(crate) fn capture_plain(own: &mut OwnStack, entry: &Entry, max_depth: u32) -> Captured {
    let max_depth = (max_depth as usize).clamp(1, MAX_DEPTH);
    let captured = scratch::with_frames(|frames| {
        let mut walk = walk::Walk::default();
        for _ in 0..ATTEMPTS {
            let generation = modules::generation();
            let mut stack = own.window(entry.sp);
            walk = walk::walk(entry.into(), &mut stack, generation, max_depth, frames);
            if modules::generation() == generation {
                break;
            }
        }
        walk.intern(frames)
    });
    captured.unwrap_or(Captured { node: 0, truncated: false, broken: true })
}

/// The node of the calling stack, if it is a familiar one. Never while stacks are compared.
#[inline(always)]
pub(crate) fn familiar(memo: &Memo, entry: Entry) -> Option<u32> {
    memo.familiar(entry)
}

/// Captures, unwinding only what changed since the last call with this memo.
#[inline(never)]
pub(crate) fn capture(memo: &mut Memo, entry: &Entry, max_depth: u32) -> Captured {
    if is_paranoid() {
        return capture_compared(memo, entry, max_depth);
    }
    memo_capture(memo, entry, max_depth)
}

#[inline(always)]
fn memo_capture(memo: &mut Memo, entry: &Entry, max_depth: u32) -> Captured {
    let depth = (max_depth as usize).clamp(1, MAX_DEPTH);
    match memo.capture(entry.into(), depth) {
        Some(captured) => captured,
        None => capture_plain(memo.own(), entry, max_depth),
    }
}

/// Captures in every way there is.
#[cold]
#[inline(never)]
fn capture_compared(memo: &mut Memo, entry: &Entry, max_depth: u32) -> Captured {
    let depth = (max_depth as usize).clamp(1, MAX_DEPTH);
    let familiar = memo.familiar_compared(*entry, depth);
    let captured = memo_capture(memo, entry, max_depth);
    let plain = capture_plain(memo.own(), entry, max_depth);
    paranoia::compare(captured, plain);
    if let Some(node) = familiar {
        paranoia::compare(Captured { node, truncated: false, broken: false }, plain);
    }
    captured
}

#[inline(always)]
fn is_paranoid() -> bool {
    PARANOID.load(Relaxed)
}

/// Whether every memoised stack is compared with a full walk.
static PARANOID: AtomicBool = AtomicBool::new(false);

/// Compares every memoised stack with a full walk from now on, and aborts on a difference; or no longer.
pub(crate) fn set_paranoid(paranoid: bool) {
    PARANOID.store(paranoid, Relaxed);
}
