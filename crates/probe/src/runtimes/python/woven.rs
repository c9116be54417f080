//! Puts the frames of the interpreter between the native frames that run them.
//!
//! Every running eval loop has a struct of its own on the C stack: the entry frame that ends its
//! part of the interpreter's stack (3.12 on), or its C frame (3.10, 3.11). The native frame whose
//! part of the stack holds that address is the eval loop's. In 3.8 and 3.9 each frame has an eval
//! loop of its own, a native frame in `_PyEval_EvalFrameDefault`.

use super::Interpreter;
use super::memo::{DEPTH, Known, Memo, mixed};
use crate::hooks;
use crate::session::Session;
use crate::sites::stack_tree;
use crate::sites::tallies::{CachedTally, TallyRef};
use crate::unwind::{self, Entry, NativeFrame};

/// Cached stacks, as a power of two.
const BITS: u32 = 11;
/// Most frames of a woven stack.
const MOST: usize = 2 * DEPTH;
/// In the place of the hash of the interpreter's frames where there are none.
const NO_FRAMES: u64 = 0;

/// A stack of native frames and frames of the interpreter.
#[derive(Clone, Copy)]
struct Cached {
    /// Of both, see [`key`].
    key: u64,
    /// The calling thread's tally of the stack, where every block is recorded.
    tally: CachedTally,
    node: u32,
}

const NOTHING: Cached = Cached { key: 0, tally: CachedTally::NONE, node: 0 };

/// A frame in the form that the stack tree stores.
#[derive(Clone, Copy)]
struct Frame {
    place: u64,
    module: u32,
}

/// Woven stacks of a thread. Zeroed memory is valid: none.
pub(super) struct Woven {
    cached: [Cached; 1 << BITS],
    /// The key of the last stack.
    last: u64,
    /// The session's generation that the cached stacks belong to.
    generation: u64,
    /// The stack that is woven, the innermost frame first.
    frames: [Frame; MOST],
}

/// The key of the calling thread's stack in the cache, when `native` is the node of its native
/// frames. A stack without readable frames of the interpreter has a key of its own.
#[inline(always)]
fn key(session: &Session, interpreter: &Interpreter, memo: &mut Memo, native: u32) -> u64 {
    let hash = memo.capture(session, interpreter).unwrap_or(NO_FRAMES);
    mixed(hash, u64::from(native)).max(1)
}

fn slot(key: u64) -> usize {
    (key >> (64 - BITS)) as usize
}

/// The calling thread's tally of a stack, if it is cached.
#[inline(always)]
pub(crate) fn cached_tally<'m>(
    session: &Session,
    interpreter: &Interpreter,
    memo: &'m mut Memo,
    native: u32,
) -> Option<&'m CachedTally> {
    let key = key(session, interpreter, memo, native);
    let cached = memo.woven.cached.get(slot(key))?;
    (cached.key == key).then_some(&cached.tally)
}

/// The node of the whole stack, when `native` is the node of its native frames.
pub(crate) fn weave(
    session: &Session,
    interpreter: &Interpreter,
    memo: &mut Memo,
    native: u32,
    entry: &Entry,
) -> u32 {
    interpreter.notice_phase(session);
    let key = key(session, interpreter, memo, native);
    memo.woven.last = key;
    if let Some(cached) = memo.woven.cached.get(slot(key)).filter(|cached| cached.key == key) {
        return cached.node;
    }
    let node = match memo.frames() {
        [] => native,
        _ => {
            let len = collect(session, interpreter, memo, entry);
            intern(session, memo.woven.frames.get(..len).unwrap_or(&[]))
        }
    };
    if let Some(cached) = memo.woven.cached.get_mut(slot(key)) {
        *cached = Cached { key, tally: CachedTally::NONE, node };
    }
    node
}

impl Memo {
    /// Caches the tally of the last stack, in which a block of `size` bytes was counted.
    pub(crate) fn cache_tally(&mut self, session: &Session, tally: TallyRef, size: u64) {
        let Woven { cached, last, .. } = &mut self.woven;
        if let Some(cached) = cached.get_mut(slot(*last)).filter(|cached| cached.key == *last) {
            cached.tally.widen(session, tally, size);
        }
    }

