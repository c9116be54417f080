//! What a name does when it is read or written.

use core::ffi::CStr;
use core::sync::atomic::{AtomicU64, Ordering};

use super::value::{Refusal, Request};
use crate::allocator::{self, Statistics};
use crate::conf::{Options, options};
use crate::{dump, prof};

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
    OptPrefix,
    OptTimeResolution,
    Active,
    ThreadActiveInit,
    AtHighs,
    Dump,
    Prefix,
    Reset,
    Interval,
    LgSample,
    ThreadActive,
    /// What the allocator says, as `size_t`.
    Statistic(fn(&Statistics) -> u64),
}

/// The interface that is spoken; the rest says who speaks.
const VERSION: &CStr = c"5.3.0-0-g0 heapwise";
static EPOCH: AtomicU64 = AtomicU64::new(1);

type Outcome = Result<(), Refusal>;

pub(super) fn answer(node: Node, request: &mut Request) -> Outcome {
    match node {
        Node::Version => tell(request, VERSION.as_ptr()),
        Node::Epoch => {
            if request.take_u64()?.is_some() {
                EPOCH.fetch_add(1, Ordering::Relaxed);
            }
            request.give(EPOCH.load(Ordering::Relaxed))
        }
        Node::Flag(read) => tell(request, read(options())),
        Node::Word(read) => tell(request, read(options())),
        Node::Unsigned(read) => tell(request, read(options())),
        Node::OptPrefix => tell(request, options().prefix.as_c_str().unwrap_or(c"").as_ptr()),
        Node::OptTimeResolution => {
            tell(request, if options().high_resolution { c"high" } else { c"default" }.as_ptr())
        }
        Node::Interval => tell(request, dump::interval()),
        Node::LgSample => tell(request, u64::from(prof::lg_sample())),
        Node::Statistic(read) => {
            request.only_read()?;
            let told = allocator::statistics().ok_or(Refusal::Unknown)?;
            request.give(read(&told))
        }
        Node::Active => switch(request, prof::is_active, prof::set_active),
        Node::ThreadActiveInit => switch(request, prof::are_new_threads_active, prof::set_new_threads_active),
        Node::ThreadActive => switch(request, prof::is_thread_active, prof::set_thread_active),
        Node::AtHighs => switch(request, dump::is_at_highs, dump::set_at_highs),
        Node::Dump | Node::Prefix | Node::Reset => act(node, request),
    }
}

fn tell<T: Copy>(request: &mut Request, value: T) -> Outcome {
    request.only_read()?;
    request.give(value)
}

/// A switch: false, and not to be set, while profiling is off.
fn switch(request: &mut Request, read: fn() -> bool, set: fn(bool)) -> Outcome {
    let prof = options().prof;
    let before = prof && read();
    if !prof && request.take_bool() != Ok(None) {
        return Err(Refusal::Unknown);
    }
    if let Some(wanted) = request.take_bool()? {
        set(wanted);
    }
    request.give(before)
}

/// What can only be written.
fn act(node: Node, request: &Request) -> Outcome {
    if !options().prof {
        return Err(Refusal::Unknown);
    }
    request.only_written()?;
    let done = match node {
        Node::Dump => dump::manual(request.take_text()?),
        Node::Prefix => request.take_text()?.is_some_and(dump::set_prefix),
        _ => {
            let lg_sample = request.take_u64()?.map_or(prof::lg_sample(), |lg| lg.min(63) as u32);
            prof::reset(lg_sample);
            true
        }
    };
    if done { Ok(()) } else { Err(Refusal::Failed) }
}
