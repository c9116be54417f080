//! What ended processes leave behind has a bound, and nothing else goes with it.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use crate::control::{Live, own_bytes, until};
use crate::harness::{Scratch, victims};

/// Segments of either kind that stay: `MOST_KEPT` in `crates/capture/src/stale_segments.rs`.
const KEPT: usize = 32;
/// A number above every one that the kernel gives to processes.
const NOBODY: u32 = (1 << 22) + 1;

/// A program that ends by itself, with nothing but the probe; its number.
fn start_one(scratch: &Scratch, library: &str) -> String {
    let mut program = scratch.command(victims().join("plain"));
    program.arg("1000").env("LD_PRELOAD", library).env("HEAPWISE_CONF", "mode:exact");
    let mut child = program.stdout(std::process::Stdio::null()).spawn().expect("the victim starts");
    assert!(child.wait().expect("waited").success());
    child.id().to_string()
}

fn segment_of(folder: &Path, pid: &str) -> PathBuf {
    let is_its = |name: &str| name.starts_with(&format!("{pid}-"));
    let name = names(folder).into_iter().find(|name| is_its(name)).expect("a segment");
    folder.join(name)
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("readable").flatten();
    entries.map(|entry| entry.file_name().into_string().expect("UTF-8")).collect()
}

/// Gives a segment the names of `count` processes that are not there.
fn multiply(segment: &Path, pid: u32, count: u32) {
    for starttime in 0..count {
        fs::hard_link(segment, segment.with_file_name(format!("{pid}-{starttime}.seg"))).expect("linked");
    }
}

#[test]
fn what_the_dead_leave_is_bounded() {
    let scratch = Scratch::new();
    let library = scratch.output_of(&["preload"]).trim().to_owned();
    let folder = scratch.path("segments");
    let live = Live::start(&scratch);
    let mut killed = Live::start(&scratch);
    scratch.output_of(&["start", "--exact", &killed.pid()]);
    killed.wait_for_blocks(&scratch);
    killed.end();
    let exited = segment_of(&folder, &start_one(&scratch, &library));
    multiply(&segment_of(&folder, &killed.pid()), NOBODY, 60);
    multiply(&exited, NOBODY + 1, 60);
    // As processes of another pid namespace look: unknown here, and alive.
    multiply(&segment_of(&folder, &live.pid()), NOBODY + 2, 20);
    fs::write(folder.join("notes.txt"), "mine").unwrap();
    fs::write(folder.join("17.seg"), "mine").unwrap();
    fs::write(folder.join(format!("{NOBODY}-999999.seg")), "mine, of a name like theirs").unwrap();
    fs::create_dir(folder.join(format!("{NOBODY}-999998.seg"))).unwrap();
    std::os::unix::fs::symlink(&exited, folder.join(format!("{NOBODY}-999997.seg"))).unwrap();
    let others = names(&folder).into_iter().filter(|name| {
        let theirs = [NOBODY, NOBODY + 1].map(|pid| format!("{pid}-"));
        !theirs.iter().any(|prefix| name.starts_with(prefix)) || name.contains("-99999")
    });
    let untouched: Vec<String> = others.filter(|name| folder.join(name) != exited).collect();

    let last = start_one(&scratch, &library);
    scratch.output_of(&["ps"]);
    // Those that were there, but for the one that exited and its names, and the one that just came.
    let of_killed = names(&folder).iter().filter(|name| name.starts_with(&format!("{NOBODY}-"))).count();
    assert_eq!(of_killed, KEPT - 1 + 3);
    assert_eq!(names(&folder).len(), untouched.len() + (KEPT - 1) + KEPT);
    let left = names(&folder);
    for name in &untouched {
        assert!(left.contains(name), "{name} is gone");
    }
    assert!(left.contains(&format!("{NOBODY}-59.seg")) && !left.contains(&format!("{NOBODY}-0.seg")));
    assert!(own_bytes(&scratch, &killed.pid()) > 0);
    assert!(own_bytes(&scratch, &last) > 0);
    scratch.output_of(&["stats", &live.pid()]);
}

#[test]
fn nothing_goes_while_somebody_collects_it() {
    let scratch = Scratch::new();
    let library = scratch.output_of(&["preload"]).trim().to_owned();
    let folder = scratch.path("segments");
    let is_free = || File::open(&folder).expect("there").try_lock().is_ok();
    for (option, kept) in [("--quiet", false), ("--children", true)] {
        let mut run = scratch.heapwise(&["run", "--exact", "-f", "-o", "out.hwp", option, "--"]);
        run.arg(victims().join("live_switch")).stdin(std::process::Stdio::piped());
        let mut run = run.stdout(std::process::Stdio::null()).spawn().expect("heapwise starts");
        until("a segment", || !names(&folder).is_empty());
        assert_eq!(is_free(), !kept, "{option}");
        drop(run.stdin.take());
        run.wait().expect("waited");
        assert!(is_free(), "after {option}");
    }
    let collector = File::open(&folder).expect("there");
    collector.lock_shared().expect("locked");
    multiply(&segment_of(&folder, &start_one(&scratch, &library)), NOBODY, 60);
    for command in ["ps", "ps", "ps"] {
        scratch.output_of(&[command]);
    }
    assert_eq!(names(&folder).len(), 1 + 60);
    drop(collector);
    scratch.output_of(&["ps"]);
    assert_eq!(names(&folder).len(), KEPT);
}

/// Without a command that collects, programs that start all day leave no more than there is room
/// for.
#[test]
fn a_crowded_directory_gets_no_more_segments() {
    /// `CROWDED` and `MOST_NAMES` in `crates/probe/src/segment/create.rs`.
    const CROWDED: u32 = 256;
    const MOST: u32 = 1024;
    let scratch = Scratch::new();
    let library = scratch.output_of(&["preload"]).trim().to_owned();
    let folder = scratch.path("segments");
    let first = segment_of(&folder, &start_one(&scratch, &library));
    multiply(&first, NOBODY, CROWDED - 2);
    start_one(&scratch, &library);
    assert_eq!(names(&folder).len(), CROWDED as usize, "the last that stays");
    start_one(&scratch, &library);
    assert_eq!(names(&folder).len(), CROWDED as usize, "one that exits takes its segment along");
    let live = Live::start(&scratch);
    assert_eq!(names(&folder).len(), CROWDED as usize + 1, "one that runs has it");
    drop(live);
    multiply(&first, NOBODY + 1, MOST - CROWDED - 1);
    let mut program = scratch.command(victims().join("live_switch"));
    program.env("LD_PRELOAD", &library).stdin(std::process::Stdio::piped());
    let mut child = program.stdout(std::process::Stdio::null()).spawn().expect("the victim starts");
    let pid = child.id().to_string();
    until("its message", || {
        let output = scratch.heapwise(&["top", &pid]).output().expect("heapwise starts");
        String::from_utf8_lossy(&output.stderr).contains("carries the probe but has no segment")
    });
    assert_eq!(names(&folder).len(), MOST as usize);
    drop(child.stdin.take());
    assert!(child.wait().expect("waited").success());
    // A command makes room, and what `run` has to read stays in any case.
    let capture = scratch.capture(&["--exact"], "plain", &["1000", "7"]);
    assert_eq!(capture.total("alloc_objects"), capture.witness["alloc_objects"]);
    assert_eq!(names(&folder).len(), KEPT + 1);
}
