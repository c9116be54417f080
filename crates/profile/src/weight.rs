//! The number a view shows: how much, how certain, how many blocks, and how much of it before.

use std::ops::{Add, AddAssign, Neg, Sub};

/// A sum of samples. Every part adds up linearly.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Weight {
    /// The query's metric; against a base, the signed difference.
    pub value: f64,
    /// Estimated variance of `value`; 0 when exact.
    pub variance: f64,
    /// Blocks behind `value`: live ones for live bytes, all for allocated bytes.
    pub objects: f64,
    /// The metric in the base alone; 0 without one.
    pub base: f64,
}

impl Weight {
    /// Standard error of `value`.
    #[must_use]
    pub fn standard_error(&self) -> f64 {
        self.variance.max(0.0).sqrt()
    }

    /// Whether nothing at all was counted.
    #[must_use]
    pub fn is_zero(&self) -> bool {
        self.value == 0.0 && self.base == 0.0
    }

    /// `value` in percent of `total`; 0 of nothing is 0.
    #[must_use]
    pub fn percent_of(&self, total: f64) -> f64 {
        percent(self.value, total)
    }
}

/// `part` in percent of `whole`; 0 when `whole` is 0.
#[must_use]
pub fn percent(part: f64, whole: f64) -> f64 {
    if whole == 0.0 { 0.0 } else { part * 100.0 / whole }
}

impl Add for Weight {
    type Output = Weight;
    fn add(self, other: Weight) -> Weight {
        Weight {
            value: self.value + other.value,
            variance: self.variance + other.variance,
            objects: self.objects + other.objects,
            base: self.base + other.base,
        }
    }
}

impl AddAssign for Weight {
    fn add_assign(&mut self, other: Weight) {
        *self = *self + other;
    }
}

impl Neg for Weight {
    type Output = Weight;
    /// The opposite contribution; an uncertainty stays one.
    fn neg(self) -> Weight {
        Weight { value: -self.value, variance: self.variance, objects: -self.objects, base: -self.base }
    }
}

impl Sub for Weight {
    type Output = Weight;
    fn sub(self, other: Weight) -> Weight {
        self + -other
    }
}
