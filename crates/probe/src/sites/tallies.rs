//! Tallies: what was allocated and freed at each site.
//!
//! Numbers are handed out once and stay valid for the life of the segment, so the index of live
//! blocks can name a tally. Every tally has one writing thread, which loads and stores without a
//! lock prefix, except the shared ones ([`NO_THREAD`]), which all threads update atomically.
#![allow(unsafe_code)]

use core::mem::offset_of;

use heapwise_format::segment::{Counter, NO_THREAD, SectionKind, Tally, TallyDetails, TallyWeights};

use super::chain::{self, Array, End};
use super::stack_tree;
use crate::atomics::{AtomicPtr, AtomicU32, AtomicU64, Ordering};
use crate::record::peak;
use crate::record::sampler::Sampled;
use crate::segment;

/// One [`Tally`] in the segment.
#[repr(C)]
pub(crate) struct Counts {
    /// [`SiteKey`] of the tally.
    site: AtomicU64,
    /// [`peak::Now`] when it changed last.
    now: AtomicU64,
    allocs: AtomicU64,
    alloc_bytes: AtomicU64,
    frees: AtomicU64,
    freed_bytes: AtomicU64,
    alloc_slack: AtomicU64,
    freed_slack: AtomicU64,
}

const _: () = assert!(size_of::<Counts>() == size_of::<Tally>());
const _: () = assert!(offset_of!(Counts, now) == offset_of!(Tally, peak_epoch));
const _: () = assert!(offset_of!(Counts, allocs) == offset_of!(Tally, allocs));
const _: () = assert!(offset_of!(Counts, freed_slack) == offset_of!(Tally, freed_slack));

/// One [`TallyDetails`].
#[repr(C)]
struct Details {
    min_size: AtomicU32,
    max_size: AtomicU32,
    peak_blocks: AtomicU64,
    peak_bytes: AtomicU64,
    grown_bytes: AtomicU64,
}

const _: () = assert!(size_of::<Details>() == size_of::<TallyDetails>());

/// One [`TallyWeights`]: four sums of the samples allocated, then of those freed.
type Weights = [AtomicU64; 8];
const _: () = assert!(size_of::<Weights>() == size_of::<TallyWeights>());

/// Key of a tally: stack, sampling distance and allocating thread, as in the record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SiteKey(u64);

impl SiteKey {
    #[inline(always)]
    pub(crate) fn new(node: u32, rate: u16, thread: u16) -> SiteKey {
        SiteKey(u64::from(node) | u64::from(rate) << 32 | u64::from(thread) << 48)
    }

    pub(crate) fn node(self) -> u32 {
        self.0 as u32
    }

    pub(crate) fn rate(self) -> u16 {
        (self.0 >> 32) as u16
    }

    /// Sampling distance and thread.
    #[inline(always)]
    pub(crate) fn owner(self) -> u32 {
        (self.0 >> 32) as u32
    }

    #[inline(always)]
    pub(crate) fn thread(self) -> u16 {
        (self.0 >> 48) as u16
    }
}

/// A block as it is counted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Amount {
    /// Requested bytes.
    pub(crate) size: u64,
    /// Usable minus requested bytes.
    pub(crate) slack: u64,
}

/// A tally and its number.
#[derive(Clone, Copy)]
pub(crate) struct TallyRef {
    pub(crate) number: u32,
    pub(crate) counts: &'static Counts,
}

/// The writers of a tally.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Writer {
    /// The calling thread alone.
    Own,
    /// Any thread.
    Shared,
}

/// Data of a tally besides its record. Zeroed memory is valid.
struct Links {
    /// First of the tallies in which other threads count the frees of its blocks.
    remote: AtomicU32,
    /// Next in the list that this tally is in.
    next: AtomicU32,
    /// The tally whose frees it counts; 0 when it is not remote.
    of: AtomicU32,
    /// Of a remote tally: 1 when all threads may write it.
    is_shared: AtomicU32,
}

static LINKS: Array<Links> = Array::none();
/// The first record; null without a segment.
static BASE: AtomicPtr<Counts> = AtomicPtr::new(core::ptr::null_mut());
/// Tallies handed out. All records below are populated. Private: the segment may be overwritten by
/// others.
static NEXT: AtomicU32 = AtomicU32::new(0);
/// Tallies reserved at a time.
const CHUNK: u32 = 16;