    /// Drops the cached stacks of another generation: something changed that nodes or tallies
    /// depend on. A thread that continues with the state of an ended one keeps them.
    pub(crate) fn validate_cached(&mut self, generation: u64) {
        if self.woven.generation != generation {
            self.woven.cached.fill(NOTHING);
            self.woven.generation = generation;
        }
    }
}

fn intern(session: &Session, frames: &[Frame]) -> u32 {
    let child = |node, frame: &Frame| stack_tree::child(session, node, frame.place, frame.module);
    let node = frames.iter().rev().try_fold(stack_tree::ROOT, child);
    node.unwrap_or(stack_tree::OUT_OF_STACKS)
}

/// Writes the woven stack to the memo's buffer; how many frames it has.
fn collect(session: &Session, interpreter: &Interpreter, memo: &mut Memo, entry: &Entry) -> usize {
    let mut weaver = Weaver { interpreter, len: 0, next: memo.frames().len(), mark: 0, pending: None };
    weaver.find_first_mark(memo);
    let mut own_stack = memo.own_stack;
    unwind::visit(session, &mut own_stack, entry, session.control.depth(), &mut |frame| {
        weaver.native(memo, frame);
    });
    memo.own_stack = own_stack;
    weaver.finish(memo);
    weaver.len
}

/// The state of a weave: frames are put from the innermost outwards.
struct Weaver<'a> {
    interpreter: &'a Interpreter,
    /// Frames put.
    len: usize,
    /// Frames of the interpreter that are not put yet: the outermost ones.
    next: usize,
    /// The C frame of the next part of the interpreter's stack (3.10, 3.11).
    mark: u64,
    /// A native frame whose caller is not known yet.
    pending: Option<NativeFrame>,
}

impl Weaver<'_> {
    fn find_first_mark(&mut self, memo: &mut Memo) {
        if self.interpreter.layout.c_frame != 0 {
            self.mark = self.interpreter.c_frame(memo).unwrap_or(0);
        }
    }

    /// The next native frame, outwards.
    fn native(&mut self, memo: &mut Memo, frame: NativeFrame) {
        if let Some(inner) = self.pending.replace(frame) {
            self.put_native(memo, inner, frame.sp);
        }
    }

    /// Puts the frames that are left: a native stack that was cut ends before them.
    fn finish(&mut self, memo: &mut Memo) {
        if let Some(outermost) = self.pending.take() {
            self.put_native(memo, outermost, u64::MAX);
        }
        while self.next > 0 {
            self.put_part(memo);
        }
    }

    /// Puts a native frame, whose part of the stack ends at `end`, after the parts of the
    /// interpreter's stack that it runs.
    fn put_native(&mut self, memo: &mut Memo, frame: NativeFrame, end: u64) {
        match self.interpreter.eval_loop.as_ref() {
            Some(code) => {
                if code.contains(&frame.code) && self.next > 0 {
                    self.put_part(memo);
                }
            }
            None => {
                while self.next > 0 && (frame.sp..end).contains(&self.next_mark(memo)) {
                    self.put_part(memo);
                }
            }
        }
        // The functions of a wrapped domain.
        if !hooks::is_own_code(frame.code) {
            self.put(memo, Frame { place: frame.place, module: frame.module });
        }
    }

    /// The address on the C stack that belongs to the next part.
    fn next_mark(&self, memo: &Memo) -> u64 {
        if self.interpreter.layout.c_frame != 0 {
            return self.mark;
        }
        let left = memo.frames().get(..self.next).unwrap_or(&[]);
        left.iter().rev().find(|known| known.is_entry).map_or(0, |known| known.frame)
    }

    /// Puts the next part of the interpreter's stack: the frames up to the start of an eval loop.
    fn put_part(&mut self, memo: &mut Memo) {
        while let Some(index) = self.next.checked_sub(1) {
            self.next = index;
            let Some(Known { place, is_entry, .. }) = memo.frames().get(index).copied() else { break };
            if place != 0 {
                self.put(memo, Frame { place, module: 0 });
            }
            if is_entry {
                break;
            }
        }
        if self.mark != 0 {
            let outer = self.mark + u64::from(self.interpreter.layout.c_frame_previous);
            self.mark = memo.read(outer).unwrap_or(0);
        }
    }

    fn put(&mut self, memo: &mut Memo, frame: Frame) {
        if let Some(place) = memo.woven.frames.get_mut(self.len) {
            *place = frame;
            self.len += 1;
        }
    }
}
