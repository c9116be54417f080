//! Frees that came before their allocations.

use std::collections::VecDeque;

use heapwise_format::recording::{Age, SiteBlock};
use rustc_hash::FxHashMap;

/// A free whose allocation has not come yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PendingFree {
    /// Size of the block.
    pub size: u64,
    /// The thread that freed it.
    pub thread: u32,
    /// When.
    pub since_ms: u64,
    pub age: Age,
    pub is_missed: bool,
}

/// All pending frees by site, the oldest of each first.
#[derive(Debug, Default)]
pub(super) struct PendingFrees {
    by_site: FxHashMap<u32, VecDeque<PendingFree>>,
    /// Time of the next search for expired ones.
    look_ms: u64,
}

/// Looking for expired frees goes through all of them, so not every millisecond.
const LOOK_MS: u64 = 100;

impl PendingFrees {
    pub(super) fn add(&mut self, site: u32, free: PendingFree) {
        self.by_site.entry(site).or_default().push_back(free);
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.by_site.is_empty()
    }

    /// Takes out the oldest free of a block of this site and size.
    pub(super) fn take(&mut self, block: SiteBlock) -> Option<PendingFree> {
        let frees = self.by_site.get_mut(&block.site)?;
        let taken = frees.remove(frees.iter().position(|free| free.size == block.size)?);
        if frees.is_empty() {
            self.by_site.remove(&block.site);
        }
        taken
    }

    /// Whether the next search for expired ones is due.
    pub(super) fn is_time(&mut self, now_ms: u64) -> bool {
        let is_time = !self.by_site.is_empty() && now_ms >= self.look_ms;
        if is_time {
            self.look_ms = now_ms.saturating_add(LOOK_MS);
        }
        is_time
    }

    /// Takes out those added up to `until_ms`, in their order.
    pub(super) fn take_expired(&mut self, until_ms: u64) -> Vec<PendingFree> {
        let mut expired = Vec::new();
        self.by_site.retain(|site, frees| {
            while let Some(free) = frees.pop_front_if(|free| free.since_ms <= until_ms) {
                expired.push((*site, free));
            }
            !frees.is_empty()
        });
        expired.sort_by_key(|(site, free)| (free.since_ms, *site));
        expired.into_iter().map(|(_, free)| free).collect()
    }
}
