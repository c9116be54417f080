//! The number that a query selects of each sample.

use crate::metric::{Unit, column};
use crate::{Metric, Profile, Sample, Weight};

/// Weighs the samples of one profile by one metric.
pub(crate) struct Weigher<'a> {
    profile: &'a Profile,
    metric: Metric,
    /// Values of an extra metric.
    values: Option<&'a [f64]>,
    /// Blocks behind the values, where a column counts them.
    objects: Option<&'a [f64]>,
    /// Usable minus requested bytes, when usable bytes are wanted and the metric counts bytes of
    /// blocks.
    slack: Option<Slack<'a>>,
}

/// How requested bytes become usable ones.
#[derive(Clone, Copy)]
enum Slack<'a> {
    /// Add the slack of the same blocks.
    Add(&'a [f64]),
    /// Scale by the slack of all blocks that the sample allocated.
    Scale(&'a [f64]),
}

impl<'a> Weigher<'a> {
    pub(crate) fn new(profile: &'a Profile, metric: Metric, usable: bool) -> Self {
        let extra = match metric {
            Metric::Extra(at) => profile.extra.get(usize::from(at)),
            _ => None,
        };
        let values_of = |name| profile.column(name).map(|column| column.values.as_slice());
        let name = extra.map(|column| column.name.as_str());
        let slack = match (metric, name) {
            (Metric::InuseSpace, _) => values_of(column::INUSE_SLACK).map(Slack::Add),
            (Metric::AllocSpace, _) => values_of(column::ALLOC_SLACK).map(Slack::Add),
            (_, Some(column::PEAK_SPACE | column::HIGHEST_SPACE)) => {
                values_of(column::ALLOC_SLACK).map(Slack::Scale)
            }
            _ => None,
        };
        let objects = match name {
            Some(column::PEAK_SPACE | column::PEAK_OBJECTS) => values_of(column::PEAK_OBJECTS),
            Some(column::HIGHEST_SPACE | column::HIGHEST_OBJECTS) => values_of(column::HIGHEST_OBJECTS),
            _ => None,
        };
        let values = extra.map(|column| column.values.as_slice());
        Self { profile, metric, values, objects, slack: slack.filter(|_| usable) }
    }

    /// The weight of the `at`-th sample.
    pub(crate) fn weigh(&self, at: usize) -> Weight {
        let sample = &self.profile.samples[at];
        let objects = match self.metric {
            Metric::Extra(_) if self.objects.is_some() => cell(self.objects, at),
            Metric::InuseSpace | Metric::InuseObjects | Metric::Extra(_) => sample.values.inuse_objects,
            Metric::AllocSpace | Metric::AllocObjects => sample.values.alloc_objects,
        };
        let value = match self.metric {
            Metric::Extra(_) => cell(self.values, at),
            shared => sample.values.get(shared),
        };
        let usable = self.slack.map_or(value, |slack| slack.usable(sample, at, value));
        let factor = if value == 0.0 { 1.0 } else { usable / value };
        let variance = self.variance(sample, value) * factor * factor;
        Weight { value: usable, variance, objects, base: 0.0 }
    }

    fn variance(&self, sample: &Sample, value: f64) -> f64 {
        let Metric::Extra(at) = self.metric else { return sample.variance.get(self.metric) };
        let all = match self.profile.extra.get(usize::from(at)).map(|column| column.unit) {
            Some(Unit::Objects) => Metric::AllocObjects,
            _ => Metric::AllocSpace,
        };
        variance_of_part(value, sample.values.get(all), sample.variance.get(all))
    }
}

/// Variance of a column that counts part of what a sample allocated: a part of the blocks has the
/// same part of their variance, and a part of each block has less.
fn variance_of_part(part: f64, whole: f64, variance: f64) -> f64 {
    if whole > 0.0 { variance * (part / whole).abs() } else { 0.0 }
}

impl Slack<'_> {
    fn usable(self, sample: &Sample, at: usize, requested: f64) -> f64 {
        match self {
            Slack::Add(slack) => requested + cell(Some(slack), at),
            Slack::Scale(_) if sample.values.alloc_bytes == 0.0 => requested,
            Slack::Scale(slack) => requested * (1.0 + cell(Some(slack), at) / sample.values.alloc_bytes),
        }
    }
}

fn cell(column: Option<&[f64]>, at: usize) -> f64 {
    column.and_then(|column| column.get(at)).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ExtraColumn;
    use crate::{Values, fixture};

    #[test]
    fn a_part_of_the_blocks_has_that_part_of_their_variance() {
        let mut profile = fixture::profile("main 1000 10");
        let column = |name: &str, unit, value| ExtraColumn { name: name.into(), unit, values: vec![value] };
        profile.extra = vec![
            column(column::PEAK_SPACE, Unit::Bytes, 500.0),
            column(column::PEAK_OBJECTS, Unit::Objects, 4.0),
        ];
        let variance = Values { alloc_bytes: 80.0, alloc_objects: 20.0, ..Values::default() };
        profile.samples[0].variance = variance;
        let weights = [0, 1].map(|at| Weigher::new(&profile, Metric::Extra(at), false).weigh(0));
        assert_eq!(weights.map(|weight| weight.value), [500.0, 4.0]);
        assert_eq!(weights.map(|weight| weight.variance), [40.0, 8.0]);
        assert_eq!(weights.map(|weight| weight.objects), [4.0, 4.0]);
    }
}
