//! A real CPython: its lines are in every stack, with the right bytes.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use crate::control::until;
use crate::harness::{LOG, Scratch};

/// The interpreter: Debian's, or the one named by `HEAPWISE_TEST_PYTHON`.
pub fn python() -> String {
    std::env::var("HEAPWISE_TEST_PYTHON").unwrap_or_else(|_| "/usr/bin/python3".into())
}

fn script(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/programs/python").join(name);
    path.canonicalize().expect("the script").to_str().expect("UTF-8").to_owned()
}

/// Runs Python under `heapwise run MODE`; the profile.
pub fn run(scratch: &Scratch, mode: &[&str], arguments: &[&str]) -> (Output, PathBuf) {
    let profile = scratch.path(if mode == LOG { "python.hwr" } else { "python.hwp" });
    let mut run = scratch.heapwise(&["run", "-f", "-o"]);
    run.arg(&profile).args(mode).arg("--").arg(python()).args(arguments);
    let output = run.output().expect("heapwise starts");
    assert!(output.status.success(), "{mode:?}: {}", String::from_utf8_lossy(&output.stderr));
    (output, profile)
}

/// Runs `-c SOURCE`; the rows of `top` as (label, bytes).
fn top(scratch: &Scratch, mode: &[&str], source: &str, options: &[&str]) -> Vec<(String, f64)> {
    let (_, profile) = run(scratch, mode, &["-c", source]);
    let mut command = vec!["top", "--json", "-n", "0", profile.to_str().expect("UTF-8")];
    command.extend(options);
    let top = scratch.json_of(&command);
    let rows = top["rows"].as_array().expect("rows").iter();
    let row = |row: &serde_json::Value| {
        (row["name"].as_str().expect("a name").to_owned(), row["flat"].as_f64().expect("bytes"))
    };
    rows.map(row).collect()
}

fn bytes_of(rows: &[(String, f64)], label: &str) -> f64 {
    rows.iter().filter(|(name, _)| name == label).map(|(_, bytes)| bytes).sum()
}

/// Folded stacks of a file, with their numbers.
pub fn folded(text: &str) -> impl Iterator<Item = (&str, f64)> {
    let number = |text: &str| text.parse().expect("a number");
    text.lines()
        .map(move |line| line.rsplit_once(' ').map(|(stack, value)| (stack, number(value))).expect("a value"))
}

/// Compares the stacks of thousands of allocations with those that the interpreter reports.
fn compare_stacks(mode: &[&str]) {
    let scratch = Scratch::new();
    let expected = scratch.path("expected");
    let script = script("stacks.py");
    let (_, profile) = run(&scratch, mode, &[&script, "60", expected.to_str().expect("UTF-8")]);
    let source = std::fs::read_to_string(&script).expect("the script");
    let leaf = |comment: &str| {
        let line = source.lines().position(|line| line.ends_with(comment)).expect("the line") + 1;
        format!(";check ({script}:{line})")
    };
    // The first line has other blocks, which are small.
    let leaves = [(leaf("# the line of the block"), 65536.0), (leaf("# the line of the object"), 433.0)];

    let mut stacks: BTreeMap<String, (u64, [u64; 2])> = BTreeMap::new();
    for row in std::fs::read_to_string(&expected).expect("expected stacks").lines() {
        let (count, stack) = row.strip_prefix("stack ").and_then(|row| row.split_once(' ')).expect("a row");
        stacks.entry(stack.to_owned()).or_default().0 += count.parse::<u64>().expect("a count");
    }
    let checks: u64 = stacks.values().map(|(count, _)| count).sum();
    assert!(checks > 6000, "{checks}");
    let profile = profile.to_str().expect("UTF-8");
    let recorded = scratch.output_of(&["export", "--alloc_space", "-f", "folded", profile]);
    for (stack, bytes) in folded(&recorded) {
        for (number, (leaf, size)) in leaves.iter().enumerate() {
            if let Some(stack) = stack.strip_suffix(leaf) {
                stacks.entry(stack.to_owned()).or_default().1[number] += (bytes / size) as u64;
            }
        }
    }
    for (stack, (expected, recorded)) in &stacks {
        assert_eq!(&[*expected; 2], recorded, "{mode:?}: {stack}");
    }
}

