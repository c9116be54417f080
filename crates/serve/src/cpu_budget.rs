//! When a live process is read again. Many viewers must not slow down the process: each process has
//! a small budget of CPU time for renders of it. While some remains, a request gets a new snapshot;
//! when it is used up, all requests get the last one until the budget has grown again.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// Renders of one process take at most this fraction (1/N) of one core, with any number of viewers.
const SHARE: u32 = 200;
/// Budget saved up while idle: about ten renders of a usual profile in a row.
const MOST_SAVED: Duration = Duration::from_millis(25);
/// Longest wait for a new snapshot, even after a render that overdrew the budget by more.
const LONGEST: Duration = Duration::from_secs(10);
/// Requests within this time share a generation, as the parts of one page do.
const SAME: Duration = Duration::from_millis(50);
/// Processes kept.
const MOST: usize = 1024;

/// The budgets of all processes, by source id.
#[derive(Debug, Default)]
pub(crate) struct CpuBudget(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    of: HashMap<String, Account>,
    /// Generations so far; numbers are unique over all processes.
    begun: u64,
}

/// One generation of one process: all requests during it get the same answer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Generation {
    pub number: u64,
    since: Instant,
}

impl Generation {
    /// Age of the snapshot.
    pub(crate) fn age(&self) -> Duration {
        self.since.elapsed()
    }
}

#[derive(Debug)]
struct Account {
    generation: Generation,
    /// The next request starts a new generation.
    ended: bool,
    /// Nanoseconds of CPU time left; negative after an expensive render.
    left: i64,
    /// Until when `left` has grown.
    counted: Instant,
}

impl Account {
    fn new(now: Instant) -> Self {
        let generation = Generation { number: 0, since: now };
        Self { generation, ended: true, left: MOST_SAVED.as_nanos() as i64, counted: now }
    }

    fn grow(&mut self, now: Instant) {
        let grown = (now.duration_since(self.counted) / SHARE).as_nanos() as i64;
        self.left = self.left.saturating_add(grown).min(MOST_SAVED.as_nanos() as i64);
        self.counted = now;
    }

    fn spend(&mut self, time: Duration) {
        let most_owed = -((LONGEST / SHARE).as_nanos() as i64);
        self.left = self.left.saturating_sub(time.as_nanos() as i64).max(most_owed);
    }

    fn is_over(&self, now: Instant) -> bool {
        self.ended || (self.left > 0 && now.duration_since(self.generation.since) >= SAME)
    }
}

impl CpuBudget {
    /// The generation of a process now.
    pub(crate) fn now(&self, id: &str) -> Generation {
        self.at(id, Instant::now())
    }

    fn at(&self, id: &str, now: Instant) -> Generation {
        let mut state = self.lock();
        let State { of, begun } = &mut *state;
        if of.len() >= MOST && !of.contains_key(id) {
            of.clear();
        }
        let account = of.entry(id.to_owned()).or_insert_with(|| Account::new(now));
        account.grow(now);
        if account.is_over(now) {
            *begun += 1;
            account.generation = Generation { number: *begun, since: now };
            account.ended = false;
        }
        account.generation
    }

    /// Runs a render of a process and charges its CPU time to the budget.
    pub(crate) fn charge<T>(&self, id: &str, draw: impl FnOnce() -> T) -> T {
        let before = thread_time();
        let drawn = draw();
        self.spend(id, thread_time().saturating_sub(before));
        drawn
    }

    fn spend(&self, id: &str, time: Duration) {
        if let Some(account) = self.lock().of.get_mut(id) {
            account.spend(time);
        }
    }

    /// Ends the generation: the next request gets a new snapshot.
    pub(crate) fn end(&self, id: &str) {
        if let Some(account) = self.lock().of.get_mut(id) {
            account.ended = true;
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// CPU time of this thread. Wall time would include waiting.
fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_a_new_moment_for_whoever_asks_until_the_allowance_is_used_up() {
        let (budget, start) = (CpuBudget::default(), Instant::now());
        let after = |ms: u64| budget.at("1-2", start + Duration::from_millis(ms)).number;
        let first = after(0);
        assert_eq!(after(49), first);
        let second = after(50);
        assert_ne!(second, first);
        // 25 ms are saved up, 35 are spent: 10 are to be earned, at one in 200.
        budget.spend("1-2", Duration::from_millis(35));
        assert_eq!(after(2000), second);
        let third = after(2101);
        assert_ne!(third, second);
        // No request gets a snapshot older than ten seconds, for any overdraft.
        budget.spend("1-2", Duration::from_secs(60));
        assert_eq!(after(12_000), third);
        assert_ne!(after(12_102), third);
    }

    #[test]
    fn over_a_long_time_pictures_take_their_share_and_no_more() {
        let (budget, start) = (CpuBudget::default(), Instant::now());
        let (mut last, mut spent) = (0, Duration::ZERO);
        for ms in (0..600_000).step_by(10) {
            let number = budget.at("1-2", start + Duration::from_millis(ms)).number;
            if number != last {
                last = number;
                let cost = Duration::from_millis(7);
                budget.spend("1-2", cost);
                spent += cost;
            }
        }
        let share = spent.as_secs_f64() / 600.0;
        assert!((0.0049..0.0052).contains(&share), "{share}");
    }

    #[test]
    fn processes_have_moments_of_their_own_and_changes_end_them() {
        let budget = CpuBudget::default();
        let (one, other) = (budget.now("1-2").number, budget.now("3-4").number);
        assert_ne!(one, other);
        budget.spend("1-2", Duration::from_secs(1));
        budget.spend("3-4", Duration::from_secs(1));
        budget.end("1-2");
        assert_ne!(budget.now("1-2").number, one);
        assert_eq!(budget.now("3-4").number, other);
    }

    #[test]
    fn what_is_charged_is_processor_time_and_not_waiting() {
        let budget = CpuBudget::default();
        budget.now("1-2");
        let before = budget.lock().of["1-2"].left;
        budget.charge("1-2", || std::thread::sleep(Duration::from_millis(30)));
        let spent = before - budget.lock().of["1-2"].left;
        assert!((0..20_000_000).contains(&spent), "{spent} ns");
    }
}
