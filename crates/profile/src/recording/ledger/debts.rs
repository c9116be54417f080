//! Frees that came before their allocations.

use std::collections::VecDeque;

use heapwise_format::recording::Age;
use rustc_hash::FxHashMap;

/// A free without its block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Debt {
    /// Who freed it.
    pub thread: u32,
    /// When.
    pub since_ms: u64,
    pub age: Age,
    pub is_missed: bool,
}

/// All debts by bucket, the oldest of each first.
#[derive(Debug, Default)]
pub(super) struct Debts {
    by_bucket: FxHashMap<u32, VecDeque<Debt>>,
    /// When to look for old ones next.
    look_ms: u64,
}

/// Looking for old debts goes through all of them, so not every millisecond.
const LOOK_MS: u64 = 100;

impl Debts {
    pub(super) fn owe(&mut self, bucket: u32, debt: Debt) {
        self.by_bucket.entry(bucket).or_default().push_back(debt);
    }

    /// Whether a bucket has any.
    pub(super) fn is_owed(&self, bucket: u32) -> bool {
        self.by_bucket.contains_key(&bucket)
    }

    /// Takes out a bucket's oldest; and whether it has more.
    pub(super) fn pay(&mut self, bucket: u32) -> (Option<Debt>, bool) {
        let Some(debts) = self.by_bucket.get_mut(&bucket) else { return (None, false) };
        let paid = debts.pop_front();
        let has_more = !debts.is_empty();
        if !has_more {
            self.by_bucket.remove(&bucket);
        }
        (paid, has_more)
    }

    /// Whether it is time to look for those that will not be paid.
    pub(super) fn is_time(&mut self, now_ms: u64) -> bool {
        let is_time = !self.by_bucket.is_empty() && now_ms >= self.look_ms;
        if is_time {
            self.look_ms = now_ms.saturating_add(LOOK_MS);
        }
        is_time
    }

    /// Takes out those made up to `until_ms`, in their order.
    pub(super) fn write_off(&mut self, until_ms: u64) -> Vec<(u32, Debt)> {
        let mut old = Vec::new();
        self.by_bucket.retain(|bucket, debts| {
            while let Some(debt) = debts.pop_front_if(|debt| debt.since_ms <= until_ms) {
                old.push((*bucket, debt));
            }
            !debts.is_empty()
        });
        old.sort_by_key(|(bucket, debt)| (debt.since_ms, *bucket));
        old
    }
}