/// Starts an empty table in a fresh segment (again after `fork`); false without memory.
pub(crate) fn init() -> bool {
    let section = segment::section(SectionKind::Tallies);
    LINKS.renew(section.capacity);
    NEXT.store(0, Ordering::Relaxed);
    BASE.store(segment::base().wrapping_add(section.offset as usize).cast(), Ordering::Relaxed);
    if take_numbers(CHUNK).is_none() {
        return false;
    }
    for (number, rate) in [(Tally::OVERFLOW_EXACT, 0), (Tally::OVERFLOW_SAMPLED, u16::MAX)] {
        describe(number, SiteKey::new(stack_tree::OUT_OF_SITES, rate, NO_THREAD));
    }
    true
}

/// A new period starts: events that find no room are counted afresh.
pub(crate) fn restart_overflow() {
    for number in [Tally::OVERFLOW_EXACT, Tally::OVERFLOW_SAMPLED] {
        if let Some(counts) = get(number) {
            for word in [&counts.allocs, &counts.alloc_bytes, &counts.frees, &counts.freed_bytes] {
                word.store(0, Ordering::Relaxed);
            }
            counts.alloc_slack.store(0, Ordering::Relaxed);
            counts.freed_slack.store(0, Ordering::Relaxed);
            counts.now.store(peak::now(), Ordering::Relaxed);
            let tally = TallyRef { number, counts };
            if let Some(weights) = tally.weights() {
                weights.iter().for_each(|word| word.store(0, Ordering::Relaxed));
            }
            if let Some(details) = tally.details() {
                for word in [&details.peak_blocks, &details.peak_bytes, &details.grown_bytes] {
                    word.store(0, Ordering::Relaxed);
                }
            }
        }
    }
}

/// Requests large pages: every block will be recorded.
pub(crate) fn prefer_large_pages() {
    LINKS.prefer_large_pages();
}

/// Numbers for tallies, with their records populated; `None` when the table or the memory is full.
fn take_numbers(count: u32) -> Option<u32> {
    let capacity = segment::section(SectionKind::Tallies).capacity;
    loop {
        let first = NEXT.load(Ordering::Acquire);
        let end = first + count;
        if u64::from(end) > capacity
            || !populate(SectionKind::Tallies, first, count)
            || !populate(SectionKind::TallyDetails, first, count)
        {
            return None;
        }
        if NEXT.compare_exchange(first, end, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
            segment::counter(Counter::Tallies).fetch_max(end.into(), Ordering::Release);
            return Some(first);
        }
    }
}

fn populate(kind: SectionKind, first: u32, count: u32) -> bool {
    let section = segment::section(kind);
    let Some(offset) = section.record_offset(first.into()) else { return false };
    segment::ensure_populated(offset, section.record_bytes * u64::from(count))
}

/// Numbers that a thread has taken and not used yet. Zeroed memory is valid: none.
#[derive(Clone, Copy, Default)]
pub(crate) struct Reserve {
    next: u32,
    end: u32,
}

impl Reserve {
    fn take(&mut self) -> Option<u32> {
        if self.next == self.end {
            self.next = take_numbers(CHUNK)?;
            self.end = self.next + CHUNK;
        }
        self.next += 1;
        Some(self.next - 1)
    }
}

/// Writes a new record.
fn describe(number: u32, site: SiteKey) -> Option<TallyRef> {
    let counts = get(number)?;
    if site.rate() != 0 && !populate(SectionKind::TallyWeights, number, 1) {
        return None;
    }
    stack_tree::clear_sizes(site.node());
    counts.now.store(peak::now(), Ordering::Relaxed);
    counts.site.store(site.0, Ordering::Release);
    Some(TallyRef { number, counts })
}

/// The tally of a number; `None` for a number that was not handed out.
#[inline(always)]
pub(crate) fn get(number: u32) -> Option<&'static Counts> {
    Table::current().get(number)
}

/// Address and length of the table, as cached by a thread. Zeroed memory is valid: empty.
#[derive(Clone, Copy)]
pub(crate) struct Table {
    base: *const Counts,
    len: u32,
}

impl Table {
    #[inline(always)]
    pub(crate) fn current() -> Table {
        let len = NEXT.load(Ordering::Acquire);
        Table { base: BASE.load(Ordering::Relaxed), len }
    }

    /// The tally of a number, if it was handed out when the table was taken.
    #[inline(always)]
    pub(crate) fn get(&self, number: u32) -> Option<&'static Counts> {
        // SAFETY: records below `len` are populated and stay mapped; their words are atomics.
        (number < self.len).then(|| unsafe { &*self.base.add(number as usize) })
    }
}

