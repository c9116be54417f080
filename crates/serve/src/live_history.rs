//! Live, allocated and resident bytes of the served processes, read once a second.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use heapwise_profile::finding::ResidentMemory;
use heapwise_profile::ledger::{Ledger, LedgerHistory};

use super::lru::Lru;
use super::timeline::{Mark, Timeline};

/// Time between two points.
pub(crate) const STEP: Duration = Duration::from_secs(1);
/// Points kept of a process: an hour; beyond that every second one is dropped, so that a day still
/// fits.
const MOST_POINTS: usize = 3600;
/// Ledgers kept of a process; beyond that, every second one is dropped.
const MOST_LEDGERS: usize = 2000;
/// Age up to which a reading of resident memory is used again.
const MEMORY_LASTS_MS: u64 = 6_000;
/// Marks kept of a process.
const MOST_MARKS: usize = 256;
/// Processes watched.
const MOST_TRACKS: usize = 256;

/// The curves of all processes, by source id.
#[derive(Debug, Default)]
pub(crate) struct LiveHistory {
    tracks: Mutex<Lru<Track>>,
}

#[derive(Debug, Default)]
struct Track {
    /// Oldest first.
    points: VecDeque<Point>,
    marks: VecDeque<(u64, String)>,
    peak: Option<Peak>,
    /// Main lines of the ledgers that were read, by wall-clock milliseconds.
    ledgers: LedgerHistory,
    /// The last ledger, and when it was read.
    memory: Option<(u64, ResidentMemory)>,
}

/// The peak of a process, as the probe has it: the highest reading may be lower.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Peak {
    /// Wall-clock milliseconds of the first reading after it; `None` when it was before the curve.
    ms: Option<u64>,
    bytes: u64,
}

/// Counters of a process at one moment.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Reading {
    pub live: u64,
    /// Bytes allocated since counting began.
    pub allocated: u64,
    /// Highest number of live bytes since counting began.
    pub peak: u64,
    /// Resident bytes; 0 when they could not be read.
    pub rss: u64,
}

/// A reading of a process.
#[derive(Debug, Clone, Copy)]
struct Point {
    /// Wall-clock milliseconds.
    ms: u64,
    live: u64,
    /// Bytes allocated since counting began.
    allocated: u64,
    rss: u64,
}

impl LiveHistory {
    /// Adds a point to the curve of a process.
    pub(crate) fn beat(&self, id: &str, reading: Reading) {
        let mut tracks = self.lock();
        let track = track(&mut tracks, id);
        let Reading { live, allocated, peak, rss } = reading;
        let point = Point { ms: now_ms(), live, allocated, rss };
        let is_seen = !track.points.is_empty() || live >= peak;
        // A reset makes it smaller.
        if track.peak.is_none_or(|known| known.bytes != peak) {
            track.peak = Some(Peak { ms: is_seen.then_some(point.ms), bytes: peak });
        }
        track.points.push_back(point);
        if track.points.len() > MOST_POINTS {
            let mut keep = false;
            track.points.retain(|_| {
                keep = !keep;
                keep
            });
        }
    }

    /// Adds a ledger of a process that was read now.
    pub(crate) fn ledger(&self, id: &str, ledger: &Ledger) {
        let mut tracks = self.lock();
        let track = track(&mut tracks, id);
        track.memory = Some((now_ms(), ResidentMemory::of(ledger)));
        let ledgers = &mut track.ledgers;
        ledgers.push(now_ms(), ledger);
        if ledgers.moments.len() > MOST_LEDGERS {
            *ledgers = ledgers.thinned(MOST_LEDGERS / 2);
        }
    }

    /// The resident memory, if its last reading is recent.
    pub(crate) fn resident_memory(&self, id: &str) -> Option<ResidentMemory> {
        let (ms, memory) = self.lock().get(id)?.memory?;
        (now_ms().saturating_sub(ms) <= MEMORY_LASTS_MS).then_some(memory)
    }

    /// The ledgers so far, from the start of the curve of live bytes.
    pub(crate) fn ledger_history(&self, id: &str) -> LedgerHistory {
        let mut tracks = self.lock();
        let Some(track) = tracks.get(id) else { return LedgerHistory::default() };
        let first = track.ledgers.moments.first().map_or(0, |moment| moment.ms);
        let start = track.points.front().map_or(first, |point| point.ms.min(first));
        let mut history = track.ledgers.clone();
        for moment in &mut history.moments {
            moment.ms -= start.min(moment.ms);
        }
        history
    }

