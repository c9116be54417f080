//! A real Ruby: its lines are in the stacks of its blocks, with the right bytes.

use std::collections::BTreeMap;
use std::path::Path;

use crate::harness::{LOG, Scratch};
use crate::python::folded;

/// Compares the stacks of allocations with those that Ruby reports.
fn compare_stacks(mode: &[&str]) {
    let scratch = Scratch::new();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/programs/ruby/stacks.rb");
    let script = script.canonicalize().expect("the script");
    let source = std::fs::read_to_string(&script).expect("the script");
    let line =
        source.lines().position(|line| line.ends_with("# the line of the block")).expect("the line") + 1;
    let profile = scratch.path(if mode == LOG { "ruby.hwr" } else { "ruby.hwp" });
    let expected = scratch.path("expected");
    let mut run = scratch.heapwise(&["run", "-f", "-o"]);
    run.arg(&profile).args(mode).args(["--", "/usr/bin/ruby"]).arg(&script).arg("3").arg(&expected);
    let output = run.output().expect("heapwise starts");
    assert!(output.status.success(), "{mode:?}: {}", String::from_utf8_lossy(&output.stderr));

    let mut stacks: BTreeMap<String, (f64, f64)> = BTreeMap::new();
    for row in std::fs::read_to_string(&expected).expect("expected stacks").lines() {
        let (count, stack) = row.split_once(' ').expect("a row");
        let values: Vec<&str> = stack.split(';').collect();
        let frames: Vec<String> =
            values.chunks(3).map(|frame| format!("{} ({}:{})", frame[0], frame[1], frame[2])).collect();
        stacks.entry(frames.join(";")).or_default().0 += count.parse::<f64>().expect("a count");
    }
    let leaf = format!(";check ({}:{line})", script.display());
    let recorded =
        scratch.output_of(&["export", "--alloc_space", "-f", "folded", profile.to_str().expect("UTF-8")]);
    for (stack, bytes) in folded(&recorded) {
        if let Some(stack) = stack.strip_suffix(&leaf) {
            stacks.entry(stack.to_owned()).or_default().1 += bytes;
        }
    }
    let calls: f64 = stacks.values().map(|(count, _)| count).sum();
    let all: f64 = stacks.values().map(|(_, bytes)| bytes).sum();
    assert!(calls > 60.0 && (100_000.0..101_000.0).contains(&(all / calls)), "{calls} calls, {all} bytes");
    for (stack, (count, bytes)) in &stacks {
        assert!(
            (count * 100_000.0..=count * 101_000.0).contains(bytes),
            "{mode:?}: {stack}: {count}, {bytes}"
        );
    }
}

#[test]
#[ignore = "needs ruby"]
fn stacks_are_those_that_ruby_reports() {
    compare_stacks(&["--exact"]);
}

#[test]
#[ignore = "needs ruby"]
fn stacks_are_those_that_ruby_reports_in_log_mode() {
    compare_stacks(LOG);
}

#[test]
#[ignore = "needs ruby"]
fn stacks_are_those_that_ruby_reports_in_sampled_mode() {
    // Every block is a sample.
    compare_stacks(&["-c", "1"]);
}
