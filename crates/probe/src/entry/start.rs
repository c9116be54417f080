//! The beginning and the end: the first hooked call of the process, the constructor, the
//! destructor.
#![allow(unsafe_code)]

use heapwise_format::segment::{Counter, IndexKind, State};

use super::session::{self, Session};
use super::{fork, hook_request, injected, inside};
use crate::atomics::{AtomicBool, Ordering};
use crate::{clock, config, dump, hooks, modules, process, recent, runtimes, sys, threads};

static BEGUN: AtomicBool = AtomicBool::new(false);

/// Starts the probe unless it has started. The first caller starts it, possibly the loader before
/// libc is set up; no thread waits.
#[inline]
pub(crate) fn ensure() {
    if !BEGUN.load(Ordering::Relaxed) {
        drop(inside::enter());
    }
}

/// The first session, by the first thread that enters; `None` for others until it is there.
#[cold]
pub(super) fn begin_session() -> Option<&'static Session> {
    if BEGUN.swap(true, Ordering::AcqRel) {
        return None;
    }
    hooks::resolve_all();
    modules::find_loader();
    let allocator = hooks::allocator_kind();
    let mut config = config::read(allocator);
    if must_obey_filter() {
        // The shadow index maps memory as the heap grows.
        config.index = IndexKind::Hash;
    }
    hook_request::make(&config);
    if config.foreign_blocks {
        hooks::entry_points::expect_foreign_blocks();
    }
    if !config.objects {
        runtimes::leave_objects();
    }
    let (session, is_wiped_by_kernel) = Session::create()?;
    if !is_wiped_by_kernel {
        fork::register_handler();
    }
    session.take_options();
    session.begin(&config, allocator, 0);
    session::publish(session);
    Some(session)
}

extern "C" fn construct() {
    ensure();
    runtimes::start();
    threads::create_key();
    dump::watch_exit();
    if must_obey_filter() {
        hooks::obey_filter();
    }
}

/// Whether the probe was brought into a process behind a seccomp filter.
fn must_obey_filter() -> bool {
    injected::is_injected() && sys::is_filtered()
}

/// The program ends by `exit`. Destructors that run later are still recorded.
extern "C" fn destruct() {
    if !is_unused_child(|parent| parent.recent.has_log()) {
        recent::at_exit();
    }
    dump::at_exit();
    if !is_unused_child(|_| false)
        && let Some(mut inside) = inside::enter()
    {
        let (session, state) = inside.with_existing_state();
        if let Some(state) = state {
            state.flush(session);
        }
        note_end(session);
        session.segment.set_state(State::Exited);
        session.segment.end();
    }
}

/// Notes what nobody can read of a process that has ended.
fn note_end(session: &Session) {
    let segment = &session.segment;
    if segment.counter(Counter::RecordingStart).load(Ordering::Relaxed) != 0 {
        segment.counter(Counter::LastSeen).store(clock::coarse_ns(), Ordering::Relaxed);
        let peak = process::peak_resident_bytes().unwrap_or(0);
        segment.counter(Counter::PeakResident).store(peak, Ordering::Relaxed);
    }
}

/// Whether this is a forked child that has no session of its own, and needs none to end: `needs`
/// decides by the parent's.
fn is_unused_child(needs: impl FnOnce(&Session) -> bool) -> bool {
    session::current().is_none_or(|session| session.fork.is_wiped() && !needs(session))
}

#[used]
#[cfg_attr(feature = "preload", unsafe(link_section = ".init_array"))]
static CONSTRUCT: extern "C" fn() = construct;
#[used]
#[cfg_attr(feature = "preload", unsafe(link_section = ".fini_array"))]
static DESTRUCT: extern "C" fn() = destruct;
