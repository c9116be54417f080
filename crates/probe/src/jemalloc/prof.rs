//! Profiling by jemalloc's switches while the program runs.

use core::ffi::{CStr, c_char};

use heapwise_format::segment::{ControlWord, Mode};

use crate::arch::words;
use crate::atomics::{AtomicBool, AtomicU8, AtomicU32, Ordering};
use crate::jemalloc::options::options;
use crate::threads::Words;
use crate::{api, control, fork, segment, sys};

/// Mean distance of samples as a power of two, plus one; 0: as the option says.
static LG_SAMPLE: AtomicU32 = AtomicU32::new(0);
/// New threads: 0 as the option says, else as [`OFF`] and [`ON`].
static NEW_THREADS: AtomicU8 = AtomicU8::new(0);
const OFF: u8 = 1;
const ON: u8 = 2;
/// Some thread may be switched off; read before the thread's own switch.
static SOME_OFF: AtomicBool = AtomicBool::new(false);

/// Samples are counted by thread even where they are few.
static THREADS_APART: AtomicBool = AtomicBool::new(false);

/// Takes over the options of the start.
pub(crate) fn begin() {
    THREADS_APART.store(options().prof, Ordering::Relaxed);
    if !options().thread_active_init {
        note_off();
    }
}

fn note_off() {
    SOME_OFF.store(true, Ordering::Relaxed);
    fork::change_generation();
}

/// Whether some thread may be switched off.
pub(crate) fn are_some_off() -> bool {
    SOME_OFF.load(Ordering::Relaxed)
}

/// Whether the program wants blocks to be recorded; a controller may want it too.
pub(crate) fn is_active() -> bool {
    options().prof && segment::control(ControlWord::Mode).load(Ordering::Relaxed) != Mode::Off as u64
}

/// Mean distance of samples, as a power of two.
pub(crate) fn lg_sample() -> u32 {
    LG_SAMPLE.load(Ordering::Relaxed).checked_sub(1).unwrap_or(options().lg_sample)
}

/// Switches recording; what is alive is followed in either case.
pub(crate) fn set_active(wanted: bool) {
    change(|| {
        let mode = if wanted { mode() } else { Mode::Off };
        set(ControlWord::SampleBytes, 1 << lg_sample());
        set(ControlWord::Mode, mode as u64);
    });
}

/// Starts a new counting period, and samples at another distance from now on.
pub(crate) fn reset(lg_sample: u32) {
    LG_SAMPLE.store(lg_sample.min(63) + 1, Ordering::Relaxed);
    let active = is_active();
    change(|| {
        segment::control(ControlWord::ResetCount).fetch_add(1, Ordering::Relaxed);
        set(ControlWord::SampleBytes, 1 << lg_sample.min(63));
        if active {
            set(ControlWord::Mode, mode() as u64);
        }
    });
}

fn mode() -> Mode {
    if lg_sample() == 0 { Mode::Exact } else { Mode::Sampled }
}

fn set(word: ControlWord, value: u64) {
    segment::control(word).store(value, Ordering::Relaxed);
}

fn change(words_to_set: impl FnOnce()) {
    let Some(_busy) = api::enter(words()) else { return };
    control::change(words_to_set);
}

/// Whether threads that begin are recorded.
pub(crate) fn are_new_threads_active() -> bool {
    match NEW_THREADS.load(Ordering::Relaxed) {
        0 => options().thread_active_init,
        state => state == ON,
    }
}

/// Switches threads that have not been switched themselves.
pub(crate) fn set_new_threads_active(wanted: bool) {
    NEW_THREADS.store(if wanted { ON } else { OFF }, Ordering::Relaxed);
    if !wanted {
        note_off();
    }
}

/// Whether the calling thread is recorded.
pub(crate) fn is_thread_active() -> bool {
    !is_switched_off(words())
}

/// Switches the calling thread.
pub(crate) fn set_thread_active(wanted: bool) {
    words().active.store(if wanted { ON } else { OFF }, Ordering::Relaxed);
    if !wanted {
        note_off();
    }
}

/// Whether also rare samples are counted by the thread that allocated them, as dumps have them.
#[inline(always)]
pub(crate) fn keeps_threads() -> bool {
    THREADS_APART.load(Ordering::Relaxed)
}

/// The calling thread's name, alive as long as the thread: the program's or, where that is wanted,
/// the system's.
pub(crate) fn thread_name() -> *const c_char {
    let words = words();
    let Some(mut busy) = api::enter(words) else { return c"".as_ptr() };
    let Some(state) = words.state(&mut busy) else { return c"".as_ptr() };
    if options().sys_thread_name
        && let Ok(name) = CStr::from_bytes_until_nul(&sys::thread_name())
    {
        state.set_name(name);
    }
    state.name().as_ptr()
}

/// Names the calling thread; false when there is no room for it.
pub(crate) fn set_thread_name(name: &CStr) -> bool {
    let words = words();
    let Some(mut busy) = api::enter(words) else { return false };
    words.state(&mut busy).map(|state| state.set_name(name)).is_some()
}

/// Whether the calling thread's allocations are skipped: one load unless the program used the
/// switch.
#[inline(always)]
pub(crate) fn is_silent(words: &Words) -> bool {
    SOME_OFF.load(Ordering::Relaxed) && is_switched_off(words)
}

#[cold]
fn is_switched_off(words: &Words) -> bool {
    if words.active.load(Ordering::Relaxed) == 0 {
        // jemalloc's word is about threads that begin later; a thread decides when it is first
        // looked at.
        let state = if are_new_threads_active() { ON } else { OFF };
        words.active.store(state, Ordering::Relaxed);
    }
    words.active.load(Ordering::Relaxed) == OFF
}
