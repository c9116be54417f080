//! A profile in usable instead of requested bytes, as allocators count them.
//!
//! Views convert as they sum ([`crate::Query::usable`]); this converts a whole profile for writers
//! of other formats.

use crate::metric::column;
use crate::weigh::Weigher;
use crate::{Metric, Profile, SizeHistogram};

/// Whether a profile has usable bytes.
#[must_use]
pub fn is_known(profile: &Profile) -> bool {
    [column::INUSE_SLACK, column::ALLOC_SLACK].into_iter().all(|name| profile.column(name).is_some())
}

/// The profile with usable bytes in place of requested ones; `None` when it does not have them.
/// Bytes at the peak are scaled like the bytes allocated. Block sizes are requested ones, so they
/// are left out.
#[must_use]
pub fn in_usable_bytes(profile: &Profile) -> Option<Profile> {
    if !is_known(profile) {
        return None;
    }
    let mut out = profile.clone();
    let [inuse, alloc] =
        [Metric::InuseSpace, Metric::AllocSpace].map(|metric| Weigher::new(profile, metric, true));
    for (at, sample) in out.samples.iter_mut().enumerate() {
        let (inuse, alloc) = (inuse.weigh(at), alloc.weigh(at));
        (sample.values.inuse_bytes, sample.variance.inuse_bytes) = (inuse.value, inuse.variance);
        (sample.values.alloc_bytes, sample.variance.alloc_bytes) = (alloc.value, alloc.variance);
        sample.sizes = None;
    }
    for (number, column) in out.extra.iter_mut().enumerate() {
        let weigher = Weigher::new(profile, Metric::Extra(u16::try_from(number).unwrap_or(u16::MAX)), true);
        column.values.iter_mut().enumerate().for_each(|(at, value)| *value = weigher.weigh(at).value);
    }
    out.meta.peak_bytes = scaled_peak(profile, &out);
    out.extra.retain(|one| one.name != column::INUSE_SLACK && one.name != column::ALLOC_SLACK);
    out.sizes = SizeHistogram::default();
    out.meta.comments.push("bytes are usable bytes, not requested ones".to_owned());
    Some(out)
}

/// The peak of the process, scaled like the column of bytes at the peak.
fn scaled_peak(profile: &Profile, usable: &Profile) -> Option<u64> {
    let sum =
        |profile: &Profile| -> Option<f64> { Some(profile.column(column::PEAK_SPACE)?.values.iter().sum()) };
    let (requested, usable) = (sum(profile)?, sum(usable)?);
    let factor = if requested > 0.0 { usable / requested } else { 1.0 };
    profile.meta.peak_bytes.map(|peak| (peak as f64 * factor).round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metric::Unit;
    use crate::model::ExtraColumn;
    use crate::{CallTree, Query, fixture};

    fn column(name: &str, values: &[f64]) -> ExtraColumn {
        ExtraColumn { name: name.to_owned(), unit: Unit::Bytes, values: values.to_vec() }
    }

    fn with_slack() -> Profile {
        let mut profile = fixture::profile("main;f 100 2\nmain;g 50 1");
        profile.meta.peak_bytes = Some(200);
        profile.extra = vec![
            column(column::PEAK_SPACE, &[100.0, 100.0]),
            column(column::INUSE_SLACK, &[12.0, 14.0]),
            column(column::ALLOC_SLACK, &[20.0, 25.0]),
        ];
        profile
    }

    #[test]
    fn views_and_the_converted_profile_agree() {
        let profile = with_slack();
        let converted = in_usable_bytes(&profile).unwrap();
        for (metric, expected) in
            [(Metric::InuseSpace, 176.0), (Metric::AllocSpace, 195.0), (Metric::Extra(0), 270.0)]
        {
            let query = Query { metric, usable: true, ..Query::default() };
            assert_eq!(CallTree::new(&profile, &query).total().value, expected);
            let query = Query { usable: false, ..query };
            assert_eq!(CallTree::new(&converted, &query).total().value, expected);
        }
        assert_eq!(converted.meta.peak_bytes, Some(270));
        assert_eq!(converted.extra.len(), 1);
    }

    #[test]
    fn a_profile_without_slack_does_not_know() {
        assert!(in_usable_bytes(&fixture::profile("main 1 1")).is_none());
    }
}
