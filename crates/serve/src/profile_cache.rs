//! A cache of loaded profiles with symbols: each is read once and shared.

use std::sync::{Arc, Mutex, PoisonError};

use heapwise_profile::Profile;
use heapwise_profile::own_code::OwnRule;

use super::cpu_budget::CpuBudget;
use super::error::Result;
use super::lru::Lru;
use super::memory_budget::{MemoryBudget, load_bytes};
use super::profile_store::Stored;
use super::source::Source;
use heapwise_symbolize::Options as SymbolOptions;

/// Profiles kept: a profile, its baseline, and a few recent ones.
const KEPT: usize = 8;

type Slot = Arc<Mutex<Option<Loaded>>>;

/// A profile and the bytes that it takes.
#[derive(Clone)]
struct Loaded {
    profile: Arc<Profile>,
    bytes: usize,
}

/// The loaded profiles.
pub(crate) struct ProfileCache {
    slots: Mutex<Lru<Slot>>,
    symbols: SymbolOptions,
    memory: Arc<MemoryBudget>,
    /// Which code is the program's own.
    pub own: OwnRule,
    /// How often a live process is read.
    pub budget: CpuBudget,
}

fn stored_key(source: &dyn Source, stored: &Stored, at: Option<&str>) -> String {
    format!("{}\n{}\n{}\n{}", source.id(), stored.name, stored.version, at.unwrap_or_default())
}

impl ProfileCache {
    /// An empty cache that finds symbols with `symbols`.
    pub(crate) fn new(symbols: SymbolOptions, own: OwnRule, memory: Arc<MemoryBudget>) -> Self {
        Self { slots: Mutex::default(), symbols, memory, own, budget: CpuBudget::default() }
    }

    /// A stored profile; `at` is a moment or range of a recording.
    pub(crate) fn stored(
        &self,
        source: &dyn Source,
        stored: &Stored,
        at: Option<&str>,
    ) -> Result<Arc<Profile>> {
        self.get(stored_key(source, stored, at), stored.bytes, || source.load(&stored.name, at))
    }

    /// As `stored`, with blocks of different sizes counted separately.
    pub(crate) fn stored_by_size(
        &self,
        source: &dyn Source,
        stored: &Stored,
        at: Option<&str>,
    ) -> Result<Arc<Profile>> {
        let key = format!("{}\nby size", stored_key(source, stored, at));
        self.get(key, stored.bytes, || source.load_by_size(&stored.name, at))
    }

    /// The state of a source now; all requests of one generation share it.
    pub(crate) fn current(&self, source: &dyn Source) -> Result<Arc<Profile>> {
        let generation = self.budget.now(source.id());
        self.get(format!("{}\nnow {}", source.id(), generation.number), 0, || source.current())
    }

    /// The state now, not shared: for the two ends of a difference.
    pub(crate) fn fresh(&self, source: &dyn Source) -> Result<Profile> {
        let _room = self.memory.reserve(load_bytes(0));
        let mut profile = source.current()?;
        heapwise_symbolize::symbolize(&mut profile, &self.symbols);
        Ok(profile)
    }

    /// Adds names to a profile that is not kept.
    pub(crate) fn symbolize(&self, profile: &mut Profile) {
        heapwise_symbolize::symbolize(profile, &self.symbols);
    }

    /// One load per key: other requests wait for it and share the result.
    fn get(
        &self,
        key: String,
        file_bytes: u64,
        load: impl FnOnce() -> Result<Profile>,
    ) -> Result<Arc<Profile>> {
        let slot = self.slot(key);
        let mut held = slot.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(loaded) = &*held {
            return Ok(Arc::clone(&loaded.profile));
        }
        let room = self.memory.reserve(load_bytes(file_bytes));
        let mut profile = load()?;
        heapwise_symbolize::symbolize(&mut profile, &self.symbols);
        drop(room);
        let bytes = profile.memory_bytes();
        let profile = Arc::new(profile);
        *held = Some(Loaded { profile: Arc::clone(&profile), bytes });
        drop(held);
        self.evict();
        Ok(profile)
    }

    /// Removes the profiles used longest ago until the others fit; the last one used stays.
    fn evict(&self) {
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        // A slot that is locked is being loaded; that load calls this again.
        let bytes_of = |slot: &Slot| {
            slot.try_lock().ok().and_then(|held| Some(held.as_ref()?.bytes)).unwrap_or_default()
        };
        let mut total: usize = slots.values().map(bytes_of).sum();
        while slots.len() > KEPT || (slots.len() > 1 && total > self.memory.profile_cache()) {
            let Some(slot) = slots.pop_oldest() else { break };
            total -= bytes_of(&slot).min(total);
        }
    }

    fn slot(&self, key: String) -> Slot {
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(slot) = slots.get(&key) {
            return Arc::clone(slot);
        }
        let slot = Slot::default();
        slots.insert(key, Arc::clone(&slot));
        slot
    }
}
