//! The highest number of live bytes, and what each site held then.
//!
//! When the process reaches a new peak, the *epoch* is incremented. A tally of an older epoch keeps
//! its live bytes before its next change (`TallyRef::keep_peak`), so a snapshot of all tallies at
//! the peak costs one comparison an event, and a store when a tally changes for the first time
//! after it. A new snapshot starts only when the peak has grown by a step, so that a growing
//! program does not start one at every event. A new period is a new epoch too: tallies of the
//! epochs before it are history.

use heapwise_format::segment::Counter;

use crate::atomics::{AtomicU32, AtomicU64, Ordering};
use crate::segment::Segment;
use crate::session::Session;

/// The peak of a session. Zeroed memory is valid: no period has started.
pub(crate) struct Peak {
    /// The epoch, and in the upper half that in which the period began.
    epochs: AtomicU64,
    /// The counting period, from 1.
    period: AtomicU32,
    /// Live bytes when the last snapshot started.
    snapshot_bytes: AtomicU64,
}

/// Smallest growth that starts another snapshot.
const LEAST_STEP: u64 = 512;
/// A snapshot is at most this part of the peak below it.
const PART: u64 = 128;

impl Peak {
    /// The epoch: what a tally is compared with.
    #[inline(always)]
    pub(crate) fn now(&self) -> u32 {
        self.epochs.load(Ordering::Relaxed) as u32
    }

    /// Whether an epoch belongs to the period in force.
    #[inline(always)]
    pub(crate) fn is_of_period(&self, epoch: u32) -> bool {
        let epochs = self.epochs.load(Ordering::Relaxed);
        let (now, first) = (epochs as u32, (epochs >> 32) as u32);
        epoch.wrapping_sub(first) <= now.wrapping_sub(first)
    }

    /// The counting period, from 1.
    #[inline(always)]
    pub(crate) fn period(&self) -> u32 {
        self.period.load(Ordering::Relaxed)
    }
}

/// Starts the next period.
pub(crate) fn start_period(session: &Session) {
    let Peak { epochs, period, snapshot_bytes } = &session.peak;
    let next = period.load(Ordering::Relaxed).wrapping_add(1).max(1);
    let started = |before: u64| {
        let epoch = (before as u32).wrapping_add(1);
        Some(u64::from(epoch) | u64::from(epoch) << 32)
    };
    let before = epochs.fetch_update(Ordering::Relaxed, Ordering::Relaxed, started).unwrap_or(0);
    period.store(next, Ordering::Relaxed);
    snapshot_bytes.store(0, Ordering::Relaxed);
    let epoch = u64::from((before as u32).wrapping_add(1));
    for (counter, value) in [
        (Counter::Period, next.into()),
        (Counter::PeriodEpoch, epoch),
        (Counter::PeakEpoch, epoch),
        (Counter::PeakEpochBytes, 0),
    ] {
        session.segment.counter(counter).store(value, Ordering::Relaxed);
    }
}

/// The process holds `live` bytes now, and held `highest` a moment ago.
pub(crate) fn reached(session: &Session, live: i64, highest: i64) {
    let Peak { epochs, snapshot_bytes, .. } = &session.peak;
    let segment = &session.segment;
    let (peak, highest) = (segment.counter(Counter::PeakBytes), highest.max(0) as u64);
    if highest > peak.load(Ordering::Relaxed) {
        peak.fetch_max(highest, Ordering::Relaxed);
    }
    let live = live.max(0) as u64;
    let last = snapshot_bytes.load(Ordering::Relaxed);
    if live > last + (last / PART).max(LEAST_STEP)
        && snapshot_bytes.compare_exchange(last, live, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    {
        let next = |epochs: u64| Some(epochs & !0xffff_ffff | u64::from((epochs as u32).wrapping_add(1)));
        let before = epochs.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).unwrap_or(0);
        let epoch = u64::from((before as u32).wrapping_add(1));
        segment.counter(Counter::PeakEpoch).store(epoch, Ordering::Relaxed);
        segment.counter(Counter::PeakEpochBytes).store(live, Ordering::Relaxed);
    }
}

/// Bytes that may be allocated before the process can be at a new peak.
pub(crate) fn headroom(segment: &Segment) -> u64 {
    let live = (segment.counter(Counter::LiveBytes).load(Ordering::Relaxed) as i64).max(0) as u64;
    segment.counter(Counter::PeakBytes).load(Ordering::Relaxed).saturating_sub(live)
}
