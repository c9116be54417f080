//! The functions that `heapwise.h` declares.
#![allow(unsafe_code)]

use core::ffi::{c_char, c_int, c_void};

use heapwise_format::bytes::set_text;
use heapwise_format::segment::{ControlWord, Counter, Mark, SectionKind};

use crate::arch::words;
use crate::atomics::Ordering;
use crate::declared_frames::{self, DeclaredFrames, Provider, text};
use crate::fixed_text::FixedText;
use crate::threads::{Busy, Words};
use crate::{clock, control, dump, log, segment, start};

/// Enters the probe for a call of the program. A forked child gets a segment of its own first, so
/// that nothing it does reaches its parent; then pending control changes are applied. `None` when
/// the thread is inside the probe already.
pub(crate) fn enter(words: &Words) -> Option<Busy<'_>> {
    start::ensure();
    let busy = words.enter()?;
    control::poll();
    Some(busy)
}

fn set(word: ControlWord, value: u64) {
    segment::control(word).store(value, Ordering::Relaxed);
}

fn with_declared_frames(act: impl FnOnce(&mut DeclaredFrames)) {
    let words = words();
    if let Some(mut busy) = enter(words)
        && let Some(state) = words.state(&mut busy)
    {
        state.declare(act);
    }
}

/// Switches what is recorded, for the whole process.
#[cfg_attr(feature = "preload", unsafe(no_mangle))]
pub extern "C" fn heapwise_set_mode(mode: c_int, sample_bytes: u64) {
    let Some(_busy) = enter(words()) else { return };
    control::change(|| {
        set(ControlWord::Mode, mode as u64);
        if sample_bytes != 0 {
            set(ControlWord::SampleBytes, sample_bytes);
        }
    });
}

/// The mode in force, after pending control changes are applied.
#[cfg_attr(feature = "preload", unsafe(no_mangle))]
pub extern "C" fn heapwise_mode() -> c_int {
    drop(enter(words()));
    segment::counter(Counter::Mode).load(Ordering::Relaxed) as c_int
}

/// Chooses the index of exact mode.
#[cfg_attr(feature = "preload", unsafe(no_mangle))]
pub extern "C" fn heapwise_set_index(index: c_int) {
    let Some(_busy) = enter(words()) else { return };
    control::change(|| set(ControlWord::Index, index as u64));
}

/// Up to when the recording of this program is in its file.
#[cfg_attr(feature = "preload", unsafe(no_mangle))]
pub extern "C" fn heapwise_recorded_ns() -> u64 {
    let Some(_busy) = enter(words()) else { return 0 };
    segment::counter(Counter::RecordedNanos).load(Ordering::Acquire)
}

/// Starts a new counting period.
#[cfg_attr(feature = "preload", unsafe(no_mangle))]
pub extern "C" fn heapwise_reset() {
    let Some(_busy) = enter(words()) else { return };
    control::change(|| {
        segment::control(ControlWord::ResetCount).fetch_add(1, Ordering::Relaxed);
    });
}

/// Writes a heap dump; a null path takes the next automatic name. 0, or an errno.
#[cfg_attr(feature = "preload", unsafe(no_mangle))]
pub extern "C" fn heapwise_dump(path: *const c_char) -> c_int {
    let name = if path.is_null() { None } else { Some(text(&path)) };
    if dump::manual(name) { 0 } else { libc::EFAULT }
}

/// Names this moment.
#[cfg_attr(feature = "preload", unsafe(no_mangle))]
pub extern "C" fn heapwise_mark(name: *const c_char) {
    let words = words();
    let Some(mut busy) = enter(words) else { return };
    // Later events of this thread get a later time than the mark, even when the recorder's clock
    // has stopped.
    if let Some(state) = words.existing_state(&mut busy) {
        state.log.expire_tick();
    }
    let index = control::claim_mark(segment::section(SectionKind::Marks).capacity);
    // Controllers fill the table from its other end.
    let is_free =
        |index: &u64| segment::read::<Mark>(SectionKind::Marks, *index).is_none_or(|mark| mark.time_ns == 0);
    let mut mark = Mark { time_ns: clock::monotonic_ns().max(1), name: [0; 56] };
    set_text(&mut mark.name, text(&name).to_bytes());
    if index.filter(is_free).is_some_and(|index| segment::append(SectionKind::Marks, index, mark)) {
        control::note_mark(log::time_at(clock::coarse_ns(), log::tick()));
    } else {
        segment::count(Counter::LostMarks);
    }
}

