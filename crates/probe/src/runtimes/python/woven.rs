//! Puts the frames of the interpreter between the native frames that run them.
//!
//! Every running eval loop has a struct of its own on the C stack: the entry frame that ends its
//! part of the interpreter's stack (3.12 on), or its C frame (3.10, 3.11). The native frame whose
//! part of the stack holds that address is the eval loop's. In 3.8 and 3.9 each frame has an eval
//! loop of its own, a native frame in `_PyEval_EvalFrameDefault`.

use core::ops::Range;

use super::Interpreter;
use super::memo::{Known, Memo};
use super::positions;
use crate::hooks;
use crate::runtimes::woven::{self, DEPTH, Frame, Growing};
use crate::session::Session;
use crate::sites::tallies::TallyRef;
use crate::unwind::{
    Entry, MAX_DEPTH, NativeFrame, NativeFrames, NativeId, NativeStack, StackCache, StackPlace,
};

/// The key of the calling thread's stack in the cache. A stack without readable frames of the
/// interpreter has a key of its own.
#[inline(always)]
fn key(session: &Session, interpreter: &Interpreter, memo: &mut Memo, native: NativeId) -> u64 {
    woven::key(memo.capture(session, interpreter), native)
}

/// The calling thread's tally of the stack at `entry`, whose native frames are those of a cached
/// stack, if it is cached.
pub(crate) fn cached_tally(
    session: &Session,
    interpreter: &Interpreter,
    memo: &mut Memo,
    natives: &StackCache,
    (id, place): (NativeId, StackPlace),
    entry: Entry,
    size: usize,
) -> Option<TallyRef> {
    let key = key(session, interpreter, memo, id);
    let cached = *memo.woven.tally(key)?;
    let tally = cached.of_size(size)?;
    positions::insert(interpreter, natives, place, memo, entry, cached);
    Some(tally)
}

/// The node of the whole stack.
pub(crate) fn weave(
    session: &Session,
    interpreter: &Interpreter,
    memo: &mut Memo,
    stack: &mut NativeStack<'_>,
) -> u32 {
    interpreter.notice_phase(session);
    let key = key(session, interpreter, memo, stack.id);
    if let Some(node) = memo.woven.find(key) {
        return node;
    }
    if memo.frames().is_empty() {
        return memo.woven.insert(key, stack.node(session));
    }
    let node = intern(session, interpreter, memo, stack);
    memo.woven.insert(key, node)
}

/// A place in a woven stack, right behind a native frame.
#[derive(Clone, Copy)]
struct Point {
    /// Frames of the woven stack up to here.
    len: usize,
    /// The next frame of the interpreter.
    next: usize,
}

const BEGINNING: Point = Point { len: 0, next: 0 };

/// The stack that was woven last. Zeroed memory is valid: none.
pub(super) struct Last {
    natives: NativeFrames,
    /// For each native frame.
    points: [Point; MAX_DEPTH],
    /// For each frame of the interpreter that starts an eval loop: the loop's address on the C
    /// stack.
    marks: [u64; DEPTH],
}

/// Interns the stack: weaves only what changed since the last time.
fn intern(session: &Session, interpreter: &Interpreter, memo: &mut Memo, stack: &mut NativeStack<'_>) -> u32 {
    let kept = stack.update(session, &mut memo.last.natives);
    let kept_frames = memo.take_kept();
    let start = memo.resume(interpreter, kept, kept_frames);
    let Memo { known, len, last: Last { natives, points, marks }, woven, .. } = memo;
    let point = start.and_then(|start| points.get(start)).copied().unwrap_or(BEGINNING);
    let frames = known.get(..*len).unwrap_or(&[]);
    let mut weaver = Weaver { session, frames, marks, next: point.next, path: woven.path.start(point.len) };
    for (index, point) in points.iter_mut().enumerate().skip(start.unwrap_or(0)) {
        let Some(native) = natives.get().get(index) else { break };
        if Some(index) != start {
            weaver.put_native(native);
            *point = Point { len: weaver.path.len(), next: weaver.next };
        }
        weaver.put_parts_of(native, natives.end_of(index));
    }
    weaver.put_rest();
    weaver.path.end()
}

/// Frames are put from the outermost inwards.
struct Weaver<'a> {
    session: &'a Session,
    /// Of the interpreter.
    frames: &'a [Known],
    marks: &'a [u64],
    /// The next one of them.
    next: usize,
    path: Growing<'a>,
}

