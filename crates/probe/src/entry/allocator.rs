//! The allocator's own statistics, read through its functions.
//!
//! They take the allocator's locks, so they are called only where the program could call them
//! itself: after an allocation has returned or before a free begins, never from inside the
//! allocator.

mod glibc;
mod jemalloc;
mod mimalloc;
mod tcmalloc;

use heapwise_format::segment::{AllocatorKind, Counter, StatsText};

use crate::atomics::{AtomicBool, AtomicU64, Ordering};
use crate::session::Session;
use crate::{hooks, process};

/// The allocator's own account, in bytes but for `arenas`; 0 where the allocator has no number.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Statistics {
    /// Handed out to the program.
    pub(crate) allocated: u64,
    /// In pages that hold live blocks.
    pub(crate) active: u64,
    /// In memory, at most.
    pub(crate) resident: u64,
    /// Mapped from the system.
    pub(crate) mapped: u64,
    /// Kept as addresses without memory.
    pub(crate) retained: u64,
    /// The allocator's own books.
    pub(crate) metadata: u64,
    pub(crate) arenas: u64,
    /// Free inside the allocator.
    pub(crate) free: u64,
    /// In blocks that are mapped one by one.
    pub(crate) large: u64,
}

/// Reads them; `None` when the allocator has none.
pub(crate) fn statistics() -> Option<Statistics> {
    let read = match hooks::allocator_kind() {
        AllocatorKind::Glibc => glibc::read(),
        AllocatorKind::Jemalloc => jemalloc::read(),
        AllocatorKind::Tcmalloc => tcmalloc::read(),
        AllocatorKind::Mimalloc => mimalloc::read(),
        AllocatorKind::Musl | AllocatorKind::Other => None,
    }?;
    // No more of it can be in memory than of the whole process.
    let resident =
        if read.resident == 0 { read.mapped.min(process::resident_bytes()) } else { read.resident };
    Some(Statistics { resident, ..read })
}

/// Answers to controllers. Zeroed memory is valid: none so far.
pub(crate) struct Answers {
    /// Request last answered.
    answered: AtomicU64,
    /// The probe has started; before, the allocator may not have.
    is_started: AtomicBool,
}

impl Answers {
    /// Requests are answered from now on.
    pub(crate) fn begin(&self) {
        self.is_started.store(true, Ordering::Relaxed);
    }
}

/// Answers the controller's request number `wanted`, once; with the allocator's text if that is
/// wanted and there is one.
pub(crate) fn answer(session: &Session, wanted: u64, text: Option<StatsText>) {
    let Answers { answered, is_started } = &session.allocator;
    if !is_started.load(Ordering::Relaxed) || answered.swap(wanted, Ordering::Relaxed) == wanted {
        return;
    }
    let statistics = self::statistics();
    if hooks::allocator_kind() == AllocatorKind::Jemalloc {
        jemalloc::tell_arenas(&session.segment);
    }
    let text_bytes = text.map_or(0, |request| match hooks::allocator_kind() {
        AllocatorKind::Jemalloc => jemalloc::print(&session.segment, request),
        _ => 0,
    });
    let numbers = statistics.unwrap_or_default();
    let show = |counter, value| session.segment.counter(counter).store(value, Ordering::Relaxed);
    show(Counter::StatsAllocated, numbers.allocated);
    show(Counter::StatsActive, numbers.active);
    show(Counter::StatsResident, numbers.resident);
    show(Counter::StatsMapped, numbers.mapped);
    show(Counter::StatsRetained, numbers.retained);
    show(Counter::StatsMetadata, numbers.metadata);
    show(Counter::StatsArenas, numbers.arenas);
    show(Counter::StatsFree, numbers.free);
    show(Counter::StatsLarge, numbers.large);
    show(Counter::StatsTextBytes, text_bytes);
    show(Counter::StatsError, if statistics.is_some() { 0 } else { libc::ENOSYS as u64 });
    session.segment.counter(Counter::StatsAnswered).store(wanted, Ordering::Release);
}
