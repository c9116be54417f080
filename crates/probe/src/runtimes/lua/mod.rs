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
//! see [`running`].
#![allow(unsafe_code)]

mod calls;
mod find;
mod functions;
mod layout;
mod memo;
mod program_counter;
mod running;
mod woven;

use core::ops::Range;

use heapwise_format::segment::Runtime;

pub(super) use memo::Memo;
pub(super) use woven::{cached_tally, weave};

use crate::atomics::{AtomicPtr, AtomicU64, Ordering};
use crate::modules::Image;
use crate::session::Session;
use crate::sys;
use layout::Layout;

/// What is known of the process's Lua, from when it was found.
pub(crate) struct Engine {
    layout: Layout,
    /// Code of the binary that has it.
    code: Range<u64>,
}

/// The Lua of the process, once it was found.
static ENGINE: AtomicPtr<Engine> = AtomicPtr::new(core::ptr::null_mut());
/// An encoded [`Runtime`]; 0 until one was found.
static RUNTIME: AtomicU64 = AtomicU64::new(0);

/// The Lua of the process, if its stacks can be read.
#[inline(always)]
pub(crate) fn engine() -> Option<&'static Engine> {
    // SAFETY: null, or published by `consider`, and never unmapped.
    unsafe { ENGINE.load(Ordering::Acquire).as_ref() }
}

/// The encoded [`Runtime`]; 0 when there is none, or when the program declares frames itself.
pub(super) fn description(session: &Session) -> u64 {
    if session.provider.is_set() { 0 } else { RUNTIME.load(Ordering::Relaxed) }
}

/// A stack passes through a binary that was not seen before: it may contain Lua. The first one
/// stays.
pub(super) fn consider(session: &Session, image: &Image) {
    if RUNTIME.load(Ordering::Relaxed) != 0 {
        return;
    }
    let Some(lua) = find::find(image) else { return };
    let word = Runtime::encode(lua.runtime);
    if RUNTIME.compare_exchange(0, word, Ordering::AcqRel, Ordering::Relaxed).is_err() {
        return;
    }
    if let Some(engine) = lua.engine
        && let Ok(memory) = sys::map_private(size_of::<Engine>())
    {
        let memory = memory.cast::<Engine>();
        // SAFETY: fresh memory of that size, aligned to a page.
        unsafe { memory.write(engine) };
        ENGINE.store(memory, Ordering::Release);
    }
    super::found(session);
}
