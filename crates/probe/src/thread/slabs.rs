//! Which thread owns which slab of tallies.
//!
//! A slab's tallies only grow, so a slab whose owner ended goes to another thread as it is; preferably to
//! one of the same name, so that a pool's threads add up under one heading.

use heapwise_format::bytes::set_text;
use heapwise_format::segment::{Counter, SectionKind, Thread, ThreadState};

use crate::atomics::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use crate::jemalloc::options::options;
use crate::{process, segment, sys};

/// The slab that any thread may use, with atomic additions.
pub(crate) const SHARED_SLAB: u32 = 0;
/// Most slabs a layout has.
const MOST: usize = 128;
/// No thread record.
pub(super) const NO_RECORD: u32 = u32::MAX;

struct Slab {
    owned: AtomicBool,
    /// The last owner's name, as two words; zero before the first.
    name: [AtomicU64; 2],
    /// The last owner's thread record.
    record: AtomicU32,
}

static SLABS: [Slab; MOST] = [const {
    Slab {
        owned: AtomicBool::new(false),
        name: [const { AtomicU64::new(0) }; 2],
        record: AtomicU32::new(NO_RECORD),
    }
}; MOST];

type Name = [u64; 2];

fn current_name() -> Name {
    let bytes = u128::from_le_bytes(sys::thread_name());
    [bytes as u64, (bytes >> 64) as u64]
}

impl Slab {
    fn name(&self) -> Name {
        [self.name[0].load(Ordering::Relaxed), self.name[1].load(Ordering::Relaxed)]
    }

    fn claim(&self) -> bool {
        !self.owned.load(Ordering::Relaxed) && !self.owned.swap(true, Ordering::Acquire)
    }
}

/// A slab for the calling thread and its thread record.
pub(crate) fn acquire() -> (u32, u32) {
    let name = current_name();
    let slabs = segment::slabs().min(MOST as u64) as usize;
    let candidates = || SLABS.iter().enumerate().take(slabs).skip(1);
    let same = candidates().find(|(_, slab)| slab.name() == name && slab.claim());
    let fresh = || candidates().find(|(_, slab)| slab.name() == [0, 0] && slab.claim());
    let other = || candidates().find(|(_, slab)| slab.claim());
    let Some((index, slab)) = same.or_else(fresh).or_else(other) else {
        segment::count(Counter::SharedSlabs);
        return (SHARED_SLAB, new_record(SHARED_SLAB));
    };
    segment::counter(Counter::Slabs).fetch_max(index as u64 + 1, Ordering::Relaxed);
    let record = slab.record.load(Ordering::Relaxed);
    let record = if slab.name() == name && record != NO_RECORD { record } else { new_record(index as u32) };
    for (word, value) in slab.name.iter().zip(name) {
        word.store(value, Ordering::Relaxed);
    }
    slab.record.store(record, Ordering::Relaxed);
    describe(record, index as u32, ThreadState::Live);
    (index as u32, record)
}

/// The owner is gone; `record` gets its final name.
pub(crate) fn release(index: u32, record: u32) {
    describe(record, index, ThreadState::Ended);
    if index != SHARED_SLAB
        && let Some(slab) = SLABS.get(index as usize)
    {
        slab.owned.store(false, Ordering::Release);
    }
}

/// Forgets all owners: a forked child has none of its parent's other threads.
pub(crate) fn forget() {
    for slab in &SLABS {
        slab.owned.store(false, Ordering::Relaxed);
        slab.record.store(NO_RECORD, Ordering::Relaxed);
        slab.name.iter().for_each(|word| word.store(0, Ordering::Relaxed));
    }
}

fn new_record(slab: u32) -> u32 {
    let capacity = segment::section(SectionKind::Threads).capacity;
    let claim = |used: u64| (used < capacity).then_some(used + 1);
    let threads = segment::counter(Counter::Threads);
    let Ok(record) = threads.fetch_update(Ordering::Relaxed, Ordering::Relaxed, claim) else {
        return NO_RECORD;
    };
    describe(record as u32, slab, ThreadState::Live);
    record as u32
}

fn describe(record: u32, slab: u32, state: ThreadState) {
    if record == NO_RECORD {
        return;
    }
    let now = u64::from(process::age_ms());
    let mut name = [0; 32];
    for (to, from) in name.iter_mut().zip(sys::thread_name()) {
        *to = from;
    }
    let (born_ms, ended_ms) = match state {
        ThreadState::Live => (now, 0),
        ThreadState::Ended => (born_of(record), now),
    };
    let mut thread = Thread { tid: sys::tid(), state: state as u32, slab, named: 0, born_ms, ended_ms, name };
    if let (ThreadState::Ended, Some(before)) = (state, read(record)) {
        // What the program called it stays.
        (thread.named, thread.name) = if before.named == 0 { (0, name) } else { (1, before.name) };
    }
    segment::write(SectionKind::Threads, u64::from(record), thread);
}

fn read(record: u32) -> Option<Thread> {
    segment::read(SectionKind::Threads, u64::from(record))
}

/// The program names a thread.
pub(super) fn rename(record: u32, name: &[u8]) {
    if let Some(before) = read(record).filter(|_| record != NO_RECORD) {
        let mut thread = Thread { named: 1, ..before };
        set_text(&mut thread.name, name);
        segment::write(SectionKind::Threads, u64::from(record), thread);
    }
}

/// Slabs in use so far, the shared one among them.
pub(crate) fn slabs_used() -> u32 {
    segment::counter(Counter::Slabs).load(Ordering::Acquire).clamp(1, segment::slabs().max(1)) as u32
}

/// The thread that owned a slab last.
pub(crate) fn owner(slab: u32) -> Option<Thread> {
    let record = SLABS.get(slab as usize).filter(|_| slab != SHARED_SLAB)?.record.load(Ordering::Relaxed);
    if record == NO_RECORD { None } else { read(record) }
}

/// The name that dumps have: the program's, or where that is wanted the system's.
pub(crate) fn name_in_dumps(slab: u32) -> Option<[u8; 32]> {
    owner(slab).filter(|thread| thread.named != 0 || options().sys_thread_name).map(|thread| thread.name)
}

fn born_of(record: u32) -> u64 {
    read(record).map_or(0, |thread| thread.born_ms)
}
