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
