//! Which allocations are samples: a Poisson process over the requested bytes of each thread.
//!
//! The distance to the next sample is exponential, so that a block of `size` bytes is taken with probability
//! `1 - e^(-size / rate)` whatever came before, and may be redrawn at any moment (a changed rate) without
//! bias. The stubs count it down in steps, so that a thread looks at the control page now and then.

use crate::atomics::Ordering;
use crate::exponential::{ln, one_minus_exp};
use crate::thread::Words;
use crate::{control, sys};

/// Most bytes between two looks at the control page.
const STEP: u64 = 32 * 1024;
/// The distance when nothing is sampled.
const NEVER: u64 = u64::MAX / 2;

/// Counts `size` bytes; whether they are a sample.
pub(crate) fn take(words: &Words, size: u64) -> bool {
    let epoch = control::epoch();
    if words.epoch.load(Ordering::Relaxed) != epoch {
        words.epoch.store(epoch, Ordering::Relaxed);
        set_distance(words, draw(words));
    }
    let distance = words.countdown.load(Ordering::Relaxed).saturating_add(words.gap.load(Ordering::Relaxed));
    match distance.checked_sub(size) {
        Some(rest) => {
            set_distance(words, rest);
            false
        }
        None => {
            // Off, only requests that no allocator can meet get here.
            set_distance(words, draw(words));
            control::sampling_distance() != 0
        }
    }
}

fn set_distance(words: &Words, distance: u64) {
    let countdown = distance.min(STEP);
    words.countdown.store(countdown, Ordering::Relaxed);
    words.gap.store(distance - countdown, Ordering::Relaxed);
}

fn draw(words: &Words) -> u64 {
    match control::sampling_distance() {
        0 => NEVER,
        // `-ln u` is exponential with mean 1; rounding down keeps P(distance < size) exact for whole sizes.
        mean => (-ln(uniform(words)) * mean as f64) as u64,
    }
}

/// A number in `(0, 1]`.
fn uniform(words: &Words) -> f64 {
    let mut seed = words.random.load(Ordering::Relaxed);
    if seed == 0 {
        seed = control::seed().unwrap_or_else(sys::random) | 1;
    }
    // xorshift64*
    seed ^= seed >> 12;
    seed ^= seed << 25;
    seed ^= seed >> 27;
    words.random.store(seed, Ordering::Relaxed);
    let bits = seed.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11;
    (bits + 1) as f64 / (1_u64 << 53) as f64
}

/// Bytes that a sample of `size` bytes stands for.
pub(crate) fn weighted_bytes(size: u64, rate: u64) -> u64 {
    if rate <= 1 || size == 0 {
        return size;
    }
    let size = size as f64;
    (size / one_minus_exp(size / rate as f64) + 0.5) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_are_unbiased() {
        assert_eq!(weighted_bytes(100, 0), 100);
        assert_eq!(weighted_bytes(1 << 30, 4096), 1 << 30);
        // A small block stands for half its own size more than one rate.
        let small = weighted_bytes(64, 524_288);
        assert!((524_288 + 30..524_288 + 34).contains(&small), "{small}");
    }
}
