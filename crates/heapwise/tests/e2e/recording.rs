//! Recordings end to end: every instant against the victim's own account, kills, rotation, marks.

use std::time::Duration;

use crate::harness::{Scratch, victims};
use crate::torture::{Killed, Torture};

/// Bytes that the victim's calls hold in `target`.
fn held(scratch: &Scratch, target: &str) -> i64 {
    let top = scratch.json_of(&["top", "--json", "--focus", "^w_", target]);
    top["total"].as_i64().expect("a total")
}

/// What `timeline` allocates or frees in two rounds: 50 blocks of up to 1200 bytes each, and one more. The probe looks at
/// the clock once in 64 events when the recorder does not get to tick, which is more than one round.
const MOST_BYTES_APART: u64 = 2 * (50 * 1200 + 64);

/// The victim `timeline` notes its live bytes every 10 ms at a quiet moment. Its clock starts when its
/// first block is made, the recording's when the probe starts: a constant few milliseconds apart.
#[test]
fn every_step_agrees_with_the_programs_own_account() {
    let scratch = Scratch::new();
    let (account, recording) = (scratch.path("account"), scratch.path("timeline.hwr"));
    let capture = scratch.record("timeline", &[account.to_str().unwrap(), "1000"], &recording);
    let account = std::fs::read_to_string(account).unwrap();
    let points: Vec<(u64, i64)> = account
        .lines()
        .filter_map(|line| line.split_once(' '))
        .map(|(ms, bytes)| (ms.parse().unwrap(), bytes.parse().unwrap()))
        .collect();
    let recording = recording.to_str().unwrap();
    let mut apart = 0i64;
    for (ms, bytes) in points.iter().skip(5).step_by(10) {
        // A machine under load schedules late, and two rounds may then share a millisecond: the nearest time counts.
        let mut near: Vec<i64> = (-50..200).collect();
        near.sort_by_key(|candidate| candidate.abs_diff(apart));
        let fits = |apart: &i64| {
            held(&scratch, &format!("{recording}@0..{}", ms.saturating_add_signed(*apart).max(1)))
                .abs_diff(*bytes)
                <= MOST_BYTES_APART
        };
        let found = near.into_iter().find(fits);
        assert!(found.is_some(), "{bytes} bytes at {ms} ms: at no time near that");
        apart = found.unwrap_or(apart);
    }
    assert_eq!(held(&scratch, &format!("{recording}@end")), capture["inuse_bytes"]);
    // The victim takes its highest after each round, when the temporary block of 64 bytes is gone.
    assert_eq!(held(&scratch, &format!("{recording}@peak")), capture["peak_bytes"] + 64);
    let steps = scratch.json_of(&["timeline", "--json", recording]);
    let highest = steps.as_array().unwrap().iter().map(|step| step[1].as_i64().unwrap()).max();
    assert!(highest >= Some(capture["peak_bytes"] + 64), "{steps}");
}

/// At every mark the live bytes, and between every two the most there were, to the byte.
#[test]
fn between_quiet_moments_every_number_is_exact() {
    let scratch = Scratch::new();
    let recording = scratch.path("steps.hwr");
    let own = scratch.record("steps", &["8"], &recording);
    let recording = recording.to_str().unwrap();
    for step in 1..=8 {
        let (live, most) = (own[&format!("live{step}")], own[&format!("most{step}")]);
        assert_eq!(held(&scratch, &format!("{recording}@..step{step}")), live, "live at mark {step}");
        let window = format!("{recording}@peak:step{}..step{step}", step - 1);
        assert_eq!(held(&scratch, &window), most, "highest up to mark {step}");
    }
}

#[test]
fn rotated_files_are_readable_alone_and_together() {
    let scratch = Scratch::new();
    let recording = scratch.path("app.hwr");
    let account = scratch.path("account");
    let status = scratch
        .heapwise(&["run", "--log", "--rotate", "4K", "--keep", "3", "-o"])
        .arg(&recording)
        .arg("--")
        .arg(victims().join("tortured"))
        .args([account.to_str().unwrap(), "3000", "2"])
        .status()
        .unwrap();
    assert!(status.success());
    let mut files: Vec<String> = std::fs::read_dir(scratch.path(""))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.starts_with("app-"))
        .collect();
    files.sort();
    assert!((2..=3).contains(&files.len()), "{files:?}");
    let together = held(&scratch, "app.hwr");
    for file in &files {
        scratch.output_of(&["timeline", "--json", file]);
        scratch.output_of(&["summary", file]);
    }
    assert!(together > 0);
}

