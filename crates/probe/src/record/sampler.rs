//! Selection of samples: a Poisson process over the requested bytes of each thread.
//!
//! The distance to the next sample is exponential, so that a block of `size` bytes is taken with
//! probability `1 - e^(-size / rate)`, independent of earlier blocks, and the distance may be
//! redrawn at any time (a changed rate) without bias. The stubs count it down in steps, so that a
//! thread polls the control page regularly.

use super::exponential::{exponential, inverse_probability};
use crate::atomics::Ordering;
use crate::control::Settings;
use crate::sites::rates::Rate;
use crate::sys;
use crate::threads::ThreadWords;

/// Most bytes between two polls of the control page.
const STEP: u64 = 32 * 1024;
/// The distance when nothing is sampled.
const NEVER: u64 = u64::MAX / 2;

/// Counts `size` bytes; the rate that they are a sample of, if they are one.
pub(crate) fn take(settings: &Settings, words: &ThreadWords, size: u64) -> Option<Rate> {
    let rate = settings.rate();
    if words.rate.load(Ordering::Relaxed) != rate.word() {
        words.rate.store(rate.word(), Ordering::Relaxed);
        start(settings, words, rate);
    }
    match distance(words).checked_sub(size) {
        Some(rest) => {
            set_distance(words, rest);
            None
        }
        None => {
            // With the probe off: the first call of a thread, and requests that no allocator can
            // satisfy.
            start(settings, words, rate);
            (rate != Rate::NONE).then_some(rate)
        }
    }
}

/// The rate that `size` bytes are a sample of, if [`take`] would take them and the rate is as
/// before. Counts nothing.
#[inline(always)]
pub(super) fn sampled_rate(settings: &Settings, words: &ThreadWords, size: u64) -> Option<Rate> {
    let rate = settings.rate();
    let is_sample = rate != Rate::NONE && words.rate.load(Ordering::Relaxed) == rate.word();
    (is_sample && distance(words) < size).then_some(rate)
}

/// Draws the distance to the next sample.
#[inline(always)]
pub(super) fn start(settings: &Settings, words: &ThreadWords, rate: Rate) {
    set_distance(words, draw(rate, settings, words));
}

/// Bytes to the next sample.
#[inline(always)]
fn distance(words: &ThreadWords) -> u64 {
    words.countdown.load(Ordering::Relaxed).saturating_add(words.gap.load(Ordering::Relaxed))
}

fn set_distance(words: &ThreadWords, distance: u64) {
    let countdown = distance.min(STEP);
    words.countdown.store(countdown, Ordering::Relaxed);
    words.gap.store(distance - countdown, Ordering::Relaxed);
}

fn draw(rate: Rate, settings: &Settings, words: &ThreadWords) -> u64 {
    match rate.distance() {
        0 => NEVER,
        // Rounding down keeps P(distance < size) exact for whole sizes.
        mean => (exponential(random(settings, words)) * mean as i64 as f64) as i64 as u64,
    }
}

/// Random bits.
fn random(settings: &Settings, words: &ThreadWords) -> u64 {
    let mut seed = words.random.load(Ordering::Relaxed);
    if seed == 0 {
        seed = settings.seed().unwrap_or_else(sys::random) | 1;
    }
    // xorshift64*
    seed ^= seed >> 12;
    seed ^= seed << 25;
    seed ^= seed >> 27;
    words.random.store(seed, Ordering::Relaxed);
    seed.wrapping_mul(0x2545_f491_4f6c_dd1d)
}

/// Weight of a sample.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sampled {
    /// Number of blocks, `1/p`.
    pub(crate) blocks: f64,
    /// Its contribution to the variance of their number, `(1-p)/p²`.
    pub(crate) variance: f64,
}

impl Sampled {
    /// A block of weight 1.
    pub(crate) const EXACT: Sampled = Sampled { blocks: 1.0, variance: 0.0 };

    /// A sample of `size` bytes at mean distance `rate`; 0 and 1 mean that every block is recorded.
    pub(crate) fn new(size: u64, rate: u64) -> Sampled {
        if rate <= 1 {
            return Sampled::EXACT;
        }
        // A block of no bytes is sampled as if it had one.
        let blocks = inverse_probability(size.max(1) as i64 as f64, rate as i64 as f64);
        Sampled { blocks, variance: blocks * (blocks - 1.0) }
    }

    /// Weight in bytes.
    #[inline(always)]
    pub(crate) fn bytes(self, size: u64) -> u64 {
        if self.blocks == 1.0 {
            return size;
        }
        (self.blocks * size as i64 as f64 + 0.5) as i64 as u64
    }

    /// The number of blocks, rounded up or down by the block's address: unbiased over many blocks,
    /// and equal for the allocation and the free of a block.
    #[inline(always)]
    pub(crate) fn whole_blocks(self, address: u64) -> u64 {
        if self.blocks == 1.0 {
            return 1;
        }
        let hash = (address.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as i64;
        (self.blocks + hash as f64 / (1_u64 << 32) as f64) as i64 as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_are_unbiased() {
        let bytes = |size, rate| Sampled::new(size, rate).bytes(size);
        assert_eq!(bytes(100, 0), 100);
        assert_eq!(bytes(1 << 30, 4096), 1 << 30);
        // The weight of a small block is one rate plus half the block's size.
        let small = bytes(64, 524_288);
        assert!((524_288 + 30..524_288 + 34).contains(&small), "{small}");
    }
}
