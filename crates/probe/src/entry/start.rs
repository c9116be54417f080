//! The beginning and the end: the first hooked call of the process, the constructor, the
//! destructor.
#![allow(unsafe_code)]

use heapwise_format::segment::{AllocatorKind, State};

use crate::arch::words;
use crate::atomics::{AtomicBool, Ordering};
use crate::config::Config;
use crate::record::usable;
use crate::sites::{rates, stack_tree, strings, tallies};
use crate::{
    allocator, config, control, dump, fork, hooks, live, log, modules, prof, recent, segment, threads,
};

static BEGUN: AtomicBool = AtomicBool::new(false);

/// Starts the probe unless it has started. The first caller starts it, possibly the loader before
/// libc is set up; no thread waits.
#[inline]
pub(crate) fn ensure() {
    if !BEGUN.load(Ordering::Relaxed) && !BEGUN.swap(true, Ordering::AcqRel) {
        begin();
    }
}

#[cold]
fn begin() {
    let _busy = words().enter();
    hooks::resolve_all();
    fork::begin();
    begin_segment(&config::read(hooks::allocator_kind()));
}

/// Starts a segment with empty tables, in a new process or a forked child.
pub(crate) fn begin_segment(config: &Config) {
    let allocator = hooks::allocator_kind();
    if !segment::create(allocator, config.tables) {
        return;
    }
    rates::init();
    usable::init(allocator == AllocatorKind::Glibc);
    live::init(allocator);
    threads::init();
    modules::init();
    strings::init();
    stack_tree::init();
    log::init();
    if tallies::init() {
        dump::begin();
        prof::begin();
        recent::begin();
        allocator::begin();
        control::begin(config);
        segment::set_state(State::Ready);
    } else {
        segment::stand_aside();
    }
}

extern "C" fn construct() {
    ensure();
    threads::create_key();
    dump::watch_exit();
}

/// The program ends by `exit`. Destructors that run later are still recorded.
extern "C" fn destruct() {
    recent::at_exit();
    dump::at_exit();
    let words = words();
    if let Some(mut busy) = words.enter()
        && !fork::is_forked_child()
    {
        if let Some(state) = words.existing_state(&mut busy) {
            state.flush();
        }
        segment::set_state(State::Exited);
        segment::end();
    }
}

#[used]
#[cfg_attr(feature = "preload", unsafe(link_section = ".init_array"))]
static CONSTRUCT: extern "C" fn() = construct;
#[used]
#[cfg_attr(feature = "preload", unsafe(link_section = ".fini_array"))]
static DESTRUCT: extern "C" fn() = destruct;
