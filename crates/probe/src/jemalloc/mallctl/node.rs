//! Actions of a name when it is read or written.

use core::ffi::CStr;

use super::value::{Refusal, Request};
use crate::allocator::{self, Statistics};
use crate::atomics::Ordering;
use crate::control::Activity;
use crate::dump::size_class;
use crate::inside::Inside;
use crate::jemalloc::options::{Options, options};
use crate::json::Sink;
use crate::{dump, prof, recent};

/// The kinds of names.
#[derive(Clone, Copy)]
pub(super) enum Node {
    Version,
    Epoch,
    /// An option or a fact, as `bool`.
    Flag(fn(&Options) -> bool),
    /// An option, as `size_t` or `ssize_t`.
    Word(fn(&Options) -> u64),
    /// An option, as `unsigned`.
    Unsigned(fn(&Options) -> u32),
    /// An option, as `const char *`.
    Text(fn(&Options) -> &CStr),
    Active,
    ThreadActiveInit,
    AtHighs,
    Dump,
    Prefix,
    Reset,
    Interval,
    LgSample,
    LogStart,
    LogStop,
    /// Sums of a size class.
    Sizes {
        large: bool,
        ever: bool,
    },
    /// Bytes that the calling thread allocated and freed since the start of recording, as
    /// `uint64_t`; known where every block is recorded.
    ThreadBytes(fn((u64, u64)) -> u64),
    /// Heaps of the allocator, as `unsigned`; unknown of glibc's.
    Arenas,
    /// Number of the size classes of `prof.stats`, as `unsigned`.
    Classes {
        large: bool,
    },
    /// Largest size of one of these classes, as `size_t`.
    ClassSize {
        large: bool,
    },
    ThreadName,
    ThreadActive,
    RecentMax,
    RecentDump,
    /// A statistic of the allocator, as `size_t`.
    Statistic(fn(&Statistics) -> u64),
}

impl Node {
    /// Whether there is a name with this number.
    pub(super) fn has(self, number: usize) -> bool {
        let known = match self {
            Node::Sizes { large, .. } | Node::ClassSize { large } => number < size_class::count(large),
            _ => false,
        };
        known && has_classes()
    }
}

/// jemalloc's size classes have a meaning here only for the sums of `prof.stats`.
fn has_classes() -> bool {
    options().prof && options().stats
}

/// Version of the implemented interface, followed by the name of the implementation.
pub(crate) const VERSION: &CStr = c"5.3.0-0-g0 heapwise";

type Outcome = Result<(), Refusal>;

/// `number` is the one in the name.
pub(super) fn answer(inside: &mut Inside, node: Node, number: usize, request: &mut Request) -> Outcome {
    match node {
        Node::Version => tell(request, VERSION.as_ptr()),
        Node::Epoch => {
            if request.take_u64()?.is_some() {
                inside.mallctl.0.fetch_add(1, Ordering::Relaxed);
            }
            request.give(inside.mallctl.0.load(Ordering::Relaxed) + 1)
        }
        Node::Flag(read) => tell(request, read(options())),
        Node::Word(read) => tell(request, read(options())),
        Node::Unsigned(read) => tell(request, read(options())),
        Node::Text(read) => tell(request, read(options()).as_ptr()),
        Node::Interval => tell(request, dump::interval()),
        Node::LgSample => tell(request, if options().prof { u64::from(inside.prof.lg_sample()) } else { 0 }),
        Node::Sizes { large, ever } => {
            request.only_read()?;
            request.give(size_class::sums(inside, large, number, ever))
        }
        Node::ThreadBytes(read) => {
            request.only_read()?;
            request.give(read(thread_bytes(inside).ok_or(Refusal::Unknown)?))
        }
        Node::Arenas => {
            request.only_read()?;
            request.give(arenas(inside)?)
        }
        Node::Classes { .. } if !has_classes() => Err(Refusal::Unknown),
        Node::Classes { large } => tell(request, size_class::count(large) as u32),
        Node::ClassSize { large } => tell(request, size_class::largest(large, number)),
        Node::Statistic(read) => {
            request.only_read()?;
            request.give(read(&statistics(inside)?))
        }
        // Switching off what is off is allowed; a wrong size is not.
        Node::Active if !options().prof && request.take_bool()? == Some(false) => request.give(false),
        Node::Active => switch(inside, request, prof::is_active, prof::set_active),
        Node::ThreadActiveInit => {
            switch(inside, request, prof::are_new_threads_active, prof::set_new_threads_active)
        }
        Node::ThreadActive => switch(inside, request, prof::is_thread_active, prof::set_thread_active),
        Node::AtHighs => {
            let set = |inside: &Inside, on| inside.dump.set_at_highs(on);
            switch(inside, request, |inside| inside.dump.is_at_highs(), set)
        }
        Node::Dump | Node::Prefix | Node::Reset | Node::LogStart => act(inside, node, request),
        _ if !options().prof => Err(Refusal::Unknown),
        _ => answer_profiling(inside, node, request),
    }
}