/// `struct heapwise_snapshot`.
#[repr(C)]
pub struct Snapshot {
    live_bytes: u64,
    peak_bytes: u64,
    allocated_bytes: u64,
    recorded: u64,
    freed: u64,
    lost: u64,
}

/// Reads what was counted so far.
#[cfg_attr(feature = "preload", unsafe(no_mangle))]
pub extern "C" fn heapwise_take_snapshot(snapshot: Option<&mut Snapshot>) {
    let words = words();
    if let Some(mut busy) = enter(words)
        && let Some(state) = words.existing_state(&mut busy)
    {
        state.flush();
    }
    let count = |counter| segment::counter(counter).load(Ordering::Relaxed);
    if let Some(snapshot) = snapshot {
        *snapshot = Snapshot {
            live_bytes: (count(Counter::LiveBytes) as i64).max(0) as u64,
            peak_bytes: count(Counter::PeakBytes),
            allocated_bytes: count(Counter::AllocatedBytes),
            recorded: count(Counter::Recorded),
            freed: count(Counter::Freed),
            lost: [Counter::UntrackedBlocks, Counter::LostEvents].map(count).iter().sum(),
        };
    }
}

/// Attributes the calling thread's allocations to a name; in brackets, like all names in reports
/// that are not functions.
#[cfg_attr(feature = "preload", unsafe(no_mangle))]
pub extern "C" fn heapwise_label_push(name: *const c_char) {
    let mut label = FixedText::<256>::new();
    let name = text(&name).to_bytes();
    label.push(b"[").push(name.get(..LONGEST_LABEL).unwrap_or(name)).push(b"]");
    with_declared_frames(|script| script.enter(c"", label.as_c_str().unwrap_or(c"[]"), 0));
}

/// Longest label; a longer one is cut.
const LONGEST_LABEL: usize = 250;

/// Ends the innermost label.
#[cfg_attr(feature = "preload", unsafe(no_mangle))]
pub extern "C" fn heapwise_label_pop() {
    with_declared_frames(DeclaredFrames::leave);
}

/// Declares a frame of the calling thread.
#[cfg_attr(feature = "preload", unsafe(no_mangle))]
pub extern "C" fn heapwise_script_enter(file: *const c_char, function: *const c_char, line: c_int) {
    with_declared_frames(|script| script.enter(text(&file), text(&function), line.max(0) as u32));
}

/// Moves the innermost declared frame to another line.
#[cfg_attr(feature = "preload", unsafe(no_mangle))]
pub extern "C" fn heapwise_script_line(line: c_int) {
    with_declared_frames(|script| script.set_line(line.max(0) as u32));
}

/// Ends the innermost declared frame.
#[cfg_attr(feature = "preload", unsafe(no_mangle))]
pub extern "C" fn heapwise_script_leave() {
    with_declared_frames(DeclaredFrames::leave);
}

/// Sets the function that returns the script stack of a coroutine.
#[cfg_attr(feature = "preload", unsafe(no_mangle))]
pub extern "C" fn heapwise_script_provider(provider: Option<Provider>) {
    declared_frames::set_provider(provider);
}

/// Sets the coroutine that the calling thread runs now; null for none.
#[cfg_attr(feature = "preload", unsafe(no_mangle))]
pub extern "C" fn heapwise_script_switch(coroutine: *mut c_void) {
    with_declared_frames(|script| script.switch(coroutine));
}
