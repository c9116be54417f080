//! Metrics: the four metrics every heap profiler shares, and the values of one sample.

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
    /// Column `n` of [`crate::Profile::extra`] (at the peak, slack, temporary, …).
    Extra(u16),
}

/// Names of further columns that several sources share. Columns of other names are a source's own.
pub mod column {
    /// Live bytes when the process was at its peak. The samples add up to the peak.
    pub const PEAK_SPACE: &str = "peak_space";
    /// Live blocks when the process was at its peak.
    pub const PEAK_OBJECTS: &str = "peak_objects";
    /// Most live bytes of the sample itself, whenever that was. The samples add up to nothing.
    pub const HIGHEST_SPACE: &str = "highest_space";
    /// Most live blocks of the sample itself.
    pub const HIGHEST_OBJECTS: &str = "highest_objects";
    /// Usable minus requested bytes of live blocks.
    pub const INUSE_SLACK: &str = "inuse_slack";
    /// Usable minus requested bytes of all blocks allocated.
    pub const ALLOC_SLACK: &str = "alloc_slack";
    /// Bytes that `realloc` added to blocks.
    pub const REALLOC_GROWTH: &str = "realloc_growth";
    /// Blocks freed by the event after their allocation.
    pub(crate) const TEMPORARY_OBJECTS: &str = "temporary_objects";

    /// Current name of a column of a file of version 1. There `peak_space` was the highest value of
    /// the sample itself.
    #[must_use]
    pub(crate) fn renamed_since_version_1(name: &str) -> &str {
        match name {
            "peak_space" => HIGHEST_SPACE,
            "peak_objects" => HIGHEST_OBJECTS,
            "at_peak_space" => PEAK_SPACE,
            "at_peak_objects" => PEAK_OBJECTS,
            "waste_space" => INUSE_SLACK,
            other => other,
        }
    }
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

    /// The metric of `profile` with this name; the error lists the names it has. `waste_space` is
    /// the old name of `inuse_slack`.
    pub(crate) fn by_name(profile: &Profile, name: &str) -> Result<Metric, String> {
        let name = if name == "waste_space" { column::INUSE_SLACK } else { name };
        let shared = Metric::SHARED.into_iter().find(|metric| metric.name() == name);
        let extra = || profile.extra.iter().position(|column| column.name == name);
        shared.or_else(|| extra().map(|column| Metric::Extra(column as u16))).ok_or_else(|| {
            let names = Metric::SHARED.iter().map(|metric| metric.name());
            let known: Vec<&str> = names.chain(profile.extra.iter().map(|column| &*column.name)).collect();
            format!("this profile has no `{name}`; it has {}", known.join(", "))
        })
    }

    /// Whether the metric counts memory that is held, now or at the peak, and not all that was
    /// allocated.
    #[must_use]
    pub(crate) fn is_held(self, profile: &Profile) -> bool {
        match self {
            Metric::InuseSpace | Metric::InuseObjects => true,
            Metric::AllocSpace | Metric::AllocObjects => false,
            Metric::Extra(at) => profile.extra.get(usize::from(at)).is_some_and(|column| {
                matches!(
                    column.name.as_str(),
                    column::PEAK_SPACE | column::PEAK_OBJECTS | column::INUSE_SLACK
                )
            }),
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
