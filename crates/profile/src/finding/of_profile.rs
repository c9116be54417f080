//! The findings in one profile, alone or against a baseline.

use std::collections::HashMap;

use super::{Finding, FindingKind, RankUnit, RankedStack, groups, most_important};
use crate::metric::column;
use crate::own_code::CodeFrames;
use crate::script;
use crate::suppression::RuntimeBlocks;
use crate::view::leaks::LeakClass;
use crate::{Profile, Sample, StackId};

/// Allocated bytes per byte of the peak from which allocating is a finding.
const LEAST_TURNOVER: f64 = 20.0;
/// A peak is a finding of its own when it is so much larger than what is held at the end.
const LEAST_PEAK: f64 = 1.02;

/// The most important findings in a profile that has symbols. With a baseline, they are about what
/// grew.
#[must_use]
pub fn findings(
    profile: &Profile,
    code: &CodeFrames,
    baseline: Option<(&Profile, &CodeFrames)>,
) -> Vec<Finding> {
    let found = match baseline {
        Some(baseline) => {
            let (now, before) = ((profile, code), baseline);
            vec![
                growth(FindingKind::Growth, now, before, in_use),
                growth(FindingKind::PeakGrowth, now, before, at_peak),
            ]
        }
        None => vec![peak(profile), held(profile), turnover(profile)],
    };
    most_important(found.into_iter().flatten().collect())
}

fn peak(profile: &Profile) -> Option<Finding> {
    let column = profile.column(column::PEAK_SPACE)?;
    let total: f64 = column.values.iter().sum();
    if total <= profile.total().inuse_bytes * LEAST_PEAK {
        return None;
    }
    let rows = profile.samples.iter().zip(&column.values);
    let places = ranked(rows.map(|(sample, bytes)| (sample.stack, *bytes)));
    let values = vec![("bytes", total)];
    Some(Finding { kind: FindingKind::Peak, values, places, rows: Vec::new() })
}

fn held(profile: &Profile) -> Option<Finding> {
    let kind = match LeakClass::of(profile) {
        // The numbers of a Python program are those of the moment before its interpreter frees.
        LeakClass::NeverFreed if !script::is_followed(profile) => FindingKind::NeverFreed,
        _ => FindingKind::Held,
    };
    // What the runtimes keep as long as the process lives is not a leak.
    let runtime = (kind == FindingKind::NeverFreed).then(|| RuntimeBlocks::of(profile));
    let counts =
        |sample: &&Sample| runtime.as_ref().is_none_or(|runtime| !runtime.contains(&profile.stacks, sample));
    let counted: Vec<&Sample> = profile.samples.iter().filter(counts).collect();
    let bytes: f64 = counted.iter().map(|sample| sample.values.inuse_bytes).sum();
    let blocks: f64 = counted.iter().map(|sample| sample.values.inuse_objects).sum();
    (bytes > 0.0).then(|| Finding {
        kind,
        values: vec![("bytes", bytes), ("blocks", blocks.round())],
        places: ranked(counted.iter().map(|sample| (sample.stack, sample.values.inuse_bytes))),
        rows: Vec::new(),
    })
}

fn turnover(profile: &Profile) -> Option<Finding> {
    let total = profile.total();
    let peak = profile.meta.peak_bytes.map_or(total.inuse_bytes, |peak| peak as f64).max(1.0);
    let turnover = (total.alloc_bytes / peak).floor();
    (turnover >= LEAST_TURNOVER).then(|| Finding {
        kind: FindingKind::Turnover,
        values: vec![("bytes", total.alloc_bytes), ("turnover", turnover)],
        places: ranked(profile.samples.iter().map(|sample| (sample.stack, sample.values.alloc_bytes))),
        rows: Vec::new(),
    })
}

/// Stacks with their live bytes.
fn in_use(profile: &Profile) -> Vec<(StackId, f64)> {
    profile.samples.iter().map(|sample| (sample.stack, sample.values.inuse_bytes)).collect()
}

/// Stacks with the bytes that were live at the peak; none where that is not known.
fn at_peak(profile: &Profile) -> Vec<(StackId, f64)> {
    let column = profile.column(column::PEAK_SPACE);
    let values = column.map(|column| column.values.as_slice()).unwrap_or_default();
    profile.samples.iter().zip(values).map(|(sample, bytes)| (sample.stack, *bytes)).collect()
}

