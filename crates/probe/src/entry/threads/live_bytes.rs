//! Live bytes of the process, of which every thread keeps a part to itself.
//!
//! A thread adds its part to the shared counter when the part leaves its bounds, so that threads do
//! not contend for the counter. How far all parts together may move unseen is a *budget*: large far
//! below the peak, small near it. A thread takes an allowance out of the budget when it flushes.
//! When the budget is used up or no longer fits, the thread that flushes collects the parts of all
//! threads and revokes their allowances: threads that do not run keep none. So the peak is right
//! within 2 % or 64 KiB.
//!
//! *Invariants*: the counter, plus `live - collected` of every part, is the number of live bytes.
//! `free`, plus the allowance of every part, is the budget. Every change keeps both, in any order.

use heapwise_format::segment::Counter;

use crate::atomics::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use crate::clock;
use crate::record::peak;
use crate::session::Session;
use crate::sites::chain::Array;
use crate::threads;

/// Most bytes that all threads together keep to themselves near the peak of a small process.
const MOST_UNFLUSHED: u64 = 64 * 1024;
/// An allowance is at most this part of the budget.
const LEAST_SHARES: u32 = 4;
/// Collect when less than one part in so many of the budget is free.
const RESERVE: u64 = 16;
/// Collections closer together than this, for each thread, make allowances smaller. Reading a part
/// takes a few nanoseconds.
const PACE_NS: u64 = 200;

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
    /// What the thread has taken out of the budget.
    allowance: AtomicU64,
    /// The counting period of `live`.
    period: AtomicU32,
}

/// The parts of all threads. Zeroed memory is valid: none.
pub(crate) struct LiveBytes {
    parts: Array<Part>,
    /// The part of threads without a record, which do not count here.
    unused: Part,
    /// How far all parts together may move unseen.
    budget: AtomicU64,
    /// What no thread has taken of it; signed.
    free: AtomicU64,
    /// An allowance is the budget divided by this.
    shares: AtomicU32,
    is_collecting: AtomicBool,
    /// Time of the last collection.
    collected_ns: AtomicU64,
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

    /// Takes an allowance in exchange for an old one.
    fn exchange(&self, old: u64) -> u64 {
        let share = self.budget.load(Ordering::Relaxed) / u64::from(self.shares());
        let take = |free: u64| (free.wrapping_add(old) as i64).clamp(0, share as i64) as u64;
        let after = |free: u64| Some(free.wrapping_add(old).wrapping_sub(take(free)));
        self.free.fetch_update(Ordering::Relaxed, Ordering::Relaxed, after).map_or(0, take)
    }

    fn shares(&self) -> u32 {
        self.shares.load(Ordering::Relaxed).max(LEAST_SHARES)
    }

    /// Adapts the allowances to how often threads collect.
    fn set_pace(&self, threads: u64) {
        let now = clock::monotonic_ns();
        let since = now.saturating_sub(self.collected_ns.swap(now, Ordering::Relaxed));
        let shares = match since / (PACE_NS * threads) {
            0 => self.shares().saturating_mul(2).min(threads as u32),
            1..16 => return,
            _ => self.shares() / 2,
        };
        self.shares.store(shares, Ordering::Relaxed);
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
        let live = self.live.load(Ordering::Relaxed) as i64;
        self.live.store(0, Ordering::Relaxed);
        let collected = self.collected.load(Ordering::Relaxed);
        if collected != 0 {
            self.collected.fetch_sub(collected, Ordering::Relaxed);
        }
        (live, collected as i64)
    }

    /// Adds the part to the counter. `highest`: the most it held since the last flush.
    pub(super) fn flush(&self, session: &Session, highest: i64) {
        let (live, collected) = self.take();
        if self.period.load(Ordering::Relaxed) == session.peak.period() {
            let change = live.wrapping_sub(collected);
            let highest = highest.wrapping_sub(collected).max(change);
            let counter = session.segment.counter(Counter::LiveBytes);
            let mut before = counter.fetch_add(change as u64, Ordering::Relaxed) as i64;
            if session.threads.live() > 1 && is_collection_due(session) {
                before = before.wrapping_add(collect(session));
            }
            peak::reached(session, before.wrapping_add(change), before.wrapping_add(highest));
        }
        self.set_bounds(session);
    }