/// Makes a tally for a thread.
pub(crate) fn make(reserve: &mut Reserve, site: SiteKey) -> Option<TallyRef> {
    describe(reserve.take()?, site)
}

/// Makes a tally in which the calling thread counts the frees of another thread's blocks, of this
/// period.
pub(crate) fn make_remote(reserve: &mut Reserve, of: TallyRef) -> Option<TallyRef> {
    link_remote(describe(reserve.take()?, of.counts.site())?, of, Writer::Own)
}

/// The tally in which threads without a state count the frees of a thread's blocks.
pub(crate) fn shared_remote(of: TallyRef) -> Option<TallyRef> {
    let is_shared =
        |number: &u32| LINKS.get(*number).is_some_and(|links| links.is_shared.load(Ordering::Relaxed) != 0);
    if let Some(number) = remote(of.number).find(is_shared) {
        return Some(TallyRef { number, counts: get(number)? });
    }
    link_remote(describe(take_numbers(1)?, of.counts.site())?, of, Writer::Shared)
}

/// Puts a tally into the list of those that count the frees of another one.
fn link_remote(made: TallyRef, of: TallyRef, writer: Writer) -> Option<TallyRef> {
    let links = LINKS.get(made.number)?;
    links.of.store(of.number, Ordering::Relaxed);
    links.is_shared.store(u32::from(writer == Writer::Shared), Ordering::Relaxed);
    let first = &LINKS.get(of.number)?.remote;
    let mut head = first.load(Ordering::Acquire);
    loop {
        links.next.store(head, Ordering::Relaxed);
        match first.compare_exchange(head, made.number, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => return Some(made),
            Err(other) => head = other,
        }
    }
}

/// The tallies that count the frees of another one.
fn remote(of: u32) -> impl Iterator<Item = u32> {
    let first = LINKS.get(of).map_or(0, |links| links.remote.load(Ordering::Acquire));
    let next =
        |number: &u32| Some(LINKS.get(*number)?.next.load(Ordering::Relaxed)).filter(|next| *next != 0);
    core::iter::successors(Some(first).filter(|first| *first != 0), next)
}

/// The tally of a stack that all threads share, made when there is none; `None` when the table is
/// full.
pub(crate) fn shared(node: u32, rate: u16) -> Option<TallyRef> {
    let site = SiteKey::new(node, rate, NO_THREAD);
    let is_it =
        |number| get(number).is_some_and(|counts| counts.site() == site && counts.period() == peak::period());
    let mut link = stack_tree::shared_tally(node)?;
    loop {
        match chain::search(link, |number| Some(&LINKS.get(number)?.next), is_it) {
            End::Found(number) => return Some(TallyRef { number, counts: get(number)? }),
            End::Open(end) => {
                let made = describe(take_numbers(1)?, site)?;
                if chain::append(end, made.number) {
                    return Some(made);
                }
                // Another thread appended first. The number stays unused.
                link = end;
            }
            // One sampling distance after another: a list of that many is not searched further.
            End::Long => return None,
        }
    }
}

/// The tally of events that find no room for one.
pub(crate) fn overflow(rate: u16) -> Option<TallyRef> {
    let number = if rate == 0 { Tally::OVERFLOW_EXACT } else { Tally::OVERFLOW_SAMPLED };
    Some(TallyRef { number, counts: get(number)? })
}

impl Counts {
    #[inline(always)]
    pub(crate) fn site(&self) -> SiteKey {
        SiteKey(self.site.load(Ordering::Relaxed))
    }

    fn period(&self) -> u32 {
        peak::period_of(self.now.load(Ordering::Relaxed))
    }

    /// Whether it belongs to the period in force.
    pub(crate) fn is_of_period(&self) -> bool {
        self.period() == peak::period()
    }

    /// Whether it has changed since the last snapshot at a peak, and belongs to the period in
    /// force.
    #[inline(always)]
    pub(crate) fn is_current(&self, now: u64) -> bool {
        self.now.load(Ordering::Relaxed) == now
    }

    /// Counts an allocation, as its only writer.
    #[inline(always)]
    pub(crate) fn add_own_alloc(&self, amount: Amount) {
        add(&self.allocs, 1);
        add(&self.alloc_bytes, amount.size);
        add(&self.alloc_slack, amount.slack);
    }

    /// Counts a free, as its only writer.
    #[inline(always)]
    pub(crate) fn add_own_free(&self, amount: Amount) {
        add(&self.frees, 1);
        add(&self.freed_bytes, amount.size);
        add(&self.freed_slack, amount.slack);
    }
}

