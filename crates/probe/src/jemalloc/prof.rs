//! Profiling by jemalloc's switches while the program runs.

use core::ffi::{CStr, c_char};

use heapwise_format::segment::{ControlWord, Mode};

use crate::atomics::{AtomicBool, AtomicU8, AtomicU32, Ordering};
use crate::control::{self, Change};
use crate::inside::Inside;
use crate::jemalloc::options::options;
use crate::session::Session;
use crate::sys;
use crate::threads::ThreadWords;

const OFF: u8 = 1;
const ON: u8 = 2;

/// The switches of a session. Zeroed memory is valid: as the options say.
pub(crate) struct Switches {
    /// Mean distance of samples as a power of two, plus one; 0: as the option says.
    lg_sample: AtomicU32,
    /// New threads: 0 as the option says, else as [`OFF`] and [`ON`].
    new_threads: AtomicU8,
    /// Some thread may be switched off; read before the thread's own switch.
    are_some_off: AtomicBool,
    /// Samples are counted by thread even where they are few.
    keeps_threads: AtomicBool,
}

impl Switches {
    /// Takes over the options of the start.
    pub(crate) fn begin(&self, session: &Session) {
        self.keeps_threads.store(options().prof, Ordering::Relaxed);
        if !options().thread_active_init {
            self.note_off(session);
        }
    }

    /// Takes over what the parent of a forked child set.
    pub(crate) fn inherit(&self, parent: &Switches) {
        self.lg_sample.store(parent.lg_sample.load(Ordering::Relaxed), Ordering::Relaxed);
        self.new_threads.store(parent.new_threads.load(Ordering::Relaxed), Ordering::Relaxed);
        self.are_some_off.store(parent.are_some_off(), Ordering::Relaxed);
        self.keeps_threads.store(parent.keeps_threads(), Ordering::Relaxed);
    }

    fn note_off(&self, session: &Session) {
        self.are_some_off.store(true, Ordering::Relaxed);
        session.fork.change_generation();
    }

    /// Whether some thread may be switched off.
    #[inline(always)]
    pub(crate) fn are_some_off(&self) -> bool {
        self.are_some_off.load(Ordering::Relaxed)
    }

    /// Mean distance of samples, as a power of two.
    pub(crate) fn lg_sample(&self) -> u32 {
        self.lg_sample.load(Ordering::Relaxed).checked_sub(1).unwrap_or(options().lg_sample)
    }

    fn mode(&self) -> Mode {
        if self.lg_sample() == 0 { Mode::Exact } else { Mode::Sampled }
    }

    /// Whether threads that begin are recorded.
    fn are_new_threads_active(&self) -> bool {
        match self.new_threads.load(Ordering::Relaxed) {
            0 => options().thread_active_init,
            state => state == ON,
        }
    }

    /// Whether also rare samples are counted by the thread that allocated them, as dumps have them.
    #[inline(always)]
    pub(crate) fn keeps_threads(&self) -> bool {
        self.keeps_threads.load(Ordering::Relaxed)
    }

    /// Whether a thread's allocations are skipped: one load unless the program used the switch.
    #[inline(always)]
    pub(crate) fn is_silent(&self, words: &ThreadWords) -> bool {
        self.are_some_off() && self.is_switched_off(words)
    }

    #[cold]
    fn is_switched_off(&self, words: &ThreadWords) -> bool {
        if words.active.load(Ordering::Relaxed) == 0 {
            // jemalloc's word is about threads that begin later; a thread decides when it is first
            // looked at.
            let state = if self.are_new_threads_active() { ON } else { OFF };
            words.active.store(state, Ordering::Relaxed);
        }
        words.active.load(Ordering::Relaxed) == OFF
    }
}

/// Whether the program wants blocks to be recorded; a controller may want it too.
pub(crate) fn is_active(inside: &Inside) -> bool {
    let mode = inside.segment.control(ControlWord::Mode).load(Ordering::Relaxed);
    options().prof && mode != Mode::Off as u64
}

/// Switches recording; what is alive is followed in either case.
pub(crate) fn set_active(inside: &Inside, wanted: bool) {
    let switches = &inside.prof;
    control::change(inside, |change| {
        let mode = if wanted { switches.mode() } else { Mode::Off };
        change.set(ControlWord::SampleBytes, 1 << switches.lg_sample());
        change.set(ControlWord::Mode, mode as u64);
    });
}

/// Starts a new counting period, and samples at another distance from now on.
pub(crate) fn reset(inside: &Inside, lg_sample: u32) {
    let switches = &inside.prof;
    switches.lg_sample.store(lg_sample.min(63) + 1, Ordering::Relaxed);
    let active = is_active(inside);
    control::change(inside, |change: &Change<'_>| {
        change.reset();
        change.set(ControlWord::SampleBytes, 1 << lg_sample.min(63));
        if active {
            change.set(ControlWord::Mode, switches.mode() as u64);
        }
    });
}

/// Whether threads that begin are recorded.
pub(crate) fn are_new_threads_active(inside: &Inside) -> bool {
    inside.prof.are_new_threads_active()
}

/// Switches threads that have not been switched themselves.
pub(crate) fn set_new_threads_active(inside: &Inside, wanted: bool) {
    inside.prof.new_threads.store(if wanted { ON } else { OFF }, Ordering::Relaxed);
    if !wanted {
        inside.prof.note_off(inside);
    }
}

/// Whether the calling thread is recorded.
pub(crate) fn is_thread_active(inside: &Inside) -> bool {
    !inside.prof.is_switched_off(inside.words())
}

/// Switches the calling thread.
pub(crate) fn set_thread_active(inside: &Inside, wanted: bool) {
    inside.words().active.store(if wanted { ON } else { OFF }, Ordering::Relaxed);
    if !wanted {
        inside.prof.note_off(inside);
    }
}

/// The calling thread's name, alive as long as the thread: the program's or, where that is wanted,
/// the system's.
pub(crate) fn thread_name(inside: &mut Inside) -> *const c_char {
    let (session, Some(state)) = inside.with_state() else { return c"".as_ptr() };
    if options().sys_thread_name
        && let Ok(name) = CStr::from_bytes_until_nul(&sys::thread_name())
    {
        state.set_name(session, name);
    }
    state.name().as_ptr()
}

/// Names the calling thread; false when there is no room for it.
pub(crate) fn set_thread_name(inside: &mut Inside, name: &CStr) -> bool {
    let (session, state) = inside.with_state();
    state.map(|state| state.set_name(session, name)).is_some()
}