#[test]
fn stacks_are_those_of_the_interpreter() {
    compare_stacks(&["--exact"]);
}

#[test]
#[ignore = "long"]
fn stacks_are_those_of_the_interpreter_in_log_mode() {
    compare_stacks(LOG);
}

#[test]
fn lines_hold_what_they_allocated() {
    let source = "import json\n\
                  text = json.dumps(list(range(100000)))\n\
                  def hold():\n  return [bytes(100) for _ in range(10000)]\n\
                  small = hold()\n\
                  large = bytearray(5 << 20)\n\
                  parsed = json.loads(text)\n";
    let scratch = Scratch::new();
    for mode in [&["--exact"][..], LOG] {
        let rows = top(&scratch, mode, source, &[]);
        let hold =
            bytes_of(&rows, "hold <string>:4") + bytes_of(&rows, "hold.<locals>.<listcomp> <string>:4");
        // 133 bytes each, and the list.
        assert!((1_330_000.0..1_500_000.0).contains(&hold), "{mode:?}: {rows:?}");
        assert_eq!(bytes_of(&rows, "<module> <string>:6") as u64 >> 20, 5, "{mode:?}: {rows:?}");
        // The standard library allocates for the line that called it.
        let parsed = bytes_of(&rows, "<module> <string>:7");
        assert!((3_500_000.0..3_700_000.0).contains(&parsed), "{mode:?}: {rows:?}");
    }
}

#[test]
fn samples_estimate_lines() {
    let source = "keep = [bytes(1000) for _ in range(100000)]";
    let rows = top(&Scratch::new(), &["-c", "4K"], source, &[]);
    let held = bytes_of(&rows, "<listcomp> <string>:1") + bytes_of(&rows, "<module> <string>:1");
    assert!((98e6..112e6).contains(&held), "{rows:?}");
}

/// The stack with most bytes in a profile.
fn largest_stack(scratch: &Scratch, profile: &Path, options: &[&str]) -> String {
    let profile = profile.to_str().expect("UTF-8");
    let text = scratch.output_of(&[&["export", "-f", "folded", profile], options].concat());
    let largest = folded(&text).max_by(|one, two| one.1.total_cmp(&two.1)).expect("stacks");
    largest.0.to_owned()
}

#[test]
fn native_frames_are_shown_on_request() {
    let source = "def hold():\n  return bytearray(5 << 20)\nkept = hold()";
    let scratch = Scratch::new();
    let (output, profile) = run(&scratch, &["--exact"], &["-c", source]);
    let summary = String::from_utf8_lossy(&output.stderr);
    assert!(summary.contains("; hold holds ") && summary.contains("hold (<string>:2)"), "{summary}");
    let stack_of = |options: &[&str]| largest_stack(&scratch, &profile, options);
    assert_eq!(stack_of(&[]), "<module> (<string>:3);hold (<string>:2)");
    let native = stack_of(&["--native"]);
    let (outside, inside) = native.split_once("<module> (<string>:3);hold (<string>:2);").expect("woven");
    assert!(outside.contains("main;") && !inside.is_empty(), "{native}");
    assert!(!native.contains("heapwise_probe"), "{native}");
}

