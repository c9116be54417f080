//! jeprof and google-pprof as witnesses of heap_v2, gperftools' text and `--raw`.

use heapwise_profile::{Metric, Profile, annotation};
use heapwise_render::export::Format;

use crate::specimen::{mixed, recording, rich};
use crate::tool::{METRICS, Written, run};

const JEPROF: (&str, &str) = ("jeprof", "apt-get install libjemalloc-dev");
const GOOGLE: (&str, &str) = ("google-pprof", "apt-get install google-perftools");

/// Any existing program will do where only numbers are looked at.
const PROGRAM: &str = "/bin/true";

fn text(tool: (&str, &str), metric: Metric, args: &[&str]) -> String {
    let flag = format!("--{}", metric.name());
    let mut all = vec!["--text", "--show_bytes", "--addresses", flag.as_str()];
    all.extend(args);
    run(tool.0, &all, tool.1).stdout
}

/// The number in `Total: 3330503 B` or `Total (t1): 12 B`; nothing at all is printed for 0.
fn total(report: &str) -> f64 {
    let line = report.lines().find(|line| line.starts_with("Total"));
    line.map_or(0.0, |line| line.rsplit(' ').nth(1).unwrap().parse().unwrap())
}

fn assert_total(profile: &Profile, metric: Metric, report: &str, slack: f64) {
    let (ours, theirs) = (profile.total().get(metric), total(report));
    // jeprof cuts fractions off.
    assert!((ours - theirs).abs() <= 1.0 + slack, "{metric:?}: {ours}, but the tool says {theirs}\n{report}");
}

#[test]
#[ignore = "needs the tool that it is compared with"]
fn jeprof_unscales_to_our_estimate() {
    let profile = rich();
    let file = Written::profile(&profile, Format::HeapV2, Metric::InuseSpace, "estimate");
    for metric in METRICS {
        let report = text(JEPROF, metric, &[PROGRAM, file.path()]);
        // Sums of fractions that are each read back to 9 digits.
        assert_total(&profile, metric, &report, 1e-9 * profile.total().get(metric));
    }
}

#[test]
#[ignore = "needs the tool that it is compared with"]
fn google_pprof_unscales_to_our_estimate() {
    let profile = rich();
    let file = Written::profile(&profile, Format::Gperftools, Metric::InuseSpace, "google");
    for metric in METRICS {
        let report = text(GOOGLE, metric, &[PROGRAM, file.path()]);
        assert_total(&profile, metric, &report, 1e-9 * profile.total().get(metric));
    }
}

#[test]
fn lines_about_what_is_missing_are_passed_over() {
    let profile = mixed();
    for (tool, format) in [(JEPROF, Format::HeapV2), (GOOGLE, Format::Gperftools)] {
        let file = Written::profile(&profile, format, Metric::InuseSpace, "mixed");
        for metric in METRICS {
            assert_total(&profile, metric, &text(tool, metric, &[PROGRAM, file.path()]), 0.0);
        }
    }
}

/// A rate changed while running: the estimates are not multiples of a single rate.
#[test]
#[ignore = "needs the tool that it is compared with"]
fn estimates_of_mixed_rates_are_exact_too() {
    let mut profile = rich();
    for (sample, factor) in profile.samples.iter_mut().zip([1.0, 0.37, 1.9, 1.0, 3.3, 0.5]) {
        sample.values.inuse_bytes *= factor;
        sample.values.inuse_objects *= factor;
    }
    for (tool, format) in [(JEPROF, Format::HeapV2), (GOOGLE, Format::Gperftools)] {
        let file = Written::profile(&profile, format, Metric::InuseSpace, "mixed");
        let report = text(tool, Metric::InuseSpace, &[PROGRAM, file.path()]);
        assert_total(&profile, Metric::InuseSpace, &report, 0.5 * profile.samples.len() as f64);
    }
}

