//! Stacks of a real Go program that allocates through cgo, compared with those of Go's own runtime.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::harness::{LOG, Scratch};

/// Bytes by stack, the innermost function first.
type Stacks = BTreeMap<String, u64>;

fn built(scratch: &Scratch) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/programs/go/stacks.go");
    let program = scratch.path("stacks");
    let mut go = Command::new("go");
    go.env("GO111MODULE", "off").env("CGO_ENABLED", "1").args(["build", "-o"]).arg(&program).arg(source);
    let output = go.output().expect("go starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    program
}

/// The functions of the program itself: between a callback and its caller, `runtime.Callers` has
/// frames of the runtime's own, and none of C.
fn own_functions<'a>(frames: impl Iterator<Item = &'a str>) -> String {
    frames.filter(|frame| frame.starts_with("main.")).collect::<Vec<_>>().join(";")
}

/// The lines `witness stack BYTES NAMES`.
fn reported(printed: &str) -> Stacks {
    let mut stacks = Stacks::new();
    for line in printed.lines().filter_map(|line| line.strip_prefix("witness stack ")) {
        let (bytes, names) = line.split_once(' ').expect("bytes and names");
        *stacks.entry(own_functions(names.split(';'))).or_default() += bytes.parse::<u64>().expect("bytes");
    }
    stacks
}

/// The stacks of the profile that pass through `main.allocate`, from there on.
fn profiled(folded: &str) -> Stacks {
    let mut stacks = Stacks::new();
    for (frames, bytes) in folded.lines().filter_map(|line| line.rsplit_once(' ')) {
        let frames: Vec<&str> =
            frames.split(';').map(|frame| frame.split(" (").next().unwrap_or(frame)).collect();
        let Some(at) = frames.iter().position(|frame| *frame == "main.allocate") else { continue };
        assert_eq!(frames.first(), Some(&"runtime.goexit"), "the stack is whole: {frames:?}");
        let names = own_functions(frames.iter().take(at + 1).rev().copied());
        *stacks.entry(names).or_default() += bytes.parse::<u64>().expect("bytes");
    }
    stacks
}

#[test]
#[ignore = "needs go"]
fn stacks_are_those_of_the_runtime() {
    let scratch = Scratch::new();
    let program = built(&scratch);
    for mode in [&["--exact"][..], &["--exact", "--paranoid"], LOG] {
        let mut run = scratch.heapwise(&["run", "-q", "-f", "-o", "profile"]);
        let output = run.args(mode).arg("--").arg(&program).output().expect("heapwise starts");
        assert!(output.status.success(), "{mode:?}: {}", String::from_utf8_lossy(&output.stderr));
        let folded =
            scratch.output_of(&["export", "-f", "folded", "--sample_index", "alloc_space", "profile"]);
        let reported = reported(&String::from_utf8_lossy(&output.stdout));
        assert!(reported.len() > 80, "{mode:?}: {} stacks", reported.len());
        assert_eq!(profiled(&folded), reported, "{mode:?}");
    }
}
