//! heaptrack_print as witness of the heaptrack form.

use std::collections::BTreeMap;

use heapwise_profile::Metric;
use heapwise_render::export::Format;

use crate::specimen::{mixed, recording};
use crate::tool::{Written, run};

const INSTALL: &str = "apt-get install heaptrack";

/// Leaks of the C library are left out of sums otherwise.
const SUPPRESS_NOTHING: &str = "--disable-builtin-suppressions";

/// heaptrack_print's folded stacks of a cost, which are exact where its report is rounded.
fn folded(path: &str, cost: &str) -> BTreeMap<String, f64> {
    let out = Written::bytes(b"", &format!("{cost}.folded"));
    let args = [path, SUPPRESS_NOTHING, "--print-flamegraph", out.path(), "--flamegraph-cost-type", cost];
    run("heaptrack_print", &args, INSTALL);
    let text = std::fs::read_to_string(&out.path).unwrap();
    let mut sums = BTreeMap::new();
    for line in text.lines() {
        let (stack, value) = line.rsplit_once(' ').unwrap();
        // heaptrack reports a file without a function for code in the loader; the model has no such
        // line.
        *sums.entry(stack.replace(" (rtld.c)", "")).or_insert(0.0) += value.parse::<f64>().unwrap();
    }
    sums
}

/// heaptrack prints equal reports of the original recording and of our export of it.
#[test]
#[ignore = "needs the tool that it is compared with"]
fn a_recording_of_heaptrack_reads_the_same_after_us() {
    let profile = recording("heaptrack.zst");
    let file = Written::profile(&profile, Format::Heaptrack, Metric::InuseSpace, "own");
    let original = format!("{}/../profile/tests/data/heaptrack.zst", env!("CARGO_MANIFEST_DIR"));
    for cost in ["allocations", "leaked", "peak"] {
        assert_eq!(folded(&original, cost), folded(file.path(), cost), "{cost}");
    }
}

#[test]
#[ignore = "needs the tool that it is compared with"]
fn a_profile_of_jemalloc_opens_in_heaptrack() {
    let profile = recording("jeprof-raw.txt");
    let file = Written::profile(&profile, Format::Heaptrack, Metric::InuseSpace, "jemalloc");
    let total = profile.total();
    for (cost, expected) in [("allocations", total.alloc_objects), ("leaked", total.inuse_bytes)] {
        let sum: f64 = folded(file.path(), cost).values().sum();
        assert!((sum - expected).abs() <= profile.samples.len() as f64, "{cost}: {sum}, not {expected}");
    }
    let report = run("heaptrack_print", &[file.path(), SUPPRESS_NOTHING], INSTALL).stdout;
    assert!(report.contains("total memory leaked: 3.34M"), "{report}");
}

/// Stacks that mix sizes, and comments about what is missing.
#[test]
fn a_profile_of_mixed_sizes_keeps_its_sums_and_its_peak() {
    let profile = mixed();
    let file = Written::profile(&profile, Format::Heaptrack, Metric::InuseSpace, "mixed");
    let total = profile.total();
    let peak = profile.meta.peak_bytes.unwrap() as f64;
    for (cost, expected) in
        [("allocations", total.alloc_objects), ("leaked", total.inuse_bytes), ("peak", peak)]
    {
        assert_eq!(folded(file.path(), cost).values().sum::<f64>(), expected, "{cost}");
    }
}
