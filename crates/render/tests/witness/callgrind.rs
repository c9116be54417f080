//! callgrind_annotate as witness of the callgrind form.

use heapwise_profile::Metric;
use heapwise_render::export::Format;

use crate::specimen::{mixed, recording, rich};
use crate::tool::{Written, run};

fn annotate(file: &Written) -> String {
    run("callgrind_annotate", &["--threshold=100", "--auto=no", file.path()], "apt-get install valgrind")
        .stdout
}

/// The six numbers of a row.
fn costs(report: &str, row: &str) -> Vec<f64> {
    let line =
        report.lines().find(|line| line.ends_with(row)).unwrap_or_else(|| panic!("no {row}:\n{report}"));
    let numbers = line.strip_suffix(row).unwrap();
    // Percentages are in brackets, possibly with blanks: `6,400 ( 0.21%)`; the path may be longer.
    let bare = |part: &str| part.split_once(')').map_or(part, |(_, rest)| rest).to_owned();
    let without_percent = numbers.split('(').map(bare).collect::<Vec<_>>().join(" ");
    without_percent.split_whitespace().map_while(|field| field.replace(',', "").parse().ok()).collect()
}

#[test]
#[ignore = "needs the tool that it is compared with"]
fn totals_and_functions() {
    let file =
        Written::profile(&recording("heaptrack.zst"), Format::Callgrind, Metric::InuseSpace, "fixture");
    let report = annotate(&file);
    let total = recording("heaptrack.zst").total();
    let [inuse, objects, allocated, all_objects, freed, freed_objects] =
        costs(&report, "PROGRAM TOTALS").try_into().unwrap();
    assert_eq!((inuse, objects), (total.inuse_bytes, total.inuse_objects));
    assert_eq!((allocated, all_objects), (total.alloc_bytes, total.alloc_objects));
    assert_eq!((freed, freed_objects), (allocated - inuse, all_objects - objects));
    // fixture.c: 100 blocks of 64 B; 50 of 1000 B of which 20 are kept.
    assert_eq!(costs(&report, "fixture.c:leaf_a")[..4], [6400.0, 100.0, 6400.0, 100.0]);
    assert_eq!(costs(&report, "fixture.c:leaf_b"), [20000.0, 20.0, 50000.0, 50.0, 30000.0, 30.0]);
    assert_eq!(costs(&report, "fixture.c:middle")[0], 26400.0);
}

#[test]
#[ignore = "needs the tool that it is compared with"]
fn frames_without_lines_are_kept() {
    let profile = rich();
    let file = Written::profile(&profile, Format::Callgrind, Metric::InuseSpace, "rich");
    let report = annotate(&file);
    let inuse = costs(&report, "PROGRAM TOTALS")[0];
    assert!((inuse - profile.total().inuse_bytes).abs() <= profile.samples.len() as f64);
    assert!(report.contains("UnknownFile???:libx.so+0x13ff"), "{report}");
}

#[test]
fn descriptions_of_what_is_missing_do_no_harm() {
    let profile = mixed();
    let file = Written::profile(&profile, Format::Callgrind, Metric::InuseSpace, "mixed");
    assert_eq!(costs(&annotate(&file), "PROGRAM TOTALS")[0], profile.total().inuse_bytes);
}
