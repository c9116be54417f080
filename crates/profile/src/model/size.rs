//! Sizes of blocks: the range of a sample, and the histogram of a whole process.

use std::collections::BTreeMap;

use crate::Values;

/// Smallest and largest requested size of a set of blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SizeRange {
    /// Smallest size in bytes.
    pub min: u64,
    /// Largest size in bytes, not below `min`.
    pub max: u64,
}

impl SizeRange {
    /// Blocks of one size.
    #[must_use]
    pub fn one(size: u64) -> Self {
        Self { min: size, max: size }
    }

    /// The size, if all blocks have the same.
    #[must_use]
    pub fn single(self) -> Option<u64> {
        (self.min == self.max).then_some(self.min)
    }

    /// The range of both sets.
    #[must_use]
    pub fn union(self, other: Self) -> Self {
        Self { min: self.min.min(other.min), max: self.max.max(other.max) }
    }
}

/// Blocks of a whole process by size. Empty when the source does not count them.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SizeHistogram {
    /// Size classes that hold something, in ascending order.
    pub bins: Vec<SizeBin>,
}

/// One size class of a [`SizeHistogram`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SizeBin {
    /// Sizes that belong to the class.
    pub range: SizeRange,
    /// Its blocks.
    pub values: Values,
}

impl SizeHistogram {
    /// A histogram of classes in any order; equal classes add up, empty ones are left out.
    #[must_use]
    pub fn new(bins: impl IntoIterator<Item = SizeBin>) -> Self {
        let mut sums: BTreeMap<SizeRange, Values> = BTreeMap::new();
        for SizeBin { range, values } in bins {
            *sums.entry(range).or_default() += values;
        }
        sums.retain(|_, values| *values != Values::default());
        Self { bins: sums.into_iter().map(|(range, values)| SizeBin { range, values }).collect() }
    }

    /// Whether the source does not count sizes, or nothing was counted.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bins.is_empty()
    }

    /// The sum of two histograms.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        Self::new(self.bins.iter().chain(&other.bins).copied())
    }

    /// This histogram minus another one; counts may be negative.
    #[must_use]
    pub(crate) fn minus(&self, other: &Self) -> Self {
        let negated = other.bins.iter().map(|bin| SizeBin { values: -bin.values, ..*bin });
        Self::new(self.bins.iter().copied().chain(negated))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_classes_add_up_and_cancel() {
        let bin = |min, objects| SizeBin {
            range: SizeRange { min, max: min + 15 },
            values: Values { alloc_objects: objects, ..Values::default() },
        };
        let one = SizeHistogram::new([bin(16, 1.0), bin(0, 2.0), bin(16, 3.0), bin(32, 0.0)]);
        assert_eq!(one.bins, [bin(0, 2.0), bin(16, 4.0)]);
        assert_eq!(one.plus(&one).bins, [bin(0, 4.0), bin(16, 8.0)]);
        assert!(one.minus(&one).is_empty());
    }
}
