//! Ruby: frames of Ruby methods and blocks in stacks.
//!
//! ```text
//! find ─► functions of Ruby's profiling interface
//! rb_profile_frames ─► methods and lines ─► texts (file, method)
//! ```
//!
//! The frames are those of `rb_profile_frames`, which exists for profilers: it takes no lock and
//! allocates nothing. It is called where the calling thread has a Ruby stack and Ruby's lock, and
//! no garbage collection runs. It names the method around a block or evaluated code, so the code
//! itself is read from the control frames. Ruby's objects are in pages that it divides itself;
//! those pages, and the blocks that objects have beside their slots, are recorded.
#![allow(unsafe_code)]

mod find;
mod texts;

use core::ffi::c_int;

use heapwise_format::segment::{NodePlace, Runtime, RuntimeSupport};

use super::Other;
use super::by_address::{Marked, Weaving};
use super::memory::Pages;
use super::names::{self, Names};
use super::stack_reader::StackReader;
use super::woven::{self, DEPTH};
use crate::atomics::{AtomicPtr, AtomicU64, Ordering};
use crate::declared_frames;
use crate::modules::Image;
use crate::session::Session;
use crate::sys;
use crate::unwind::{self, KEPT_REGISTERS, NativeFrame, NativeStack};
use find::{Interface, Value};

/// Least bytes of the code of the interpreter's loop. It has 40 KiB; few other functions of Ruby
/// have so much.
const LOOP_BYTES: u64 = 16 << 10;

/// The interface of the process's Ruby, once it was found.
static INTERFACE: AtomicPtr<Interface> = AtomicPtr::new(core::ptr::null_mut());
/// An encoded [`Runtime`]; 0 until one was found.
static RUNTIME: AtomicU64 = AtomicU64::new(0);

fn interface() -> Option<&'static Interface> {
    // SAFETY: null, or published by `consider`, and never unmapped.
    unsafe { INTERFACE.load(Ordering::Acquire).as_ref() }
}

/// The encoded [`Runtime`]; 0: none.
pub(super) fn description() -> u64 {
    RUNTIME.load(Ordering::Relaxed)
}

/// A stack passes through a binary that was not seen before: it may contain Ruby. The first one
/// stays.
pub(super) fn consider(session: &Session, image: &Image) {
    let Some((runtime, found)) = find::find(image) else { return };
    if runtime.support == RuntimeSupport::LinesOnly
        && let Ok(memory) = sys::map_private(size_of::<Interface>())
    {
        let memory = memory.cast::<Interface>();
        // SAFETY: fresh memory of that size, aligned to a page.
        unsafe { memory.write(found) };
        let empty = core::ptr::null_mut();
        if INTERFACE.compare_exchange(empty, memory, Ordering::AcqRel, Ordering::Relaxed).is_err() {
            // SAFETY: mapped above, and not published.
            unsafe { sys::unmap(memory.cast(), size_of::<Interface>()) };
        }
        Other::Ruby.add();
    }
    if RUNTIME.compare_exchange(0, Runtime::encode(runtime), Ordering::AcqRel, Ordering::Relaxed).is_ok() {
        super::found(session);
    }
}

/// What is known of a thread's Ruby stack. Zeroed memory is valid: nothing.
pub(super) struct Memo {
    pub(super) reader: StackReader,
    values: [Value; DEPTH],
    lines: [c_int; DEPTH],
    /// Encoded [`NodePlace`]s of the last stack, the innermost frame first.
    places: [u64; DEPTH],
    len: usize,
    loops: Loops,
}

/// Code addresses whose functions were measured, as a power of two.
const LOOPS_BITS: u32 = 8;

/// Which addresses are in a loop of the interpreter, where that was found out. Zeroed memory is
/// valid: not known of any.
struct Loops([MeasuredCode; 1 << LOOPS_BITS]);

#[derive(Clone, Copy)]
struct MeasuredCode {
    code: u64,
    is_loop: bool,
}

impl Loops {
    /// Whether a frame, whose part of the stack ends at `end`, runs a loop of the interpreter.
    fn has(&mut self, frame: &NativeFrame, end: u64) -> bool {
        let measure = || unwind::find_saved(frame, end, &mut [0; KEPT_REGISTERS]) >= LOOP_BYTES;
        let slot = (frame.code as u32).wrapping_mul(0x9e37_79b1) >> (32 - LOOPS_BITS);
        let Some(known) = self.0.get_mut(slot as usize) else { return measure() };
        if known.code != frame.code {
            *known = MeasuredCode { code: frame.code, is_loop: measure() };
        }
        known.is_loop
    }
}

impl Memo {
    /// Reads the stack of the calling thread; its hash, or `None` when it has none.
    fn capture(&mut self, session: &Session, ruby: &Interface) -> Option<u64> {
        self.len = 0;
        let Memo { reader: StackReader { pages, names, .. }, values, lines, places, len, .. } = self;
        pages.validate(super::generation());
        let mut control_frames = ruby.control_frames(pages)?;
        let count = ruby.frames(values, lines);
        let mut hash = 0;
        for (value, line) in values.iter().zip(lines).take(count) {
            // A method in C, which has no file.
            if !texts::is_string(pages, ruby.path_of(*value)) {
                continue;
            }
            let code = control_frames.next(pages)?;
            // The frames under the main program have no line.
            let Some(line) = u32::try_from(*line).ok().filter(|line| *line != 0) else { continue };
            let string = string(session, ruby, pages, names, code)?;
            let place = NodePlace::Declared { string, line }.encode();
            hash = woven::mixed(hash, place);
            if let Some(to) = places.get_mut(*len) {
                *to = place;
                *len += 1;
            }
        }
        (*len > 0).then_some(hash)
    }
}

/// The name of a piece of code and its file, in the segment.
fn string(
    session: &Session,
    ruby: &Interface,
    pages: &mut Pages,
    names: &mut Names,
    code: Value,
) -> Option<u32> {
    let path = texts::read(ruby, pages, ruby.path_of(code))?;
    let label = texts::read(ruby, pages, ruby.label_of(code))?;
    let hash = names::hash(names::hash(0, path), label);
    Some(names.find_or_intern(hash, || declared_frames::intern_bytes(session, label, path)))
}

/// Puts Ruby's frames into a stack.
pub(super) fn weave(memo: &mut Memo, weaving: &mut Weaving<'_, '_>) {
    let Some(ruby) = interface() else { return };
    let hash = memo.capture(weaving.session, ruby);
    let Memo { places, len, loops, .. } = memo;
    weaving.put(hash, |weaving| {
        let mark = innermost_loop(weaving.session, ruby, loops, weaving.stack);
        let places = places.get(..*len).unwrap_or(&[]).iter().rev();
        places.map(move |place| Marked { place: *place, mark })
    });
}

/// The address on the C stack of the innermost loop of the interpreter, in which all frames are
/// put; 0 when none is found.
fn innermost_loop(
    session: &Session,
    ruby: &Interface,
    loops: &mut Loops,
    stack: &mut NativeStack<'_>,
) -> u64 {
    let mut found = 0;
    let mut inner: Option<NativeFrame> = None;
    stack.visit(session, &mut |frame| {
        if let Some(inner) = inner.replace(frame)
            && found == 0
            && ruby.code.contains(&inner.code)
            && loops.has(&inner, frame.sp)
        {
            found = inner.sp;
        }
    });
    found
}
