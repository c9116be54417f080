//! Lua: frames of Lua functions in the stacks of every block.
//!
//! ```text
//! find ─► Engine (offsets, code)
//! running ─► states that the thread runs ─► memo ─► calls ─► functions (file, function, line)
//!                                             └─► woven: frames between the native ones
//! ```
//!
//! Lua's allocator gets no state, so the states that a thread runs are found on its C stack. Each
//! protected call, and each resumed coroutine, has a struct there, which the state points to:
//! see [`running`]. A process may have several Lua: each binary that contains one has an
//! [`Engine`], and each state belongs to the one whose code has its address in a frame.
#![allow(unsafe_code)]

mod calls;
mod find;
pub(super) mod functions;
mod layout;
mod memo;
mod program_counter;
mod running;
mod woven;

use core::ops::Range;

use heapwise_format::segment::Runtime;

pub(super) use memo::Memo;
pub(super) use woven::{cached_tally, weave};

use super::Other;
use crate::atomics::{AtomicPtr, AtomicU64, Ordering};
use crate::modules::Image;
use crate::session::Session;
use crate::sys;
use layout::Layout;

/// A Lua of the process, from when it was found.
pub(crate) struct Engine {
    layout: Layout,
    /// Code of the binary that has it.
    code: Range<u64>,
}

/// Most Lua binaries of a process that are followed.
const MOST: usize = 4;

/// The Lua of the process, in the order in which they were found.
static ENGINES: [AtomicPtr<Engine>; MOST] = [const { AtomicPtr::new(core::ptr::null_mut()) }; MOST];
/// The first that was found, as an encoded [`Runtime`]; 0 until one was found.
static RUNTIME: AtomicU64 = AtomicU64::new(0);

/// The engine with a number, from 0.
#[inline(always)]
fn engine(number: usize) -> Option<&'static Engine> {
    // SAFETY: null, or published by `publish`, and never unmapped.
    unsafe { ENGINES.get(number)?.load(Ordering::Acquire).as_ref() }
}

/// The engine whose binary has the code at an address, and its number.
fn engine_at(code: u64) -> Option<(usize, &'static Engine)> {
    (0..MOST)
        .map_while(|number| Some((number, engine(number)?)))
        .find(|(_, engine)| engine.code.contains(&code))
}

/// The encoded [`Runtime`]; 0 when there is none, or when the program declares frames itself.
pub(super) fn description(session: &Session) -> u64 {
    if session.provider.is_set() { 0 } else { RUNTIME.load(Ordering::Relaxed) }
}

/// A stack passes through a binary that was not seen before: it may contain Lua. Threads that meet
/// it at the same time each search it, so that none captures a stack before Lua is known.
pub(super) fn consider(session: &Session, image: &Image) {
    let Some(lua) = find::find(image) else { return };
    let word = Runtime::encode(lua.runtime);
    let Some(engine) = lua.engine else {
        if RUNTIME.compare_exchange(0, word, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
            super::describe(session);
        }
        return;
    };
    let is_new = publish(engine);
    // The first that is followed is described, rather than one that is not.
    if !Other::Lua.is_present() {
        RUNTIME.store(word, Ordering::Release);
    }
    Other::Lua.add();
    if is_new {
        super::found(session);
    }
}

/// Stores an engine; false when its binary has one already, or when there are too many.
fn publish(engine: Engine) -> bool {
    let Ok(memory) = sys::map_private(size_of::<Engine>()) else { return false };
    let memory = memory.cast::<Engine>();
    let code = engine.code.clone();
    // SAFETY: fresh memory of that size, aligned to a page.
    unsafe { memory.write(engine) };
    for place in &ENGINES {
        let empty = core::ptr::null_mut();
        match place.compare_exchange(empty, memory, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => return true,
            // SAFETY: published, and never unmapped.
            Err(other) if unsafe { (*other).code == code } => break,
            Err(_) => {}
        }
    }
    // SAFETY: mapped above, and not published.
    unsafe { sys::unmap(memory.cast(), size_of::<Engine>()) };
    false
}