/// Adds to a word that the calling thread alone writes.
#[inline(always)]
pub(crate) fn add(word: &AtomicU64, amount: u64) {
    word.store(word.load(Ordering::Relaxed).wrapping_add(amount), Ordering::Relaxed);
}

#[inline(always)]
fn add_by(writer: Writer, word: &AtomicU64, amount: u64) {
    match writer {
        Writer::Own => add(word, amount),
        Writer::Shared => drop(word.fetch_add(amount, Ordering::Relaxed)),
    }
}

impl TallyRef {
    /// Counts an allocation that added `grown` bytes to an older block.
    pub(crate) fn count_alloc(self, writer: Writer, amount: Amount, grown: u64, sampled: Sampled) {
        self.keep_peak();
        if stack_tree::widen_sizes(self.counts.site().node(), amount.size) {
            self.note_size(amount.size);
        }
        let Counts { allocs, alloc_bytes, alloc_slack, .. } = self.counts;
        let slack = sampled.bytes(amount.slack);
        for (word, amount) in [(allocs, 1), (alloc_bytes, amount.size), (alloc_slack, slack)] {
            add_by(writer, word, amount);
        }
        if grown != 0
            && let Some(details) = self.details()
        {
            add_by(writer, &details.grown_bytes, sampled.bytes(grown));
        }
        self.count_weight(writer, amount.size, sampled, 0);
    }

    /// Counts a free.
    pub(crate) fn count_free(self, writer: Writer, amount: Amount, sampled: Sampled) {
        self.keep_peak();
        let Counts { frees, freed_bytes, freed_slack, .. } = self.counts;
        let slack = sampled.bytes(amount.slack);
        for (word, amount) in [(frees, 1), (freed_bytes, amount.size), (freed_slack, slack)] {
            add_by(writer, word, amount);
        }
        self.count_weight(writer, amount.size, sampled, 4);
    }

    /// Weight of a block of this site.
    #[inline(always)]
    pub(crate) fn sampled(self, size: u64) -> Sampled {
        match self.counts.site().rate() {
            0 => Sampled::EXACT,
            rate => Sampled::new(size, super::rates::of(rate)),
        }
    }

    /// Adds the weight of a sample to the four sums from `first` on.
    fn count_weight(self, writer: Writer, size: u64, sampled: Sampled, first: usize) {
        if self.counts.site().rate() == 0 {
            return;
        }
        let Some(weights) = self.weights() else { return };
        let bytes = size as f64;
        let sums =
            [sampled.blocks, sampled.blocks * bytes, sampled.variance, sampled.variance * bytes * bytes];
        for (word, amount) in weights.iter().skip(first).zip(sums) {
            let sum = |bits: u64| (f64::from_bits(bits) + amount).to_bits();
            match writer {
                Writer::Own => word.store(sum(word.load(Ordering::Relaxed)), Ordering::Relaxed),
                Writer::Shared => {
                    let _ = word.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |bits| Some(sum(bits)));
                }
            }
        }
    }

    /// Before the first change after a snapshot at a peak: keeps what was live then.
    pub(crate) fn keep_peak(self) {
        let (word, now) = (&self.counts.now, peak::now());
        let before = word.load(Ordering::Relaxed);
        if before == now || peak::period_of(before) != peak::period_of(now) {
            return;
        }
        let (blocks, bytes) = self.live();
        // Of threads that share a tally, one keeps it.
        if word.compare_exchange(before, now, Ordering::Relaxed, Ordering::Relaxed).is_ok()
            && let Some(details) = self.details()
        {
            details.peak_blocks.store(blocks as u64, Ordering::Relaxed);
            details.peak_bytes.store(bytes as u64, Ordering::Relaxed);
        }
    }

    /// Live blocks and bytes of this tally alone, estimated for samples.
    fn live(self) -> (i64, i64) {
        let difference = |more: &AtomicU64, less: &AtomicU64| {
            more.load(Ordering::Relaxed).wrapping_sub(less.load(Ordering::Relaxed)) as i64
        };
        if self.counts.site().rate() == 0 {
            let Counts { allocs, alloc_bytes, frees, freed_bytes, .. } = self.counts;
            return (difference(allocs, frees), difference(alloc_bytes, freed_bytes));
        }
        let Some(weights) = self.weights() else { return (0, 0) };
        let [blocks, bytes, _, _, freed_blocks, freed_bytes, ..] =
            weights.each_ref().map(|word| f64::from_bits(word.load(Ordering::Relaxed)));
        ((blocks - freed_blocks) as i64, (bytes - freed_bytes) as i64)
    }

    /// Widens the range of sizes of the site.
    pub(crate) fn note_size(self, size: u64) {
        let Some(details) = self.details() else { return };
        let least = u32::try_from(size.saturating_add(1)).unwrap_or(u32::MAX);
        let min = details.min_size.load(Ordering::Relaxed);
        if min == 0 || least < min {
            details.min_size.store(least, Ordering::Relaxed);
        }
        let most = u32::try_from(size).unwrap_or(u32::MAX);
        if most > details.max_size.load(Ordering::Relaxed) {
            details.max_size.store(most, Ordering::Relaxed);
        }
    }

    /// Smallest and largest size so far, as far as they are below 4 GiB.
    pub(crate) fn sizes(self) -> (u32, u32) {
        let sizes = self.details().map(|details| {
            (details.min_size.load(Ordering::Relaxed), details.max_size.load(Ordering::Relaxed))
        });
        let (min, max) = sizes.unwrap_or((0, 0));
        (min.saturating_sub(1), max)
    }

    fn details(self) -> Option<&'static Details> {
        let place = segment::existing_of::<TallyDetails>(SectionKind::TallyDetails, u64::from(self.number))?;
        // SAFETY: populated with the tally; its words are atomics and stay mapped.
        Some(unsafe { &*place.cast() })
    }

    fn weights(self) -> Option<&'static Weights> {
        let place = segment::existing_of::<TallyWeights>(SectionKind::TallyWeights, u64::from(self.number))?;
        // SAFETY: as `details`.
        Some(unsafe { &*place.cast() })
    }
}