/// The tool prints equal reports of the original file and of our export: every number, every
/// metric. Only the rows of tcmalloc's file differ: its leaf is a return address that google-pprof
/// does not adjust, and the leaf that we write inside the call is found in another (the correct)
/// line.
#[test]
#[ignore = "needs the tool that it is compared with"]
fn a_foreign_file_reads_the_same_after_us() {
    let data = format!("{}/../profile/tests/data", env!("CARGO_MANIFEST_DIR"));
    for (tool, format, name) in [
        (JEPROF, Format::HeapV2, "jemalloc-exact.heap"),
        (JEPROF, Format::HeapV2, "jemalloc-sampled.heap"),
        (GOOGLE, Format::Gperftools, "tcmalloc-exact.heap"),
    ] {
        let file = Written::profile(&recording(name), format, Metric::InuseSpace, name);
        for metric in METRICS {
            let theirs = text(tool, metric, &[PROGRAM, &format!("{data}/{name}")]);
            let ours = text(tool, metric, &[PROGRAM, file.path()]);
            assert!(theirs.lines().count() > 5, "{theirs}");
            match tool {
                JEPROF => assert_eq!(numbers(&theirs), numbers(&ours), "{name} {metric:?}"),
                _ => assert_eq!(total(&theirs), total(&ours), "{name} {metric:?}"),
            }
        }
    }
}

/// The reports without the names of their rows, whose order may differ where numbers are equal.
fn numbers(report: &str) -> Vec<Vec<&str>> {
    let mut rows: Vec<Vec<&str>> =
        report.lines().map(|line| line.split_whitespace().take(5).collect()).collect();
    rows.sort();
    rows
}

#[test]
#[ignore = "needs the tool that it is compared with"]
fn thread_options_still_work() {
    let profile = rich();
    let file = Written::profile(&profile, Format::HeapV2, Metric::InuseSpace, "thread");
    let report = text(JEPROF, Metric::InuseSpace, &["--thread=1", PROGRAM, file.path()]);
    let of_thread = profile.samples.iter().filter(|sample| sample.thread.is_some_and(|id| id.0 == 1));
    let ours: f64 = of_thread.map(|sample| sample.values.inuse_bytes).sum();
    assert!((ours - total(&report)).abs() < 2.0, "{ours}: {report}");
}

/// The annotations change neither the report nor the messages.
#[test]
#[ignore = "needs the tool that it is compared with"]
fn annotations_are_ignored() {
    for (tool, format) in [(JEPROF, Format::HeapV2), (GOOGLE, Format::Gperftools)] {
        let file = Written::profile(&rich(), format, Metric::InuseSpace, "annotated");
        let text = std::fs::read_to_string(&file.path).unwrap();
        let bare: String = text
            .lines()
            .filter(|line| !line.starts_with(annotation::PREFIX))
            .map(|line| format!("{line}\n"))
            .collect();
        assert!(bare.len() < text.len());
        let args = ["--text", "--show_bytes", "--lines", PROGRAM, file.path()];
        let with = run(tool.0, &args, tool.1);
        std::fs::write(&file.path, bare).unwrap();
        let without = run(tool.0, &args, tool.1);
        assert_eq!((with.stdout, with.stderr), (without.stdout, without.stderr));
    }
}

#[test]
#[ignore = "needs the tool that it is compared with"]
fn jeprof_reads_raw_without_any_binary() {
    let profile = rich();
    let file = Written::profile(&profile, Format::Raw, Metric::InuseSpace, "names");
    let report = run(JEPROF.0, &["--text", "--show_bytes", file.path()], JEPROF.1).stdout;
    assert_total(&profile, Metric::InuseSpace, &report, 1e-9 * profile.total().inuse_bytes);
    // jeprof strips arguments and template parameters, and marks inlined callees.
    for name in [" main", " std::map::operator[]", " grow (inline)", " handle request", " libx.so+0x13ff"] {
        assert!(report.lines().any(|line| line.ends_with(name)), "{name}: {report}");
    }
}
