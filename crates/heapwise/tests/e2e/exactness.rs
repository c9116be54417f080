//! Exact mode's further numbers against the program's own: slack, growth by realloc, peaks, blocks
//! from before.

use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;

use crate::harness::{Scratch, victims};

const INDEXES: [&str; 2] = ["shadow", "hash"];

/// Sum of a number over the stacks with `focus`.
fn sum(scratch: &Scratch, number: &str, focus: &str, target: &str) -> i64 {
    let top = scratch.json_of(&["top", "--json", "--sample_index", number, "--focus", focus, target]);
    top["total"].as_i64().expect("a total")
}

#[test]
fn slack_growth_and_peaks_are_the_programs() {
    let scratch = Scratch::new();
    for index in INDEXES {
        let capture = scratch.capture(&["--exact", "--index", index], "slack", &[]);
        let (own, profile) = (&capture.witness, capture.profile.to_str().unwrap());
        assert_eq!(sum(&scratch, "realloc_growth", "^w_", profile), own["grown.bytes"], "{index}");
        // Sites are counted at a snapshot that is within 2 % of the peak.
        for site in ["w_wave0", "w_wave1", "w_wave2"] {
            let held = sum(&scratch, "peak_space", &format!("^{site}$"), profile);
            let apart = held.abs_diff(own[&format!("{site}.peak_bytes")]);
            assert!(apart <= own["peak_bytes"] as u64 / 50, "{index} {site}: {held}");
        }
        // glibc gives some blocks 16 bytes more than its rounding says.
        let apart = sum(&scratch, "inuse_slack", "^w_", profile).abs_diff(own["slack.bytes"]);
        assert!(apart <= 16 * own["inuse_objects"] as u64, "{index}: {apart} of {}", own["slack.bytes"]);
        // The program's peak, with what libc holds besides: one thread is exact to the byte.
        let all = scratch.json_of(&["export", "-f", "json", profile]);
        let besides = sum(&scratch, "inuse_space", ".", profile) - own["inuse_bytes"];
        assert_eq!(all["peak_bytes"].as_i64(), Some(own["peak_bytes"] + besides), "{index}");
    }
}

/// What was there before is known as such: its frees are counted apart, and never make a number
/// negative.
#[test]
fn blocks_from_before_are_counted_apart() {
    let scratch = Scratch::new();
    let library = scratch.output_of(&["preload"]);
    for index in INDEXES {
        let mut child = scratch
            .command(victims().join("switched_late"))
            .env("LD_PRELOAD", library.trim())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("victim starts");
        let pid = child.id().to_string();
        let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines().map_while(Result::ok);
        let mut read = |name: &str| -> i64 {
            let prefix = format!("witness {name} ");
            let value = lines.by_ref().find_map(|line| line.strip_prefix(&prefix)?.parse().ok());
            value.expect("the victim goes on")
        };
        let mut go_on = || writeln!(child.stdin.as_mut().expect("piped")).expect("the victim listens");
        read("ready");
        scratch.output_of(&["set", "--exact", "--index", index, &pid]);
        go_on();
        for (number, name) in [
            ("alloc_objects", "alloc_objects"),
            ("alloc_space", "alloc_bytes"),
            ("inuse_objects", "inuse_objects"),
            ("inuse_space", "inuse_bytes"),
        ] {
            let own = read(name);
            assert_eq!(sum(&scratch, number, "^w_late$", &pid), own, "{index}: {name}");
        }
        let top = scratch.json_of(&["top", "--json", &pid]);
        let rows = top["rows"].as_array().expect("rows");
        assert!(rows.iter().all(|row| row["flat"].as_i64() >= Some(0)), "{index}: {top}");
        assert!(rows.iter().all(|row| row["name"] != "w_early"), "{index}: {top}");
        let freed_early = read("early.free_objects");
        go_on();
        child.wait().expect("the victim ends");
        let dead = scratch.output_of(&["top", &pid]);
        let expected =
            format!("blocks allocated earlier are missing ({freed_early} of them were freed since)");
        assert!(dead.contains(&expected), "{index}: {expected}: {dead}");
        scratch.output_of(&["ps", "--dead", "--clean"]);
    }
}
