//! LuaJIT: frames of interpreted Lua functions in stacks.
//!
//! ```text
//! find ─► code of its binary
//! states ─► states that the thread runs ─► frames (file, function, line)
//! ```
//!
//! LuaJIT allocates its objects in arenas of its own, which it maps: they are recorded as mappings,
//! with the lines that run when they are mapped. Native libraries that a script calls allocate
//! blocks. While compiled code runs, the state's frames are not written: such a stack ends with the
//! address in the compiled code. Its stacks are not cached, because these events are rare.

mod frames;
mod states;

use core::ops::Range;

use heapwise_format::segment::{Runtime, RuntimeLanguage, RuntimeSupport};

use super::Other;
use super::by_address::{Marked, Weaving};
use super::stack_reader::StackReader;
use super::woven::{self, DEPTH};
use crate::atomics::{AtomicU64, Ordering};
use crate::modules::Image;
use crate::session::Session;
use crate::symbols;
use crate::unwind::NativeStack;
use states::States;

/// Code of the binary that has it: start and end. Both 0 until it was found.
static CODE: [AtomicU64; 2] = [AtomicU64::new(0), AtomicU64::new(0)];
/// An encoded [`Runtime`]; 0 until one was found.
static RUNTIME: AtomicU64 = AtomicU64::new(0);

/// The encoded [`Runtime`]; 0: none.
pub(super) fn description() -> u64 {
    RUNTIME.load(Ordering::Relaxed)
}

/// A stack passes through a binary that was not seen before: it may contain LuaJIT. The first one
/// stays.
pub(super) fn consider(session: &Session, image: &Image) {
    let Some((runtime, code)) = find(image) else { return };
    let is_first = RUNTIME.compare_exchange(0, runtime.encode(), Ordering::AcqRel, Ordering::Relaxed).is_ok();
    if runtime.support == RuntimeSupport::LinesOnly {
        let [start, end] = &CODE;
        if start.load(Ordering::Relaxed) == 0 {
            end.store(code.end, Ordering::Relaxed);
            start.store(code.start, Ordering::Release);
        }
        Other::LuaJit.add();
    }
    if is_first {
        super::found(session);
    }
}

/// The LuaJIT in a binary, and its code. Version 2.0 has other layouts.
fn find(image: &Image) -> Option<(Runtime, Range<u64>)> {
    let object = image.link_map()?;
    let mode = symbols::find_in(object, c"luaJIT_setmode")?;
    let code = image.code_segment(mode.address as u64)?;
    let (minor, support) = match symbols::find_in(object, c"luaJIT_profile_start") {
        Some(_) if cfg!(target_arch = "x86_64") => (1, RuntimeSupport::LinesOnly),
        Some(_) => (1, RuntimeSupport::UnknownVersion),
        None => (0, RuntimeSupport::UnknownVersion),
    };
    let runtime = Runtime { language: RuntimeLanguage::LuaJit, major: 2, minor, support };
    Some((runtime, code.start..code.end))
}

fn code() -> Range<u64> {
    let [start, end] = &CODE;
    start.load(Ordering::Acquire)..end.load(Ordering::Relaxed)
}

/// What is known of a thread's LuaJIT stack. Zeroed memory is valid: nothing.
pub(super) struct Memo {
    pub(super) reader: StackReader,
    states: States,
    /// The last stack, the innermost frame first.
    frames: [Marked; DEPTH],
    len: usize,
}

impl Memo {
    /// Reads the stack of the calling thread; its hash, or `None` when it has none.
    fn capture(&mut self, session: &Session, stack: &mut NativeStack<'_>) -> Option<u64> {
        self.len = 0;
        let Memo { reader: StackReader { own_stack, pages, names }, states, frames, len } = self;
        // Arenas may be gone, unnoticed where they are unmapped by a system call.
        pages.clear();
        if session.provider.is_set() || !own_stack.holds(stack.entry.sp) {
            return None;
        }
        states.find(session, pages, *own_stack, stack, &code());
        if states.is_compiled_code_running(pages) {
            return None;
        }
        let mut hash = 0;
        for running in states.running() {
            frames::read(session, pages, names, running, &mut |place| {
                if let Some(to) = frames.get_mut(*len) {
                    *to = Marked { place, mark: running.c_frame };
                    *len += 1;
                    hash = woven::mixed(hash, place);
                }
            });
        }
        (*len > 0).then_some(hash)
    }
}

/// Puts LuaJIT's frames into a stack.
pub(super) fn weave(memo: &mut Memo, weaving: &mut Weaving<'_, '_>) {
    let hash = memo.capture(weaving.session, weaving.stack);
    weaving.put(hash, |_| memo.frames.get(..memo.len).unwrap_or(&[]).iter().rev().copied());
}