/// From 3.12 on, the eval loop that called `run` has no function any more when the function's
/// variables are dropped.
#[test]
fn a_destructor_is_between_the_native_frames_that_run_it() {
    let source = "class Held:\n  def __del__(self):\n    global kept\n    kept = bytearray(5 << 20)\n\
                  def run(_):\n  held = Held()\n\
                  all(map(run, [0]))\n";
    let scratch = Scratch::new();
    let (_, profile) = run(&scratch, &["--exact"], &["-c", source]);
    let native = largest_stack(&scratch, &profile, &["--native"]);
    let (outside, inside) = native.split_once("__del__ (<string>:4);").expect("native frames inside");
    let (_, between) = outside.split_once("<module> (<string>:7);").expect("its caller");
    assert!(!between.is_empty() && !inside.is_empty(), "{native}");
}

#[test]
fn forked_children_have_their_lines() {
    let source = "import os\n\
                  def child():\n  global kept\n  kept = [bytes(100) for _ in range(50000)]\n\
                  pid = os.fork()\n\
                  if pid == 0:\n  child()\nelse:\n  assert os.waitpid(pid, 0)[1] == 0\n";
    let scratch = Scratch::new();
    let (output, profile) = run(&scratch, &["--exact", "--children"], &["-c", source]);
    let summary = String::from_utf8_lossy(&output.stderr);
    let child = summary.lines().find_map(|line| line.trim().strip_prefix("child")).expect("a child").trim();
    let held = |profile: &str| {
        let text = scratch.output_of(&["export", "-f", "folded", profile]);
        let of_child = |stack: &&(&str, f64)| stack.0.contains("child (<string>:4)");
        folded(&text).collect::<Vec<_>>().iter().filter(of_child).map(|stack| stack.1).sum::<f64>()
    };
    assert!((6_650_000.0..7_500_000.0).contains(&held(child)), "{summary}");
    assert_eq!(held(profile.to_str().expect("UTF-8")), 0.0);
}

/// Daemon threads run on while the interpreter is finalized; a crash is an exit status.
#[test]
#[ignore = "long"]
fn threads_run_until_the_end() {
    let scratch = Scratch::new();
    for _ in 0..3 {
        for mode in [&["--exact"][..], &["-c", "1K"], LOG] {
            run(&scratch, mode, &[&script("stress.py"), "0.2"]);
        }
    }
}

#[test]
#[ignore = "long"]
fn threads_run_until_the_end_many_times() {
    let scratch = Scratch::new();
    for _ in 0..72 {
        run(&scratch, &["--exact"], &[&script("stress.py"), "0.15"]);
    }
}

/// What CPython does with its allocators is its own choice; heapwise follows or stays away.
#[test]
fn other_allocators_of_the_interpreter() {
    let source = "def hold():\n  return [bytes(100) for _ in range(50000)]\nkept = hold()";
    for (variable, value) in [
        ("PYTHONMALLOC", "malloc"),
        ("PYTHONMALLOC", "debug"),
        ("PYTHONMALLOC", "pymalloc"),
        ("PYTHONDEVMODE", "1"),
        ("PYTHONTRACEMALLOC", "5"),
    ] {
        let scratch = Scratch::new();
        let profile = scratch.path("python.hwp");
        let mut run = scratch.heapwise(&["run", "--exact", "-q", "-o"]);
        run.arg(&profile).arg("--").arg(python()).args(["-c", source]).env(variable, value);
        let output = run.output().expect("heapwise starts");
        assert!(output.status.success(), "{variable}={value}: {}", String::from_utf8_lossy(&output.stderr));
        let text = scratch.output_of(&["export", "-f", "folded", profile.to_str().expect("UTF-8")]);
        let is_hold = |stack: &&(&str, f64)| stack.0.contains("hold (<string>:2)");
        let stacks: Vec<(&str, f64)> = folded(&text).collect();
        let held: f64 = stacks.iter().filter(is_hold).map(|stack| stack.1).sum();
        assert!((6_600_000.0..12_000_000.0).contains(&held), "{variable}={value}: {held}");
    }
}

