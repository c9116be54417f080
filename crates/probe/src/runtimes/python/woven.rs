//! Puts the frames of the interpreter between the native frames that run them.
//!
//! Every running eval loop has a struct of its own on the C stack: the entry frame that ends its
//! part of the interpreter's stack (3.12 on), or its C frame (3.10, 3.11). The native frame whose
//! part of the stack holds that address is the eval loop's. In 3.8 and 3.9 each frame has an eval
//! loop of its own, a native frame in `_PyEval_EvalFrameDefault`.

use super::Interpreter;
use super::memo::{Known, Memo};
use crate::hooks;
use crate::runtimes::woven::{self, Frame};
use crate::session::Session;
use crate::sites::tallies::CachedTally;
use crate::unwind::{self, Entry, NativeFrame};

/// The key of the calling thread's stack in the cache, when `native` is the node of its native
/// frames. A stack without readable frames of the interpreter has a key of its own.
#[inline(always)]
fn key(session: &Session, interpreter: &Interpreter, memo: &mut Memo, native: u32) -> u64 {
    woven::key(memo.capture(session, interpreter), native)
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
    memo.woven.tally(key)
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
    if let Some(node) = memo.woven.find(key) {
        return node;
    }
    if memo.frames().is_empty() {
        return memo.woven.insert(key, native);
    }
    collect(session, interpreter, memo, entry);
    memo.woven.intern(session, key)
}

/// Writes the woven stack to the memo's buffer.
fn collect(session: &Session, interpreter: &Interpreter, memo: &mut Memo, entry: &Entry) {
    memo.woven.clear();
    let mut weaver = Weaver { interpreter, next: memo.frames().len(), mark: 0, pending: None };
    weaver.find_first_mark(memo);
    let mut own_stack = memo.own_stack;
    unwind::visit(session, &mut own_stack, entry, session.control.depth(), &mut |frame| {
        weaver.native(memo, frame);
    });
    memo.own_stack = own_stack;
    weaver.finish(memo);
}

/// The state of a weave: frames are put from the innermost outwards.
struct Weaver<'a> {
    interpreter: &'a Interpreter,
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
            memo.woven.put(Frame { place: frame.place, module: frame.module });
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
                memo.woven.put(Frame { place, module: 0 });
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
}
