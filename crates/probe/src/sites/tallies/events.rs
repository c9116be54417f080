//! Events on a tally: sums, sizes, weights of samples, what it held at the peak.
#![allow(unsafe_code)]

use heapwise_format::segment::{SectionKind, TallyDetails, TallyWeights};

use super::TallyRef;
use super::counts::{Amount, Counts, SizeLimits, Writer, add_by};
use crate::atomics::{AtomicU32, AtomicU64, Ordering};
use crate::record::sampler::Sampled;
use crate::session::Session;
use crate::sites::rates;

/// One [`TallyDetails`].
#[repr(C)]
pub(super) struct Details {
    min_size: AtomicU32,
    max_size: AtomicU32,
    pub(super) peak_blocks: AtomicU64,
    pub(super) peak_bytes: AtomicU64,
    pub(super) grown_bytes: AtomicU64,
}

const _: () = assert!(size_of::<Details>() == size_of::<TallyDetails>());

/// One [`TallyWeights`]: four sums of the samples allocated, then of those freed.
pub(super) type Weights = [AtomicU64; 8];
const _: () = assert!(size_of::<Weights>() == size_of::<TallyWeights>());

impl TallyRef {
    /// Counts an allocation that added `grown` bytes to an older block.
    pub(crate) fn count_alloc(
        self,
        session: &Session,
        writer: Writer,
        amount: Amount,
        grown: u64,
        sampled: Sampled,
    ) {
        self.keep_peak(session);
        self.widen_sizes(session, amount.size);
        let Counts { allocs, alloc_bytes, alloc_slack, .. } = self.counts;
        let slack = sampled.bytes(amount.slack);
        for (word, amount) in [(allocs, 1), (alloc_bytes, amount.size), (alloc_slack, slack)] {
            add_by(writer, word, amount);
        }
        if grown != 0
            && let Some(details) = self.make_details(session)
        {
            add_by(writer, &details.grown_bytes, sampled.bytes(grown));
        }
        self.count_weight(session, writer, amount.size, sampled, 0);
    }

    /// Counts a free.
    pub(crate) fn count_free(self, session: &Session, writer: Writer, amount: Amount, sampled: Sampled) {
        self.keep_peak(session);
        let Counts { frees, freed_bytes, freed_slack, .. } = self.counts;
        let slack = sampled.bytes(amount.slack);
        for (word, amount) in [(frees, 1), (freed_bytes, amount.size), (freed_slack, slack)] {
            add_by(writer, word, amount);
        }
        self.count_weight(session, writer, amount.size, sampled, 4);
    }

    /// Counts an allocation that is a sample, as the only writer of a tally that is current and
    /// knows the size.
    #[inline(always)]
    pub(crate) fn add_own_sample(self, session: &Session, amount: Amount, sampled: Sampled) {
        let Amount { size, slack } = amount;
        self.counts.add_own_alloc(Amount { size, slack: sampled.bytes(slack) });
        self.count_weight(session, Writer::Own, size, sampled, 0);
    }

    /// Weight of a block of this site.
    #[inline(always)]
    pub(crate) fn sampled(self, session: &Session, size: u64) -> Sampled {
        match self.counts.site().rate() {
            0 => Sampled::EXACT,
            rate => Sampled::new(size, rates::of(&session.segment, rate)),
        }
    }

    /// Adds the weight of a sample to the four sums from `first` on.
    fn count_weight(self, session: &Session, writer: Writer, size: u64, sampled: Sampled, first: usize) {
        if self.counts.site().rate() == 0 {
            return;
        }
        let Some(weights) = self.weights(session) else { return };
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
    pub(crate) fn keep_peak(self, session: &Session) {
        let (word, now) = (&self.counts.now, session.peak.now());
        let before = word.load(Ordering::Relaxed);
        if before == now || !session.peak.is_of_period(before) {
            return;
        }
        // Without memory the epoch stays: readers take what is live.
        let Some(details) = self.make_details(session) else { return };
        let (blocks, bytes) = self.live(session);
        // Of threads that share a tally, one keeps it.
        if word.compare_exchange(before, now, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            details.peak_blocks.store(blocks as u64, Ordering::Relaxed);
            details.peak_bytes.store(bytes as u64, Ordering::Relaxed);
        }
    }

    /// Live blocks and bytes of this tally alone, estimated for samples.
    fn live(self, session: &Session) -> (i64, i64) {
        let difference = |more: &AtomicU64, less: &AtomicU64| {
            more.load(Ordering::Relaxed).wrapping_sub(less.load(Ordering::Relaxed)) as i64
        };
        if self.counts.site().rate() == 0 {
            let Counts { allocs, alloc_bytes, frees, freed_bytes, .. } = self.counts;
            return (difference(allocs, frees), difference(alloc_bytes, freed_bytes));
        }
        let Some(weights) = self.weights(session) else { return (0, 0) };
        let [blocks, bytes, _, _, freed_blocks, freed_bytes, ..] =
            weights.each_ref().map(|word| f64::from_bits(word.load(Ordering::Relaxed)));
        ((blocks - freed_blocks) as i64, (bytes - freed_bytes) as i64)
    }

    /// Widens the range of sizes of the site, if it has to.
    #[inline(always)]
    pub(crate) fn widen_sizes(self, session: &Session, size: u64) {
        if !self.counts.size_limits().contain(size) {
            self.note_size(session, size);
        }
    }

    /// Widens the range of sizes of the site.
    #[inline(never)]
    pub(crate) fn note_size(self, session: &Session, size: u64) {
        // Readers look at the details last.
        if SizeLimits::is_large(size)
            && let Some(details) = self.make_details(session)
        {
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
        self.counts.widen_size_limits(size);
    }

    /// Smallest and largest size so far, as far as they are below 4 GiB.
    pub(crate) fn sizes(self, session: &Session) -> Option<(u32, u32)> {
        let limits = self.counts.size_limits();
        if limits.are_empty() {
            return None;
        }
        let large = || {
            let details = self.details(session)?;
            let min = details.min_size.load(Ordering::Relaxed).checked_sub(1)?;
            Some((min, details.max_size.load(Ordering::Relaxed)))
        };
        match limits.small() {
            (Some(min), Some(max)) => Some((min, max)),
            (Some(min), None) => Some((min, large()?.1)),
            _ => large(),
        }
    }

    /// The details, if there are some.
    pub(super) fn details(self, session: &Session) -> Option<&'static Details> {
        let segment = &session.segment;
        let place = segment.existing_of::<TallyDetails>(SectionKind::TallyDetails, u64::from(self.number))?;
        // SAFETY: populated; its words are atomics and stay mapped.
        Some(unsafe { &*place.cast() })
    }

    /// The details, for writing; `None` without memory for them. While the file system has no space
    /// no memory is requested: the next event of this tally would repeat the request.
    #[inline(never)]
    fn make_details(self, session: &Session) -> Option<&'static Details> {
        let segment = &session.segment;
        self.details(session).or_else(|| {
            let has_space = !segment.is_out_of_space();
            has_space.then(|| segment.record(SectionKind::TallyDetails, self.number.into()))??;
            self.details(session)
        })
    }

    pub(super) fn weights(self, session: &Session) -> Option<&Weights> {
        let segment = &session.segment;
        let place = segment.existing_of::<TallyWeights>(SectionKind::TallyWeights, u64::from(self.number))?;
        // SAFETY: as `details`.
        Some(unsafe { &*place.cast() })
    }
}