    /// Chooses when the part is flushed next.
    fn set_bounds(&self, session: &Session) {
        let (above, below) = match session.threads.live() {
            // Alone, a thread can afford to be more exact, and needs no allowance.
            1 => alone(session),
            _ => [self.renew_allowance(&session.threads.live_bytes); 2].into(),
        };
        self.above.store(above, Ordering::Relaxed);
        self.below.store(below.wrapping_neg(), Ordering::Relaxed);
    }

    fn renew_allowance(&self, all: &LiveBytes) -> u64 {
        let allowance = all.exchange(self.allowance.swap(0, Ordering::Relaxed));
        self.allowance.store(allowance, Ordering::Relaxed);
        allowance
    }
}

/// Bounds of the only thread.
fn alone(session: &Session) -> (u64, u64) {
    let live = current(session);
    let wide = peak::headroom(&session.segment) / 4;
    ((live / 128).clamp(512, MOST_UNFLUSHED).max(wide), tolerance(live).max(wide))
}

/// Live bytes by the counter.
fn current(session: &Session) -> u64 {
    (session.segment.counter(Counter::LiveBytes).load(Ordering::Relaxed) as i64).max(0) as u64
}

/// Bytes by which the sum of all parts may differ from 0 at the peak.
fn tolerance(live: u64) -> u64 {
    MOST_UNFLUSHED.max(live / 100)
}

/// How far all parts together may move unseen now.
fn fitting_budget(session: &Session) -> u64 {
    tolerance(current(session)).max(peak::headroom(&session.segment) / 4)
}

/// Whether the budget is used up, or no longer fits: parts may add up to a new peak, or they could
/// be flushed less often.
fn is_collection_due(session: &Session) -> bool {
    let LiveBytes { budget, free, .. } = &session.threads.live_bytes;
    let (budget, free) = (budget.load(Ordering::Relaxed), free.load(Ordering::Relaxed) as i64);
    let fitting = fitting_budget(session);
    free < (budget / RESERVE) as i64 || fitting < budget / 2 || fitting / 2 > budget
}

/// Adds the parts of all threads to the counter, revokes their allowances, and makes another
/// budget. Returns the sum of the parts.
#[cold]
fn collect(session: &Session) -> i64 {
    let all = &session.threads.live_bytes;
    if all.is_collecting.swap(true, Ordering::Acquire) {
        return 0;
    }
    let (mut sum, mut revoked): (i64, u64) = (0, 0);
    for part in (0..threads::used(session)).filter_map(|record| all.parts.get(record)) {
        if part.allowance.load(Ordering::Relaxed) != 0 {
            revoked = revoked.wrapping_add(part.allowance.swap(0, Ordering::Relaxed));
        }
        if part.period.load(Ordering::Relaxed) != session.peak.period() {
            continue;
        }
        let live = part.live.load(Ordering::Relaxed);
        let more = live.wrapping_sub(part.collected.load(Ordering::Relaxed));
        if more != 0 {
            part.collected.fetch_add(more, Ordering::Relaxed);
            sum = sum.wrapping_add(more as i64);
        }
        part.above.store(live, Ordering::Relaxed);
        part.below.store(live, Ordering::Relaxed);
    }
    session.segment.counter(Counter::LiveBytes).fetch_add(sum as u64, Ordering::Relaxed);
    let budget = fitting_budget(session);
    let before = all.budget.swap(budget, Ordering::Relaxed);
    all.free.fetch_add(revoked.wrapping_add(budget).wrapping_sub(before), Ordering::Relaxed);
    all.set_pace(session.threads.live());
    all.is_collecting.store(false, Ordering::Release);
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
        let all = &session.threads.live_bytes;
        let allowance = |record| all.part(Some(record)).allowance.load(Ordering::Relaxed);
        let taken: u64 = (0..THREADS).map(allowance).sum();
        let free = all.free.load(Ordering::Relaxed);
        assert_eq!(free.wrapping_add(taken), all.budget.load(Ordering::Relaxed));
    }
}
