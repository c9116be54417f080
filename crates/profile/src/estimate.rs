//! What one sampled block stands for.
//!
//! A block of `s` bytes is sampled with probability `p = 1 - e^(-s/T)` when the mean distance of samples
//! is `T` bytes. Horvitz–Thompson: it stands for `1/p` blocks of its size, which is unbiased for
//! counts and bytes, whatever the mix of sizes; the variance it adds to the count is `(1-p)/p²`.

/// Weight and variance per sampled block.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Weight {
    /// Blocks that one sampled block stands for.
    pub objects: f64,
    /// Variance added to the number of blocks.
    pub variance: f64,
}

impl Weight {
    /// The weight of a block of `size` bytes at mean distance `mean_bytes`; 0 and 1 mean exact.
    #[must_use]
    pub fn new(size: u64, mean_bytes: u64) -> Self {
        if mean_bytes <= 1 {
            return Self { objects: 1.0, variance: 0.0 };
        }
        // A block of no bytes is sampled as if it had one.
        let p = -(-(size.max(1) as f64) / mean_bytes as f64).exp_m1();
        Self { objects: 1.0 / p, variance: (1.0 - p) / (p * p) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_blocks_stand_for_many_and_large_ones_for_themselves() {
        let small = Weight::new(64, 524_288);
        assert!((small.objects - 8192.5).abs() < 0.01, "{small:?}");
        let large = Weight::new(100 << 20, 524_288);
        assert!((large.objects - 1.0).abs() < 1e-9 && large.variance < 1e-9);
        assert_eq!(Weight::new(64, 0), Weight { objects: 1.0, variance: 0.0 });
    }
}
