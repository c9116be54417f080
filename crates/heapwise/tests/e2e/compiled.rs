//! Code that a runtime compiles while the program runs: a real node, and its names of functions.

use std::path::Path;

use crate::harness::{LOG, Scratch};

/// Bytes of the blocks under `focus`, and the function names of their largest stack.
fn largest(scratch: &Scratch, profile: &str, focus: &str) -> (f64, Vec<String>) {
    let options = ["--sample_index", "alloc_space", "--focus", focus];
    let top = scratch.json_of(&[&["top", "--json"], &options[..], &[profile]].concat());
    let folded = scratch.output_of(&[&["export", "-f", "folded"], &options[..], &[profile]].concat());
    let value = |line: &&str| line.rsplit_once(' ').and_then(|(_, value)| value.parse::<u64>().ok());
    let stack = folded.lines().max_by_key(value).unwrap_or_default();
    let frames = stack.rsplit_once(' ').map_or("", |(frames, _)| frames).split(';');
    (top["total"].as_f64().unwrap_or(0.0), frames.map(str::to_owned).collect())
}

fn buffers(scratch: &Scratch, mode: &[&str], options: &[&str]) -> String {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/programs/node/buffers.js");
    let profile = scratch.path(if mode == LOG { "node.hwr" } else { "node.hwp" });
    let mut run = scratch.heapwise(&["run", "-q", "-f", "-o"]);
    run.arg(&profile).args(mode).args(["--", "node"]).args(options).arg(script);
    let output = run.output().expect("heapwise starts");
    assert!(output.status.success(), "{mode:?}: {}", String::from_utf8_lossy(&output.stderr));
    profile.to_str().expect("UTF-8").to_owned()
}

#[test]
#[ignore = "needs node"]
fn buffers_are_held_by_functions_of_javascript() {
    let scratch = Scratch::new();
    for mode in [&["--exact"][..], LOG] {
        let options = ["--perf-basic-prof", "--interpreted-frames-native-stack"];
        let profile = buffers(&scratch, mode, &options);
        let (bytes, frames) = largest(&scratch, &profile, "^holdBuffers$");
        assert!((10_000_000.0..10_800_000.0).contains(&bytes), "{mode:?}: {bytes}");
        let at = frames.iter().position(|frame| frame.starts_with("middle")).expect("the caller");
        assert!(frames[at + 1].starts_with("holdBuffers"), "{frames:?}");
        assert!(frames[at + 2].starts_with("allocUnsafeSlow"), "{frames:?}");
        // The stack goes on to the start of the program.
        assert!(frames.iter().any(|frame| frame.starts_with("node::Start")), "{frames:?}");
    }
}

/// Without a map, stacks still pass through the compiled code.
#[test]
#[ignore = "needs node"]
fn stacks_pass_through_compiled_code_without_names() {
    let scratch = Scratch::new();
    let profile = buffers(&scratch, &["--exact"], &["--interpreted-frames-native-stack"]);
    let (bytes, frames) = largest(&scratch, &profile, "CreateUnsafeArrayBuffer");
    assert!((10_000_000.0..10_800_000.0).contains(&bytes), "{bytes}");
    assert!(frames.iter().any(|frame| frame == "[V8]"), "{frames:?}");
    assert!(frames.iter().any(|frame| frame.starts_with("node::Start")), "{frames:?}");
}
