//! Live bytes of the process, of which every thread keeps a part to itself.
//!
//! A thread adds its part to the shared counter when the part leaves its bounds, so that threads do
//! not contend for the counter. Far below the peak the bounds are wide. Before parts in wide bounds
//! can hide a new peak, the thread that flushes collects the parts of all threads and narrows their
//! bounds, so the peak is right within 2 % or 64 KiB.
//!
//! *Invariant*: the counter, plus `live - collected` of every part, is the number of live bytes.
//! Every change keeps it, in any order: what is added to the counter is subtracted from a part.

use heapwise_format::segment::Counter;

use crate::atomics::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use crate::record::peak;
use crate::session::Session;
use crate::sites::chain::Array;
use crate::threads;

/// Most bytes that all threads together keep to themselves near the peak of a small process.
const MOST_UNFLUSHED: u64 = 64 * 1024;

/// The part of a thread, in a cache line of its own. Zeroed memory is valid. Numbers are signed.
#[repr(C, align(64))]
pub(crate) struct Part {
    /// Bytes allocated minus bytes freed since the last flush. Written by the thread alone.
    live: AtomicU64,
    /// How much of `live` is in the counter already.
    collected: AtomicU64,
    /// The part is flushed when `live` is outside these bounds.
    above: AtomicU64,
    below: AtomicU64,
    /// The counting period of `live`.
    period: AtomicU32,
}

/// The parts of all threads. Zeroed memory is valid: none.
pub(crate) struct LiveBytes {
    parts: Array<Part>,
    /// The part of threads without a record, which do not count here.
    unused: Part,
    /// The largest distance to the peak that bounds were derived from since the last collection; 0
    /// when all bounds are narrow.
    granted: AtomicU64,
    is_collecting: AtomicBool,
}

impl LiveBytes {
    /// Makes room for the parts of so many threads; false without memory.
    pub(crate) fn map(&self, threads: u64) -> bool {
        self.parts.map(threads);
        threads == 0 || self.parts.get(0).is_some()
    }

    /// Unmaps the parts. No thread may use them afterwards.
    pub(crate) fn release(&self) {
        self.parts.release();
    }

    /// The part of the thread with this record.
    pub(super) fn part(&self, record: Option<u32>) -> &Part {
        record.and_then(|record| self.parts.get(record)).unwrap_or(&self.unused)
    }
}

impl Part {
    /// Adds to the part; its live bytes.
    #[inline(always)]
    pub(super) fn add(&self, bytes: u64) -> i64 {
        let live = self.live.load(Ordering::Relaxed).wrapping_add(bytes);
        self.live.store(live, Ordering::Relaxed);
        live as i64
    }

    /// Whether the part is to be flushed, after an allocation.
    #[inline(always)]
    pub(super) fn is_above(&self, live: i64) -> bool {
        live > self.above.load(Ordering::Relaxed) as i64
    }

    /// Counts a free; true when the part is to be flushed.
    #[inline(always)]
    #[must_use]
    pub(super) fn subtract(&self, bytes: u64) -> bool {
        self.add(bytes.wrapping_neg()) < self.below.load(Ordering::Relaxed) as i64
    }

    /// Drops what was counted in an earlier period.
    pub(super) fn restart(&self, period: u32) {
        self.take();
        self.period.store(period, Ordering::Relaxed);
    }

    /// Empties the part: its live bytes, and how many of them are in the counter.
    fn take(&self) -> (i64, i64) {
        let live = self.live.swap(0, Ordering::Relaxed) as i64;
        (live, self.collected.swap(0, Ordering::Relaxed) as i64)
    }

    /// Adds the part to the counter. `highest`: the most it held since the last flush.
    pub(super) fn flush(&self, session: &Session, highest: i64) {
        let (live, collected) = self.take();
        if self.period.load(Ordering::Relaxed) == session.peak.period() {
            let change = live.wrapping_sub(collected);
            let highest = highest.wrapping_sub(collected).max(change);
            let counter = session.segment.counter(Counter::LiveBytes);
            let mut before = counter.fetch_add(change as u64, Ordering::Relaxed) as i64;
            if may_hide_a_peak(session, before.wrapping_add(highest)) {
                before = before.wrapping_add(collect(session));
            }
            peak::reached(session, before.wrapping_add(change), before.wrapping_add(highest));
        }
        self.set_bounds(session);
    }

