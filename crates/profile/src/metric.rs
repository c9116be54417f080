//! What is counted: the four metrics every heap profiler shares, and the values of one sample.

use std::ops::{Add, AddAssign, Neg, Sub};

use crate::Profile;

/// Which number of a sample is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Metric {
    /// Bytes allocated and not yet freed.
    #[default]
    InuseSpace,
    /// Blocks allocated and not yet freed.
    InuseObjects,
    /// Bytes ever allocated.
    AllocSpace,
    /// Blocks ever allocated.
    AllocObjects,
    /// Column `n` of [`crate::Profile::extra`] (high-water, waste, temporary, …).
    Extra(u16),
}

/// The unit a metric is printed in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Unit {
    /// Bytes.
    Bytes,
    /// Blocks.
    Objects,
}

impl Metric {
    /// The four shared metrics, in the order of pprof's sample types.
    pub const SHARED: [Metric; 4] =
        [Metric::AllocObjects, Metric::AllocSpace, Metric::InuseObjects, Metric::InuseSpace];

    /// The metric of `profile` with this name; the error lists the names it has.
    pub fn by_name(profile: &Profile, name: &str) -> Result<Metric, String> {
        let shared = Metric::SHARED.into_iter().find(|metric| metric.name() == name);
        let extra = || profile.extra.iter().position(|column| column.name == name);
        shared.or_else(|| extra().map(|column| Metric::Extra(column as u16))).ok_or_else(|| {
            let names = Metric::SHARED.iter().map(|metric| metric.name());
            let known: Vec<&str> = names.chain(profile.extra.iter().map(|column| &*column.name)).collect();
            format!("this profile has no `{name}`; it has {}", known.join(", "))
        })
    }

    /// The name other tools use (`inuse_space`, …); extra columns carry their own name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Metric::InuseSpace => "inuse_space",
            Metric::InuseObjects => "inuse_objects",
            Metric::AllocSpace => "alloc_space",
            Metric::AllocObjects => "alloc_objects",
            Metric::Extra(_) => "extra",
        }
    }
}

/// The four shared metrics of one sample. `f64` because estimates are fractional; integers stay
/// exact up to 2⁵³, and differences may be negative.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Values {
    /// Blocks ever allocated.
    pub alloc_objects: f64,
    /// Bytes ever allocated.
    pub alloc_bytes: f64,
    /// Blocks in use.
    pub inuse_objects: f64,
    /// Bytes in use.
    pub inuse_bytes: f64,
}

impl Values {
    /// The value of a shared metric; 0 for an extra column, which lives beside the samples.
    #[must_use]
    pub fn get(&self, metric: Metric) -> f64 {
        match metric {
            Metric::InuseSpace => self.inuse_bytes,
            Metric::InuseObjects => self.inuse_objects,
            Metric::AllocSpace => self.alloc_bytes,
            Metric::AllocObjects => self.alloc_objects,
            Metric::Extra(_) => 0.0,
        }
    }
}

impl Add for Values {
    type Output = Values;
    fn add(self, other: Values) -> Values {
        Values {
            alloc_objects: self.alloc_objects + other.alloc_objects,
            alloc_bytes: self.alloc_bytes + other.alloc_bytes,
            inuse_objects: self.inuse_objects + other.inuse_objects,
            inuse_bytes: self.inuse_bytes + other.inuse_bytes,
        }
    }
}

impl Neg for Values {
    type Output = Values;
    fn neg(self) -> Values {
        Values {
            alloc_objects: -self.alloc_objects,
            alloc_bytes: -self.alloc_bytes,
            inuse_objects: -self.inuse_objects,
            inuse_bytes: -self.inuse_bytes,
        }
    }
}

impl Sub for Values {
    type Output = Values;
    fn sub(self, other: Values) -> Values {
        self + -other
    }
}

impl AddAssign for Values {
    fn add_assign(&mut self, other: Values) {
        *self = *self + other;
    }
}
