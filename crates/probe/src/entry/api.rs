//! The functions that `heapwise.h` declares.
#![allow(unsafe_code)]

use core::ffi::{c_char, c_int, c_void};

use heapwise_format::bytes::set_text;
use heapwise_format::segment::{ControlWord, Counter, Mark, Mode, SectionKind};

use crate::atomics::Ordering;
use crate::declared_frames::{DeclaredFrames, Provider, text};
use crate::fixed_text::FixedText;
use crate::inside::{Inside, enter, nested};
use crate::session::Session;
use crate::{clock, control, dump, log, runtimes};

/// Enters for a call of the program that returns nothing. A call from a signal handler that
/// interrupted the probe is not made, and counted.
fn enter_or_count() -> Option<Inside> {
    let inside = enter();
    if inside.is_none()
        && let Some(session) = nested()
    {
        session.segment.count(Counter::LostCalls);
    }
    inside
}

fn with_declared_frames(act: impl FnOnce(&Session, &mut DeclaredFrames)) {
    let Some(mut inside) = enter_or_count() else { return };
    if let (session, Some(state)) = inside.with_state() {
        state.declare(session, |frames| act(session, frames));
    }
}

/// Switches what is recorded, for the whole process.
#[cfg_attr(feature = "preload", unsafe(no_mangle))]
pub extern "C" fn heapwise_set_mode(mode: c_int, sample_bytes: u64) {
    let Some(inside) = enter_or_count() else { return };
    control::change(&inside, |change| {
        change.set(ControlWord::Mode, mode as u64);
        if sample_bytes != 0 {
            change.set(ControlWord::SampleBytes, sample_bytes);
        }
    });
}

/// The mode in force, after pending control changes are applied.
#[cfg_attr(feature = "preload", unsafe(no_mangle))]
pub extern "C" fn heapwise_mode() -> c_int {
    let mode = |session: &Session| session.segment.counter(Counter::Mode).load(Ordering::Relaxed);
    let inside = enter();
    inside.map_or_else(|| nested().map_or(0, |session| mode(&session)), |inside| mode(&inside)) as c_int
}

/// Chooses the index of exact mode.
#[cfg_attr(feature = "preload", unsafe(no_mangle))]
pub extern "C" fn heapwise_set_index(index: c_int) {
    let Some(inside) = enter_or_count() else { return };
    control::change(&inside, |change| change.set(ControlWord::Index, index as u64));
}

/// The index of live blocks in force, after pending control changes are applied; 0 where not every
/// block is recorded.
#[cfg_attr(feature = "preload", unsafe(no_mangle))]
pub extern "C" fn heapwise_index() -> c_int {
    let index = |session: &Session| match session.segment.counter(Counter::Mode).load(Ordering::Relaxed) {
        mode if mode == Mode::Exact as u64 || mode == Mode::Log as u64 => {
            session.segment.counter(Counter::Index).load(Ordering::Relaxed)
        }
        _ => 0,
    };
    let inside = enter();
    inside.map_or_else(|| nested().map_or(0, |session| index(&session)), |inside| index(&inside)) as c_int
}

/// Up to when the recording of this program is in its file.
#[cfg_attr(feature = "preload", unsafe(no_mangle))]
pub extern "C" fn heapwise_recorded_ns() -> u64 {
    enter().map_or(0, |inside| inside.segment.counter(Counter::RecordedNanos).load(Ordering::Acquire))
}

/// Starts a new counting period.
#[cfg_attr(feature = "preload", unsafe(no_mangle))]
pub extern "C" fn heapwise_reset() {
    let Some(inside) = enter_or_count() else { return };
    control::change(&inside, |change| change.reset());
}

/// Writes a heap dump; a null path takes the next automatic name. 0, or an errno: `EAGAIN` in a
/// signal handler that interrupted the probe.
#[cfg_attr(feature = "preload", unsafe(no_mangle))]
pub extern "C" fn heapwise_dump(path: *const c_char) -> c_int {
    let name = if path.is_null() { None } else { Some(text(&path)) };
    let Some(inside) = enter() else { return libc::EAGAIN };
    if dump::manual(&inside, name) { 0 } else { libc::EFAULT }
}