    /// Chooses when the part is flushed next: rarely far below the peak, often near it.
    fn set_bounds(&self, session: &Session) {
        let threads = session.threads.live();
        let live = current(session);
        let tolerance = tolerance(live) / threads;
        // Alone, a thread can afford to be more exact.
        let step = if threads == 1 { (live / 128).clamp(512, MOST_UNFLUSHED) } else { tolerance };
        let headroom = peak::headroom(&session.segment);
        let wide = headroom / (4 * threads);
        self.above.store(step.max(wide), Ordering::Relaxed);
        self.below.store(tolerance.max(wide).wrapping_neg(), Ordering::Relaxed);
        if wide > tolerance && threads > 1 {
            session.threads.live_bytes.granted.fetch_max(headroom, Ordering::Relaxed);
        }
    }
}

/// Live bytes by the counter.
fn current(session: &Session) -> u64 {
    (session.segment.counter(Counter::LiveBytes).load(Ordering::Relaxed) as i64).max(0) as u64
}

/// Bytes by which the sum of all parts may differ from 0 at the peak.
fn tolerance(live: u64) -> u64 {
    MOST_UNFLUSHED.max(live / 100)
}

/// Whether parts in wide bounds may add up to a new peak. Bounds are a quarter of the headroom they
/// were derived from, all threads together, or half while the number of threads grows.
fn may_hide_a_peak(session: &Session, live: i64) -> bool {
    let granted = session.threads.live_bytes.granted.load(Ordering::Relaxed);
    granted != 0 && {
        let peak = session.segment.counter(Counter::PeakBytes).load(Ordering::Relaxed);
        peak.saturating_sub(live.max(0) as u64) < granted / 2
    }
}

/// Adds the parts of all threads to the counter, and narrows their bounds. Returns their sum.
#[cold]
fn collect(session: &Session) -> i64 {
    let LiveBytes { parts, granted, is_collecting, .. } = &session.threads.live_bytes;
    if is_collecting.swap(true, Ordering::Acquire) {
        return 0;
    }
    // Bounds that a thread widens from now on count for the next collection.
    granted.store(0, Ordering::Relaxed);
    let narrow = tolerance(current(session)) / session.threads.live();
    let mut sum: i64 = 0;
    for part in (0..threads::used(session)).filter_map(|record| parts.get(record)) {
        if part.period.load(Ordering::Relaxed) != session.peak.period() {
            continue;
        }
        let live = part.live.load(Ordering::Relaxed);
        let more = live.wrapping_sub(part.collected.load(Ordering::Relaxed));
        if more != 0 {
            part.collected.fetch_add(more, Ordering::Relaxed);
            sum = sum.wrapping_add(more as i64);
        }
        part.above.store(live.wrapping_add(narrow), Ordering::Relaxed);
        part.below.store(live.wrapping_sub(narrow), Ordering::Relaxed);
    }
    session.segment.counter(Counter::LiveBytes).fetch_add(sum as u64, Ordering::Relaxed);
    is_collecting.store(false, Ordering::Release);
    sum
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::session::TestSession;

    const THREADS: u32 = 3;
    const EVENTS: u64 = if cfg!(miri) { 50 } else { 20_000 };

    /// Threads that allocate 3 and free 2 bytes in turn, while others collect their parts.
    #[test]
    fn nothing_is_lost_beside_collections() {
        let session = &*TestSession::new();
        session.segment.counter(Counter::Threads).store(THREADS.into(), Ordering::Relaxed);
        std::thread::scope(|scope| {
            for record in 0..THREADS {
                scope.spawn(move || {
                    let part = session.threads.live_bytes.part(Some(record));
                    part.restart(session.peak.period());
                    for event in 0..EVENTS {
                        part.add(3);
                        if part.subtract(2) || event % 7 == 0 {
                            part.flush(session, 0);
                        }
                        if event % 5 == 0 {
                            collect(session);
                        }
                    }
                });
            }
        });
        collect(session);
        assert_eq!(current(session), u64::from(THREADS) * EVENTS);
        for record in 0..THREADS {
            session.threads.live_bytes.part(Some(record)).flush(session, 0);
        }
        assert_eq!(current(session), u64::from(THREADS) * EVENTS);
    }
}
