//! The gs driver's functions from C: a program switches itself, has itself recorded, and compares
//! its reports with its own counters. The victims end with status 99 at the first difference.

use std::process::Output;

use crate::harness::{Scratch, victims, witness};

/// Runs a victim with the probe, idle, as a program that has it preloaded.
fn run(scratch: &Scratch, victim: &str) -> Output {
    let library = scratch.output_of(&["preload"]);
    scratch
        .command(victims().join(victim))
        .env("LD_PRELOAD", library.trim())
        .env("HEAPWISE_EXE", env!("CARGO_BIN_EXE_heapwise"))
        .output()
        .expect("victim starts")
}

#[test]
fn a_program_switches_modes_and_reads_its_own_report() {
    let scratch = Scratch::new();
    let output = run(&scratch, "gs_modes");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(String::from_utf8_lossy(&output.stdout).lines().count(), 9, "three modes, three reports each");
}

#[test]
fn a_program_that_heapwise_runs_finds_that_heapwise() {
    let scratch = Scratch::new();
    let capture = scratch.capture(&["--mode", "closed"], "gs_modes", &[]);
    assert!(capture.output.status.success(), "{}", capture.stderr());
}

#[test]
fn without_the_probe_nothing_happens() {
    let scratch = Scratch::new();
    let status = scratch.command(victims().join("gs_modes")).arg("absent").status();
    assert!(status.expect("victim starts").success());
}

#[test]
fn a_program_has_itself_recorded_and_looks_back() {
    let scratch = Scratch::new();
    let output = run(&scratch, "gs_log");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert_eq!(witness(&output)["checked"], 500 * 3100);
    assert!(said.contains("profiler contains record for"), "{said}");
}

/// The difference of two marks is what the program allocated less what it freed between them.
#[test]
fn a_difference_of_two_marks_is_exact() {
    let scratch = Scratch::new();
    let recording = scratch.path("marks.hwr");
    let own = scratch.record("thread_marks", &["6"], &recording);
    for mark in 2..=6 {
        let at = |mark: i64| format!("marks.hwr@meeting {mark}");
        let (old, new) = (at(mark - 1), at(mark));
        let change = scratch.json_of(&["diff", "--json", "--focus", "^w_", &old, &new]);
        let live = |mark: i64| own[&format!("live{mark}")];
        assert_eq!(change["total"].as_i64(), Some(live(mark) - live(mark - 1)), "{old} {new}: {change}");
    }
}

/// `--step` sets which step a time selects: in one long step two times are the same moment.
#[test]
fn a_difference_has_a_step() {
    let scratch = Scratch::new();
    let account = scratch.path("account").display().to_string();
    scratch.record("timeline", &[&account, "600"], &scratch.path("app.hwr"));
    let change = |more: &[&str]| {
        let arguments = ["diff", "--json", "--focus", "^w_", "app.hwr@0ms", "app.hwr@50%"];
        scratch.json_of(&[&arguments[..], more].concat())["total"].as_i64().expect("a total")
    };
    assert_ne!(change(&[]), 0);
    assert_eq!(change(&["--step", "1h"]), 0);
    let odd = scratch.heapwise(&["diff", "app.hwr@0ms", "app.hwr@end", "--step", "15ms"]).output();
    assert_eq!(odd.expect("heapwise starts").status.code(), Some(2));
}

#[test]
fn files_of_an_earlier_recording_stay() {
    let scratch = Scratch::new();
    let program = victims().join("steps");
    let program = program.to_str().expect("UTF-8");
    let record = |more: &[&str]| {
        let mut arguments = vec!["run", "-q", "--log", "--rotate", "64K", "-o", "app.hwr"];
        arguments.extend(more);
        arguments.extend(["--", program, "2"]);
        scratch.heapwise(&arguments).output().expect("heapwise starts")
    };
    assert!(record(&[]).status.success());
    let first = std::fs::read(scratch.path("app-1.hwr")).expect("written");
    let again = record(&[]);
    assert_eq!(again.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&again.stderr).contains("app-1.hwr: exists already"));
    assert_eq!(std::fs::read(scratch.path("app-1.hwr")).expect("still there"), first);
    assert!(record(&["-f"]).status.success());
}
