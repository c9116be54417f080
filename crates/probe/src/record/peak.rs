//! The highest number of live bytes, and what each site held then.
//!
//! When the process reaches a new peak, the *peak epoch* is incremented. A tally of an older epoch
//! keeps its live bytes before its next change (`TallyRef::keep_peak`), so a snapshot of all
//! tallies at the peak costs one comparison an event, and a store when a tally changes for the
//! first time after it. A new snapshot starts only when the peak has grown by a step, so that a
//! growing program does not start one at every event.

use heapwise_format::segment::Counter;

use crate::atomics::{AtomicU64, Ordering};
use crate::segment::Segment;
use crate::session::Session;

/// The peak of a session. Zeroed memory is valid: no period has started.
pub(crate) struct Peak {
    /// Epoch of the last snapshot, and the period in the upper half: what a tally is compared with.
    now: AtomicU64,
    /// Live bytes when the last snapshot started.
    snapshot_bytes: AtomicU64,
}

/// Smallest growth that starts another snapshot.
const LEAST_STEP: u64 = 512;
/// A snapshot is at most this part of the peak below it.
const PART: u64 = 128;

impl Peak {
    /// The word that tallies are compared with.
    #[inline(always)]
    pub(crate) fn now(&self) -> u64 {
        self.now.load(Ordering::Relaxed)
    }

    /// The counting period, from 1.
    #[inline(always)]
    pub(crate) fn period(&self) -> u32 {
        period_of(self.now())
    }
}

/// The period of a word.
#[inline(always)]
pub(crate) fn period_of(now: u64) -> u32 {
    (now >> 32) as u32
}

/// Starts the next period.
pub(crate) fn start_period(session: &Session) {
    let Peak { now, snapshot_bytes } = &session.peak;
    let period = session.peak.period().wrapping_add(1).max(1);
    now.store(u64::from(period) << 32, Ordering::Relaxed);
    snapshot_bytes.store(0, Ordering::Relaxed);
    for (counter, value) in
        [(Counter::Period, period.into()), (Counter::PeakEpoch, 0), (Counter::PeakEpochBytes, 0)]
    {
        session.segment.counter(counter).store(value, Ordering::Relaxed);
    }
}

/// The process holds `live` bytes now, and held `highest` a moment ago.
pub(crate) fn reached(session: &Session, live: i64, highest: i64) {
    let Peak { now, snapshot_bytes } = &session.peak;
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
        let next = |now: u64| Some(now & !0xffff_ffff | u64::from((now as u32).wrapping_add(1)));
        let before = now.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).unwrap_or(0);
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
