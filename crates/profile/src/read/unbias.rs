//! From the numbers of a sampled file to unbiased estimates, one record at a time.
//!
//! The factor depends on the mean block size of the record, so it must be applied before records
//! are added up. The operations follow jeprof's, in its order, so that the last digit is equal.

use crate::{Values, model::Sampling};

/// How a file's numbers relate to the true values.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Scaling {
    /// They are the true values.
    Exact,
    /// Poisson by bytes with this mean distance (`heap_v2`): p = 1 - e^(-size / mean).
    Poisson(f64),
    /// Distances uniform in twice this mean (the first version of tcmalloc's sampler): p = size /
    /// mean.
    Uniform(f64),
}

/// Values of a record `objects: bytes [objects: bytes]`, unbiased.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Estimate {
    pub(super) values: Values,
    pub(super) variance: Values,
}

/// Two pairs of a record: in use, and ever allocated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Counts {
    pub(super) inuse_objects: u64,
    pub(super) inuse_bytes: u64,
    pub(super) alloc_objects: u64,
    pub(super) alloc_bytes: u64,
}

impl Scaling {
    /// The estimate of one record.
    pub(super) fn unbias(self, counts: Counts) -> Estimate {
        let inuse = self.unbias_pair(counts.inuse_objects, counts.inuse_bytes);
        let alloc = self.unbias_pair(counts.alloc_objects, counts.alloc_bytes);
        let values = |inuse: [f64; 2], alloc: [f64; 2]| Values {
            alloc_objects: alloc[0],
            alloc_bytes: alloc[1],
            inuse_objects: inuse[0],
            inuse_bytes: inuse[1],
        };
        Estimate { values: values(inuse.0, alloc.0), variance: values(inuse.1, alloc.1) }
    }

    /// `([objects, bytes], [their variances])`. Each of n sampled blocks has the weight 1/p blocks;
    /// an estimator of that kind has the variance n (1 - p) / p², in blocks.
    fn unbias_pair(self, objects: u64, bytes: u64) -> ([f64; 2], [f64; 2]) {
        let (count, sum) = (objects as f64, bytes as f64);
        if objects == 0 || bytes == 0 {
            return ([count, sum], [0.0; 2]);
        }
        let mean = sum / count;
        let p = self.probability(mean);
        let scale = 1.0 / p;
        let variance = count * (1.0 - p) * scale * scale;
        ([count * scale, sum * scale], [variance, variance * mean * mean])
    }

    /// Probability that a block of `size` bytes is sampled.
    fn probability(self, size: f64) -> f64 {
        match self {
            Scaling::Exact => 1.0,
            Scaling::Poisson(mean) => {
                let ratio = size / mean;
                let p = 1.0 - (-ratio).exp();
                // 1 - e^-x rounds to 0 for x < 2^-53, where jeprof divides by zero.
                if p > 0.0 { p } else { -(-ratio).exp_m1() }
            }
            Scaling::Uniform(mean) => (size / mean).min(1.0),
        }
    }

    /// Whether the numbers are those of samples.
    pub(super) fn is_sampled(self) -> bool {
        self != Scaling::Exact
    }

    /// The model's form of it.
    pub(super) fn sampling(self) -> Sampling {
        match self {
            Scaling::Exact => Sampling::Exact,
            Scaling::Poisson(mean) | Scaling::Uniform(mean) => Sampling::Poisson { mean_bytes: mean as u64 },
        }
    }
}

/// The variance of values that were unbiased by their writer (pprof): n sampled blocks became
/// n / p, so that n (1 - p) / p² is `objects` (1 - p) / p.
pub(super) fn variance_of_unbiased(values: &Values, mean_distance: f64) -> Values {
    let pair = |objects: f64, bytes: f64| {
        if objects <= 0.0 || bytes <= 0.0 {
            return [0.0; 2];
        }
        let size = bytes / objects;
        let p = Scaling::Poisson(mean_distance).probability(size);
        let variance = objects * (1.0 - p) / p;
        [variance, variance * size * size]
    };
    let [alloc_objects, alloc_bytes] = pair(values.alloc_objects, values.alloc_bytes);
    let [inuse_objects, inuse_bytes] = pair(values.inuse_objects, values.inuse_bytes);
    Values { alloc_objects, alloc_bytes, inuse_objects, inuse_bytes }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 69.8 MB, as jeprof prints it; the digits are those of its formula run in perl.
    #[test]
    fn a_record_is_scaled_as_jeprof_scales_it() {
        let estimate = Scaling::Poisson(524_288.0).unbias(Counts {
            inuse_objects: 133,
            inuse_bytes: 6_872_201,
            ..Counts::default()
        });
        let bytes = estimate.values.inuse_bytes;
        assert!((bytes - 73_222_835.612_013).abs() < 1e-5, "{bytes}");
        assert!(estimate.variance.inuse_bytes > 0.0);
    }

    #[test]
    fn no_record_yields_infinity() {
        for (objects, bytes) in [(1, 0), (0, 5), (u64::MAX, 1), (1, u64::MAX)] {
            let estimate = Scaling::Poisson(9.2e18).unbias(Counts {
                inuse_objects: objects,
                inuse_bytes: bytes,
                ..Counts::default()
            });
            assert!(estimate.values.inuse_bytes.is_finite(), "{objects} {bytes}");
        }
    }

    #[test]
    fn a_block_larger_than_the_distance_is_never_scaled_down() {
        let estimate = Scaling::Uniform(100.0).unbias(Counts {
            inuse_objects: 1,
            inuse_bytes: 1000,
            ..Counts::default()
        });
        assert_eq!(estimate.values.inuse_bytes, 1000.0);
    }
}