    /// Names this moment.
    pub(crate) fn mark(&self, id: &str, name: &str) {
        let mut tracks = self.lock();
        let track = track(&mut tracks, id);
        track.marks.push_back((now_ms(), name.to_owned()));
        while track.marks.len() > MOST_MARKS {
            track.marks.pop_front();
        }
    }

    /// The curve so far; `stored` are names and wall-clock milliseconds of stored profiles.
    pub(crate) fn timeline(&self, id: &str, stored: &[(String, u64)]) -> Timeline {
        let mut tracks = self.lock();
        let Some(track) = tracks.get(id) else { return Timeline::default() };
        let start = track.points.front().map_or_else(now_ms, |point| point.ms);
        let since = |ms: u64| ms.saturating_sub(start);
        let named =
            track.marks.iter().map(|(ms, name)| Mark { ms: since(*ms), name: name.clone(), profile: None });
        // A stamp is cut to the second, so a profile of the first second may lie just before it.
        let taken = stored.iter().filter(|(_, ms)| ms + 1000 > start).map(|(name, ms)| Mark {
            ms: since(*ms),
            name: name.clone(),
            profile: Some(name.clone()),
        });
        let mut marks: Vec<Mark> = named.chain(taken).collect();
        marks.sort_by_key(|mark| mark.ms);
        Timeline {
            start_unix_ms: Some(start),
            step_ms: STEP.as_millis() as u64,
            points: track.points.iter().map(|point| (since(point.ms), point.live)).collect(),
            allocated: allocated(&track.points),
            rss: track.points.iter().map(|point| point.rss).collect(),
            peak: track.peak.map(|peak| (peak.ms.map(since), peak.bytes)),
            marks,
            any_range: false,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Lru<Track>> {
        self.tracks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Bytes allocated between a point and the one before; a reset of the counts starts at zero.
fn allocated(points: &VecDeque<Point>) -> Vec<u64> {
    let mut before = points.front().map_or(0, |point| point.allocated);
    let step = |point: &Point| {
        let from = if point.allocated < before { 0 } else { before };
        before = point.allocated;
        point.allocated - from
    };
    points.iter().map(step).collect()
}

/// The curve of a process; a new one takes the place of the one used longest ago, whose process has
/// most likely ended.
fn track<'a>(tracks: &'a mut Lru<Track>, id: &str) -> &'a mut Track {
    if !tracks.contains(id) {
        if tracks.len() >= MOST_TRACKS {
            tracks.pop_oldest();
        }
        tracks.insert(id.to_owned(), Track::default());
    }
    tracks.get(id).expect("it was there or has just been inserted")
}

fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_curve_is_bounded_and_keeps_its_peak() {
        let pulse = LiveHistory::default();
        for live in 0..2 * MOST_POINTS as u64 {
            pulse.beat("1-2", Reading { live, allocated: 10 * live, peak: live, rss: 2 * live });
        }
        pulse.mark("1-2", "warm");
        let timeline = pulse.timeline("1-2", &[("a.heap".into(), now_ms())]);
        assert!(timeline.points.len() <= MOST_POINTS);
        assert_eq!(timeline.peak.map(|peak| peak.1), Some(2 * MOST_POINTS as u64 - 1));
        assert_eq!(timeline.rss.last(), Some(&(4 * MOST_POINTS as u64 - 2)));
        let names: Vec<_> = timeline.marks.iter().map(|mark| &*mark.name).collect();
        assert_eq!(names, ["warm", "a.heap"]);
        assert!(pulse.timeline("other", &[]).points.is_empty());
    }

    #[test]
    fn the_peak_is_the_probes_and_not_the_highest_reading() {
        let pulse = LiveHistory::default();
        let peak = |live, peak| {
            pulse.beat("1-2", Reading { live, allocated: 0, peak, rss: 0 });
            pulse.timeline("1-2", &[]).peak.map(|(ms, bytes)| (ms.is_some(), bytes))
        };
        assert_eq!(peak(690, 858), Some((false, 858)), "it was before the first reading");
        assert_eq!(peak(700, 858), Some((false, 858)));
        assert_eq!(peak(710, 900), Some((true, 900)), "between two readings");
        assert_eq!(peak(10, 20), Some((true, 20)), "after a reset");
    }

    #[test]
    fn allocated_bytes_are_differences_and_survive_a_reset() {
        let point = |allocated| Point { ms: 0, live: 0, allocated, rss: 0 };
        assert_eq!(allocated(&[100, 130, 130, 20].map(point).into()), [0, 30, 0, 20]);
    }
}