/// Names that exist only where profiling is enabled.
fn answer_profiling(inside: &mut Inside, node: Node, request: &mut Request) -> Outcome {
    match node {
        Node::LogStop => done(recent::stop_log(inside)),
        Node::ThreadName => thread_name(inside, request),
        Node::RecentMax => {
            let before = inside.recent.most();
            if let Some(most) = request.take_u64()? {
                recent::set_most(inside, most as i64).then_some(()).ok_or(Refusal::WrongSize)?;
            }
            request.give(before)
        }
        Node::RecentDump => {
            request.only_written()?;
            let (write, opaque) = request.take_writer()?;
            recent::write_recent(&mut Sink::new(inside, write, opaque));
            Ok(())
        }
        _ => Err(Refusal::Unknown),
    }
}

fn arenas(inside: &mut Inside) -> Result<u32, Refusal> {
    let arenas = statistics(inside)?.arenas as u32;
    if arenas == 0 { Err(Refusal::Unknown) } else { Ok(arenas) }
}

fn statistics(inside: &mut Inside) -> Result<Statistics, Refusal> {
    inside.outside(allocator::statistics).ok_or(Refusal::Unknown)
}

/// Of a thread that has a record; a shared one would count other threads, too.
fn thread_bytes(inside: &mut Inside) -> Option<(u64, u64)> {
    let (session, state) = inside.with_state();
    let is_every = matches!(session.control.activity(), Activity::Exact | Activity::Log);
    state.filter(|state| is_every && state.record().is_some()).map(|state| state.histogram().bytes())
}

fn tell<T: Copy>(request: &mut Request, value: T) -> Outcome {
    request.only_read()?;
    request.give(value)
}

fn done(is_done: bool) -> Outcome {
    if is_done { Ok(()) } else { Err(Refusal::Failed) }
}

/// A switch: false, and not to be set, while profiling is off.
fn switch(
    inside: &Inside,
    request: &mut Request,
    read: fn(&Inside) -> bool,
    set: fn(&Inside, bool),
) -> Outcome {
    let prof = options().prof;
    let before = prof && read(inside);
    if !prof && request.take_bool() != Ok(None) {
        return Err(Refusal::Unknown);
    }
    if let Some(wanted) = request.take_bool()? {
        set(inside, wanted);
    }
    request.give(before)
}

/// Names that can only be written.
fn act(inside: &Inside, node: Node, request: &Request) -> Outcome {
    if !options().prof {
        return Err(Refusal::Unknown);
    }
    request.only_written()?;
    done(match node {
        Node::Dump => dump::manual(inside, request.take_text()?),
        Node::Prefix => request.take_text()?.is_some_and(|prefix| dump::set_prefix(inside, prefix)),
        Node::LogStart => recent::start_log(inside, request.take_text()?),
        _ => {
            let lg_sample = request.take_u64()?.map_or(inside.prof.lg_sample(), |lg| lg.min(63) as u32);
            prof::reset(inside, lg_sample);
            true
        }
    })
}

/// Read or written, not both; the system's own names are not to be changed.
fn thread_name(inside: &mut Inside, request: &mut Request) -> Outcome {
    request.read_or_written()?;
    if !request.is_write() {
        return request.give(prof::thread_name(inside));
    }
    let name = request.take_text()?;
    if options().sys_thread_name {
        return Err(Refusal::Unknown);
    }
    done(
        name.is_some_and(|name| {
            name.to_bytes().iter().all(is_printable) && prof::set_thread_name(inside, name)
        }),
    )
}

fn is_printable(byte: &u8) -> bool {
    byte.is_ascii_graphic() || matches!(byte, b' ' | b'\t')
}