#[test]
fn a_mark_names_a_moment() {
    let scratch = Scratch::new();
    let (account, recording) = (scratch.path("account"), scratch.path("marked.hwr"));
    let mut running = scratch
        .heapwise(&["run", "--log", "-q", "-o"])
        .arg(&recording)
        .arg("--")
        .arg(victims().join("tortured"))
        .args([account.to_str().unwrap(), "1500", "1"])
        .spawn()
        .unwrap();
    std::thread::sleep(Duration::from_millis(700));
    // A slow machine may not have started it yet.
    let is_marked = || scratch.heapwise(&["mark", "tortured", "half way"]).output().unwrap().status.success();
    assert!((0..50).any(|_| is_marked()), "the program can be marked while it runs");
    assert!(running.wait().unwrap().success());
    let recording = recording.to_str().unwrap();
    let after = held(&scratch, &format!("{recording}@half way..end"));
    assert!(after > 0);
    scratch.output_of(&["at", recording, "half way"]);
    let wrong = scratch.heapwise(&["at", recording, "nowhere"]).output().unwrap();
    assert_eq!(wrong.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&wrong.stderr).contains("half way"), "the marks there are, are named");
}

fn torture() -> (Scratch, Torture) {
    let scratch = Scratch::new();
    let torture = Torture {
        heapwise: env!("CARGO_BIN_EXE_heapwise").into(),
        victim: victims().join("tortured"),
        scratch: scratch.path(""),
    };
    (scratch, torture)
}

#[test]
fn a_killed_program_loses_nothing() {
    let (_scratch, torture) = torture();
    for after in [0, 30, 333] {
        torture.round(Killed::Program, Duration::from_millis(after)).unwrap();
    }
}

#[test]
fn a_killed_recorder_leaves_a_readable_file_and_a_running_program() {
    let (_scratch, torture) = torture();
    for after in [0, 150, 900] {
        torture.round(Killed::Recorder, Duration::from_millis(after)).unwrap();
    }
}

#[test]
fn random_kills() {
    let (_scratch, torture) = torture();
    torture.run(6, 42).unwrap();
}

/// Whether the victim's function is named in a report that finds no symbols but those in the file.
fn names_the_function(scratch: &Scratch, recording: &str) -> bool {
    scratch.output_of(&["top", "--alloc_space", "--no-cache", recording]).contains("w_malloc")
}

#[test]
fn embedded_symbols_open_without_the_binary() {
    let scratch = Scratch::new();
    let (program, account) = (scratch.path("gone"), scratch.path("account"));
    for (recording, options) in [("with.hwr", &["--embed-symbols"][..]), ("later.hwr", &[])] {
        std::fs::copy(victims().join("tortured"), &program).unwrap();
        let status = scratch
            .heapwise(&["run", "--log", "-q", "-o", recording])
            .args(options)
            .arg("--")
            .arg(&program)
            .args([account.to_str().unwrap(), "1500", "1"])
            .status()
            .unwrap();
        assert!(status.success());
        if options.is_empty() {
            scratch.output_of(&["symbolize", recording]);
        }
        std::fs::remove_file(&program).unwrap();
        assert!(
            names_the_function(&scratch, recording),
            "{recording}: {}",
            scratch.output_of(&["top", "--alloc_space", recording])
        );
        scratch.output_of(&["timeline", "--json", recording]);
        scratch.output_of(&["summary", "-j", "3", "--progress", recording]);
    }
}

#[test]
fn without_embedded_symbols_a_missing_binary_leaves_addresses() {
    let scratch = Scratch::new();
    let (program, account) = (scratch.path("gone"), scratch.path("account"));
    std::fs::copy(victims().join("tortured"), &program).unwrap();
    let account = account.to_str().unwrap();
    let status = scratch
        .heapwise(&["run", "--log", "-q", "-o", "plain.hwr", "--"])
        .arg(&program)
        .args([account, "500", "1"])
        .status()
        .unwrap();
    assert!(status.success());
    std::fs::remove_file(&program).unwrap();
    assert!(!names_the_function(&scratch, "plain.hwr"));
}