/// Names this moment.
#[cfg_attr(feature = "preload", unsafe(no_mangle))]
pub extern "C" fn heapwise_mark(name: *const c_char) {
    let Some(mut inside) = enter_or_count() else { return };
    // Later events of this thread get a later time than the mark, even when the recorder's clock
    // has stopped.
    let (session, state) = inside.with_existing_state();
    if let Some(state) = state {
        state.log.expire_tick();
    }
    let segment = &session.segment;
    let index = session.control.claim_mark(segment.section(SectionKind::Marks).capacity);
    // Controllers fill the table from its other end.
    let is_free =
        |index: &u64| segment.read::<Mark>(SectionKind::Marks, *index).is_none_or(|mark| mark.time_ns == 0);
    let mut mark = Mark { time_ns: clock::monotonic_ns().max(1), name: [0; 56] };
    set_text(&mut mark.name, text(&name).to_bytes());
    if index.filter(is_free).is_some_and(|index| segment.append(SectionKind::Marks, index, mark)) {
        control::note_mark(session, log::time_at(session, clock::coarse_ns(), log::tick(session)));
    } else {
        segment.count(Counter::LostMarks);
    }
}

/// `struct heapwise_snapshot`.
#[derive(Default)]
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
    let Some(snapshot) = snapshot else { return };
    match enter() {
        Some(mut inside) => {
            let (session, state) = inside.with_existing_state();
            if let Some(state) = state {
                state.flush(session);
            }
            *snapshot = Snapshot::read(session);
        }
        // In a signal handler that interrupted the probe: without what the thread has not flushed.
        None => *snapshot = nested().map_or_else(Snapshot::default, |session| Snapshot::read(&session)),
    }
}

impl Snapshot {
    fn read(session: &Session) -> Snapshot {
        let count = |counter| session.segment.counter(counter).load(Ordering::Relaxed);
        Snapshot {
            live_bytes: (count(Counter::LiveBytes) as i64).max(0) as u64,
            peak_bytes: count(Counter::PeakBytes),
            allocated_bytes: count(Counter::AllocatedBytes),
            recorded: count(Counter::Recorded),
            freed: count(Counter::Freed),
            lost: [Counter::UntrackedBlocks, Counter::LostEvents].map(count).iter().sum(),
        }
    }
}

/// Attributes the calling thread's allocations to a name; in brackets, like all names in reports
/// that are not functions.
#[cfg_attr(feature = "preload", unsafe(no_mangle))]
pub extern "C" fn heapwise_label_push(name: *const c_char) {
    let mut label = FixedText::<256>::new();
    let name = text(&name).to_bytes();
    label.push(b"[").push(name.get(..LONGEST_LABEL).unwrap_or(name)).push(b"]");
    with_declared_frames(|session, script| script.enter(session, c"", label.as_c_str().unwrap_or(c"[]"), 0));
}

/// Longest label; a longer one is cut.
const LONGEST_LABEL: usize = 250;

/// Ends the innermost label.
#[cfg_attr(feature = "preload", unsafe(no_mangle))]
pub extern "C" fn heapwise_label_pop() {
    with_declared_frames(|_, script| script.leave());
}

/// Declares a frame of the calling thread.
#[cfg_attr(feature = "preload", unsafe(no_mangle))]
pub extern "C" fn heapwise_script_enter(file: *const c_char, function: *const c_char, line: c_int) {
    with_declared_frames(|session, script| {
        script.enter(session, text(&file), text(&function), line.max(0) as u32)
    });
}

/// Moves the innermost declared frame to another line.
#[cfg_attr(feature = "preload", unsafe(no_mangle))]
pub extern "C" fn heapwise_script_line(line: c_int) {
    with_declared_frames(|_, script| script.set_line(line.max(0) as u32));
}

/// Ends the innermost declared frame.
#[cfg_attr(feature = "preload", unsafe(no_mangle))]
pub extern "C" fn heapwise_script_leave() {
    with_declared_frames(|_, script| script.leave());
}

/// Sets the function that returns the script stack of a coroutine.
#[cfg_attr(feature = "preload", unsafe(no_mangle))]
pub extern "C" fn heapwise_script_provider(provider: Option<Provider>) {
    let Some(inside) = enter_or_count() else { return };
    inside.provider.set(provider);
    runtimes::provider_changed(&inside);
}

/// Sets the coroutine that the calling thread runs now; null for none.
#[cfg_attr(feature = "preload", unsafe(no_mangle))]
pub extern "C" fn heapwise_script_switch(coroutine: *mut c_void) {
    with_declared_frames(|_, script| script.switch(coroutine));
}