/// Without objects, an arena is a block of the line that needed it. The arenas and the blocks of
/// `malloc` are those that memray counts by default.
#[test]
fn arenas_are_blocks_without_objects() {
    let source = "def hold():\n  return [bytes(100) for _ in range(100000)]\nkept = hold()\n\
                  large = bytearray(5 << 20)\n";
    let scratch = Scratch::new();
    for mode in [&["--exact", "--no-objects"][..], &["--log", "--no-objects"]] {
        let profile = scratch.path(if mode[0] == "--log" { "objects.hwr" } else { "objects.hwp" });
        let mut run = scratch.heapwise(&["run", "-f", "-q", "-o"]);
        run.arg(&profile).args(mode).arg("--").arg(python()).args(["-c", source]);
        assert!(run.output().expect("heapwise starts").status.success(), "{mode:?}");
        let profile = profile.to_str().expect("UTF-8");
        let held = |metric: &str, line: &str| -> f64 {
            let text = scratch.output_of(&["export", metric, "-f", "folded", profile]);
            folded(&text).filter(|(stack, _)| stack.contains(line)).map(|(_, value)| value).sum()
        };
        // 133 bytes each in arenas of 1 MiB, and the list.
        let arenas = held("--inuse_space", "hold (<string>:2)");
        assert!((13_500_000.0..17_000_000.0).contains(&arenas), "{mode:?}: {arenas}");
        assert!(held("--inuse_objects", "hold (<string>:2)") < 100.0, "{mode:?}");
        assert_eq!(held("--inuse_space", "<module> (<string>:4)") as u64 >> 20, 5, "{mode:?}");
    }
}

/// Python with the probe, which records nothing.
fn idle(scratch: &Scratch, source: &str) -> Command {
    let mut program = scratch.command(python());
    program.env("LD_PRELOAD", scratch.output_of(&["preload"]).trim()).args(["-uc", source]);
    program
}

/// While nothing is recorded, the interpreter's allocators are not wrapped. A program that
/// allocates nothing but objects still applies control changes.
#[test]
fn recording_starts_while_only_objects_are_allocated() {
    for variable in [None, Some("PYTHONTRACEMALLOC"), Some("PYTHONDEVMODE")] {
        start_while_objects_are_allocated(variable);
    }
}

fn start_while_objects_are_allocated(variable: Option<&str>) {
    let scratch = Scratch::new();
    let mut program = idle(&scratch, "i = 0\nprint()\nwhile True:\n i += 1");
    program.envs(variable.map(|name| (name, "1"))).stdout(Stdio::piped());
    let mut child = Endless(program.spawn().expect("python starts"));
    let mut first = [0];
    child.0.stdout.take().expect("piped").read_exact(&mut first).expect("its loop begins");
    let pid = child.0.id().to_string();
    let profile = || scratch.json_of(&["top", "--json", "--alloc_objects", "-n", "0", &pid]);
    assert_eq!(profile()["total"], 0);
    scratch.output_of(&["start", "--exact", &pid]);
    until(&format!("objects of the loop, {variable:?}"), || {
        let rows = profile()["rows"].as_array().cloned().unwrap_or_default();
        rows.iter().any(|row| row["name"] == "<module> <string>:4" && row["flat"].as_u64() > Some(10_000))
    });
}

/// While nothing is recorded, a tool wraps the allocator of objects, which the probe polls in, and
/// puts it back; new arenas are mapped meanwhile.
#[test]
fn tools_wrap_the_allocators_while_nothing_is_recorded() {
    let source = "import tracemalloc\n\
                  for _ in range(3):\n  tracemalloc.start()\n  more = [[n] for n in range(100000)]\n\
                  \x20 tracemalloc.stop()\n  more = [[n] for n in range(300000)]\n";
    let scratch = Scratch::new();
    let status = idle(&scratch, source).status().expect("python starts");
    assert!(status.success(), "{status}");
}

/// A program that has to be killed, also when its test fails.
struct Endless(Child);

impl Drop for Endless {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