/// Functions are compared by name: the stacks of two profiles are not the same numbers.
fn growth(
    kind: FindingKind,
    now: (&Profile, &CodeFrames),
    before: (&Profile, &CodeFrames),
    rows: fn(&Profile) -> Vec<(StackId, f64)>,
) -> Option<Finding> {
    let [now_rows, before_rows] = [now, before].map(|(profile, _)| rows(profile));
    let sum = |rows: &[(StackId, f64)]| rows.iter().map(|(_, bytes)| bytes).sum::<f64>();
    let change = sum(&now_rows) - sum(&before_rows);
    let is_known = !now_rows.is_empty() && !before_rows.is_empty();
    let held = |(profile, code), rows: Vec<_>| groups(profile, code, &ranked(rows.into_iter()));
    let before = held(before, before_rows);
    let before: HashMap<&str, u64> =
        before.iter().map(|group| (group.function.as_str(), group.value)).collect();
    let grown = held(now, now_rows).into_iter().filter_map(|group| {
        let value = group.value.checked_sub(before.get(group.function.as_str()).copied().unwrap_or(0))?;
        (value > 0).then_some(RankedStack { stack: group.largest, value, unit: RankUnit::Bytes })
    });
    let mut places: Vec<RankedStack> = grown.collect();
    places.sort_by_key(|place| std::cmp::Reverse(place.value));
    let bytes: u64 = places.iter().map(|place| place.value).sum();
    let values = vec![("bytes", bytes as f64), ("total_bytes", change)];
    (is_known && bytes > 0).then_some(Finding { kind, values, places, rows: Vec::new() })
}

/// The stacks with their sums, largest first.
fn ranked(rows: impl Iterator<Item = (StackId, f64)>) -> Vec<RankedStack> {
    let mut sums: HashMap<StackId, f64> = HashMap::new();
    rows.filter(|(_, value)| *value > 0.0)
        .for_each(|(stack, value)| *sums.entry(stack).or_default() += value);
    let place = |(stack, value): (StackId, f64)| RankedStack {
        stack: Some(stack),
        value: value.round() as u64,
        unit: RankUnit::Bytes,
    };
    let mut places: Vec<RankedStack> = sums.into_iter().map(place).collect();
    places.sort_by_key(|place| (std::cmp::Reverse(place.value), place.stack));
    places
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::own_code::OwnRule;

    fn found(profile: &Profile, baseline: Option<&Profile>) -> Vec<Finding> {
        let code = |profile: &Profile| CodeFrames::new(profile, &OwnRule::default());
        let base = baseline.map(|base| (base, code(base)));
        findings(profile, &code(profile), base.as_ref().map(|(base, code)| (*base, code)))
    }

    #[test]
    fn the_function_that_holds_most_is_first() {
        let profile = crate::read(b"main;load;xmalloc 60\nmain;load 30\nmain;parse 10\n").expect("stacks");
        let found = found(&profile, None);
        assert_eq!(found.iter().map(|finding| finding.kind).collect::<Vec<_>>(), [FindingKind::Held]);
        assert_eq!(found[0].value("bytes"), 100.0);
        let groups = groups(&profile, &CodeFrames::new(&profile, &OwnRule::default()), &found[0].places);
        let rows: Vec<_> = groups.iter().map(|group| (group.function.as_str(), group.value)).collect();
        assert_eq!(rows, [("load", 90), ("parse", 10)]);
    }

    #[test]
    fn growth_is_measured_by_function() {
        let before = crate::read(b"main;a 30\nmain;b 30\nmain;c 30\n").expect("stacks");
        let after = crate::read(b"main;a 25\nother;a 15\nmain;b 30\nmain;c 20\n").expect("stacks");
        let found = found(&after, Some(&before));
        assert_eq!(found[0].kind, FindingKind::Growth);
        assert_eq!(found[0].values, [("bytes", 10.0), ("total_bytes", 0.0)]);
        assert_eq!(found[0].places.len(), 1);
    }

    #[test]
    fn a_higher_peak_is_growth_though_everything_was_freed() {
        let with_peak = |text: &str, values: Vec<f64>| {
            let mut profile = crate::read(text.as_bytes()).expect("stacks");
            profile.samples.iter_mut().for_each(|sample| sample.values.inuse_bytes = 0.0);
            let unit = crate::metric::Unit::Bytes;
            profile.extra.push(crate::model::ExtraColumn { name: column::PEAK_SPACE.into(), unit, values });
            profile
        };
        let before = with_peak("main;load 1\nmain;parse 1\n", vec![60.0, 40.0]);
        let after = with_peak("main;load 1\nmain;parse 1\n", vec![90.0, 30.0]);
        let found = found(&after, Some(&before));
        assert_eq!(found.iter().map(|finding| finding.kind).collect::<Vec<_>>(), [FindingKind::PeakGrowth]);
        assert_eq!(found[0].values, [("bytes", 30.0), ("total_bytes", 20.0)]);
    }

    #[test]
    fn a_peak_that_is_gone_and_work_for_nothing_are_found() {
        let mut profile = crate::read(b"main;load 60\nmain;parse 40\n").expect("stacks");
        let values = vec![10.0, 490.0];
        profile.extra.push(crate::model::ExtraColumn {
            name: column::PEAK_SPACE.into(),
            unit: crate::metric::Unit::Bytes,
            values,
        });
        profile.meta.peak_bytes = Some(500);
        profile.samples[0].values.alloc_bytes = 50_000.0;
        let kinds: Vec<_> = found(&profile, None).iter().map(|finding| finding.kind).collect();
        assert_eq!(kinds, [FindingKind::Peak, FindingKind::Held, FindingKind::Turnover]);
    }
}