/// A site's sums over all threads that counted for it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sum {
    pub(crate) site: SiteKey,
    pub(crate) allocs: u64,
    pub(crate) alloc_bytes: u64,
    pub(crate) live: u64,
    pub(crate) live_bytes: u64,
    /// Of a sampled site, [`TallyWeights`]: blocks and bytes ever, blocks and bytes live.
    pub(crate) estimates: [f64; 4],
}

/// Calls `with` for each site and allocating thread of this period.
pub(crate) fn each_sum(mut with: impl FnMut(&Sum)) {
    for number in 1..NEXT.load(Ordering::Acquire) {
        let Some(counts) = get(number) else { continue };
        let site = counts.site();
        // Remote tallies are in the lists of those whose frees they count.
        if site.0 == 0 || !counts.is_of_period() || is_remote(number) {
            continue;
        }
        with(&sum(TallyRef { number, counts }));
    }
}

/// Whether a tally counts the frees of another one.
fn is_remote(number: u32) -> bool {
    LINKS.get(number).is_some_and(|links| links.of.load(Ordering::Relaxed) != 0)
}

fn sum(tally: TallyRef) -> Sum {
    let load = |word: &AtomicU64| word.load(Ordering::Relaxed);
    let mut frees = load(&tally.counts.frees);
    let mut freed_bytes = load(&tally.counts.freed_bytes);
    let allocs = load(&tally.counts.allocs);
    let alloc_bytes = load(&tally.counts.alloc_bytes);
    let mut estimates = estimates(tally);
    for number in remote(tally.number) {
        let Some(counts) = get(number) else { continue };
        frees = frees.wrapping_add(load(&counts.frees));
        freed_bytes = freed_bytes.wrapping_add(load(&counts.freed_bytes));
        for (sum, part) in estimates.iter_mut().zip(self::estimates(TallyRef { number, counts })) {
            *sum += part;
        }
    }
    // Read while threads count: a free may be seen before its allocation.
    let live = |more: u64, less: u64| (more.wrapping_sub(less) as i64).max(0) as u64;
    Sum {
        site: tally.counts.site(),
        allocs,
        alloc_bytes,
        live: live(allocs, frees),
        live_bytes: live(alloc_bytes, freed_bytes),
        estimates,
    }
}

/// Blocks and bytes ever, blocks and bytes live.
fn estimates(tally: TallyRef) -> [f64; 4] {
    let Some(weights) = tally.weights().filter(|_| tally.counts.site().rate() != 0) else { return [0.0; 4] };
    let [blocks, bytes, _, _, freed_blocks, freed_bytes, ..] =
        weights.each_ref().map(|word| f64::from_bits(word.load(Ordering::Relaxed)));
    [blocks, bytes, blocks - freed_blocks, bytes - freed_bytes]
}
