//! When a live process is looked at anew. Many people looking must not slow down what they look at: all who ask
//! within one moment get the same snapshot, and a moment lasts the longer the more its pictures cost to draw.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// A moment lasts this many times the processor time spent on it: looking takes at most 1/50 of one core for each
/// process, however many look.
const REST: u32 = 50;
/// The shortest moment: nobody sees that a picture is younger.
const SHORTEST: Duration = Duration::from_millis(250);
/// The longest: what is shown is never older.
const LONGEST: Duration = Duration::from_secs(10);
/// Processes remembered.
const MOST: usize = 1024;

/// The current moments of all processes, by source id.
#[derive(Debug, Default)]
pub(crate) struct Moments(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    of: HashMap<String, Moment>,
    /// Moments begun; no two have the same number, also of different processes.
    begun: u64,
}

/// One moment of one process.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Moment {
    pub number: u64,
    since: Instant,
    spent: Duration,
}

impl Moment {
    fn is_over(&self, now: Instant) -> bool {
        now.duration_since(self.since) >= (self.spent * REST).clamp(SHORTEST, LONGEST)
    }

    /// How old what it shows is.
    pub(crate) fn age(&self) -> Duration {
        self.since.elapsed()
    }
}

impl Moments {
    /// The moment of a process now.
    pub(crate) fn now(&self, id: &str) -> Moment {
        self.at(id, Instant::now())
    }

    fn at(&self, id: &str, now: Instant) -> Moment {
        let mut state = self.lock();
        if let Some(moment) = state.of.get(id).filter(|moment| !moment.is_over(now)) {
            return *moment;
        }
        if state.of.len() >= MOST {
            state.of.clear();
        }
        state.begun += 1;
        let moment = Moment { number: state.begun, since: now, spent: Duration::ZERO };
        state.of.insert(id.to_owned(), moment);
        moment
    }

    /// Runs what draws a picture of a process, and counts what it costs.
    pub(crate) fn charge<T>(&self, id: &str, draw: impl FnOnce() -> T) -> T {
        let before = thread_time();
        let drawn = draw();
        self.spend(id, thread_time().saturating_sub(before));
        drawn
    }

    fn spend(&self, id: &str, time: Duration) {
        if let Some(moment) = self.lock().of.get_mut(id) {
            moment.spent += time;
        }
    }

    /// Something was changed: who asks next sees it.
    pub(crate) fn end(&self, id: &str) {
        self.lock().of.remove(id);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Processor time of this thread. Wall time would count the waiting for others too.
fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_lasts_the_longer_the_more_it_costs() {
        let (moments, start) = (Moments::default(), Instant::now());
        let after = |ms: u64| start + Duration::from_millis(ms);
        let first = moments.at("1-2", start).number;
        assert_eq!(moments.at("1-2", after(249)).number, first);
        moments.spend("1-2", Duration::from_millis(20));
        assert_eq!(moments.at("1-2", after(999)).number, first);
        let second = moments.at("1-2", after(1000)).number;
        assert_ne!(second, first);
        moments.spend("1-2", Duration::from_secs(3));
        assert_eq!(moments.at("1-2", after(10_999)).number, second);
        assert_ne!(moments.at("1-2", after(11_000)).number, second);
    }

    #[test]
    fn processes_have_moments_of_their_own_and_changes_end_them() {
        let moments = Moments::default();
        let (one, other) = (moments.now("1-2").number, moments.now("3-4").number);
        assert_ne!(one, other);
        moments.end("1-2");
        assert_ne!(moments.now("1-2").number, one);
        assert_eq!(moments.now("3-4").number, other);
    }

    #[test]
    fn what_is_charged_is_processor_time_and_not_waiting() {
        let moments = Moments::default();
        let first = moments.now("1-2").number;
        moments.charge("1-2", || std::thread::sleep(Duration::from_millis(30)));
        let spent = moments.lock().of["1-2"].spent;
        assert!(spent < Duration::from_millis(20), "{spent:?}");
        assert_eq!(moments.now("1-2").number, first);
    }
}