impl Weaver<'_> {
    fn put_native(&mut self, native: &NativeFrame) {
        // The functions of a wrapped domain are not part of the program.
        if !hooks::is_own_code(native.code) {
            self.path.push(self.session, Frame { place: native.place, module: native.module });
        }
    }

    /// Puts the parts of the interpreter's stack that a native frame runs, whose part of the C
    /// stack ends at `end`.
    fn put_parts_of(&mut self, native: &NativeFrame, end: u64) {
        while let Some(mark) = self.marks.get(self.next).filter(|_| self.next < self.frames.len())
            && *mark >= native.sp
            && (*mark < end || end == u64::MAX)
        {
            self.put_part();
        }
    }

    /// Puts the frames that are left.
    fn put_rest(&mut self) {
        while self.next < self.frames.len() {
            self.put_part();
        }
    }

    /// Puts the next part of the interpreter's stack: the frames up to the next start of an eval
    /// loop.
    fn put_part(&mut self) {
        loop {
            let Some(Known { place, .. }) = self.frames.get(self.next) else { return };
            if *place != 0 {
                self.path.push(self.session, Frame { place: *place, module: 0 });
            }
            self.next += 1;
            if self.frames.get(self.next).is_none_or(|frame| frame.is_entry) {
                return;
            }
        }
    }
}

impl Memo {
    /// The native frame behind which the woven stack differs from the last one, when `kept` native
    /// frames and `kept_frames` of the interpreter are the same. Finds the marks of the frames that
    /// are put from there on.
    fn resume(&mut self, interpreter: &Interpreter, kept: usize, kept_frames: usize) -> Option<usize> {
        let is_kept = |point: &Point| point.next <= kept_frames && point.len <= self.woven.path.len();
        let points = self.last.points.get(..kept).unwrap_or(&[]);
        let start = points.iter().rposition(is_kept);
        let next = start.and_then(|start| points.get(start)).map_or(0, |point| point.next);
        self.find_marks(interpreter, next);
        let end = self.last.natives.end_of(start?);
        if next < self.len && self.last.marks.get(next).is_some_and(|mark| *mark >= end) {
            // An outer native frame runs it now.
            self.find_marks(interpreter, 0);
            return None;
        }
        start
    }

    /// Finds the addresses of the eval loops of the frames from `start` on. A loop that is not
    /// found is taken for one of the outermost native frame.
    fn find_marks(&mut self, interpreter: &Interpreter, start: usize) {
        let has_c_frames = interpreter.layout.c_frame != 0;
        let mut c_frame = if has_c_frames { interpreter.c_frame(self) } else { None };
        let mut loops = self.last.natives.get().len();
        for index in (start..self.len).rev() {
            let Some(Known { frame, is_entry, .. }) = self.known.get(index).copied() else { return };
            let mark = if !is_entry {
                None
            } else if let Some(code) = &interpreter.eval_loop {
                self.last.loop_before(code, &mut loops)
            } else if has_c_frames {
                let previous = u64::from(interpreter.layout.c_frame_previous);
                let outer = c_frame.and_then(|c_frame| self.read(c_frame + previous));
                core::mem::replace(&mut c_frame, outer.filter(|outer| *outer != 0))
            } else {
                Some(frame).filter(|_| index != 0 || !self.has_base_frame())
            };
            if let Some(to) = self.last.marks.get_mut(index) {
                *to = mark.unwrap_or(u64::MAX);
            }
        }
    }

    /// Whether the outermost frame runs no function: a frame outside of the C stack that every
    /// thread state has (3.15), or an entry frame whose function has returned.
    fn has_base_frame(&self) -> bool {
        let mut frames = self.frames().iter();
        frames.next().is_some_and(|outermost| outermost.place == 0)
            && frames.next().is_none_or(|next| next.is_entry)
    }
}

impl Last {
    /// The stack pointer of the innermost native frame in `code` among the first `end`, which are
    /// those before it afterwards.
    fn loop_before(&self, code: &Range<u64>, end: &mut usize) -> Option<u64> {
        let natives = self.natives.get().get(..*end)?;
        let found = natives.iter().rposition(|native| code.contains(&native.code));
        *end = found.unwrap_or(0);
        natives.get(found?).map(|native| native.sp)
    }
}
