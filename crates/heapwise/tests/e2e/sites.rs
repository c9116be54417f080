//! The account: both paths count the same, full tables lose no totals, sizes vary.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::harness::{LOG, Scratch, victims, witness};

/// Runs a victim under the preloaded probe with a configuration of its own; its profile and what it
/// counted.
fn run(
    scratch: &Scratch,
    configuration: &str,
    victim: &str,
    arguments: &[&str],
) -> (PathBuf, BTreeMap<String, i64>) {
    let library = scratch.output_of(&["preload"]);
    let child = scratch
        .command(victims().join(victim))
        .args(arguments)
        .env("LD_PRELOAD", library.trim())
        .env("HEAPWISE_CONF", format!("{configuration},keep_segment:true"))
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("the victim starts");
    let pid = child.id().to_string();
    let output = child.wait_with_output().expect("the victim ends");
    assert!(output.status.success(), "{configuration}: {:?}", output.status);
    let profile = scratch.path(&format!("{victim}-{pid}.hwp"));
    scratch.output_of(&["dump", "-o", profile.to_str().unwrap(), &pid]);
    scratch.output_of(&["ps", "--dead", "--clean"]);
    (profile, witness(&output))
}

const NUMBERS: [&str; 7] = [
    "alloc_objects",
    "alloc_space",
    "inuse_objects",
    "inuse_space",
    "inuse_slack",
    "alloc_slack",
    "realloc_growth",
];

/// Every stack with a number of each kind.
fn stacks(scratch: &Scratch, profile: &Path) -> Vec<(String, String)> {
    NUMBERS
        .iter()
        .map(|number| {
            let profile = profile.to_str().unwrap();
            let text = scratch.output_of(&["export", "-f", "folded", "--sample_index", number, profile]);
            let mut lines: Vec<&str> = text.lines().collect();
            lines.sort_unstable();
            ((*number).to_owned(), lines.join("\n"))
        })
        .collect()
}

#[test]
fn the_fast_and_the_slow_path_count_the_same() {
    let scratch = Scratch::new();
    for threads in ["1", "4"] {
        let arguments = [threads, "3000"];
        let [(fast, own), (slow, also)] = ["true", "false"].map(|fast_path| {
            run(&scratch, &format!("mode:exact,fast_path:{fast_path}"), "random_events", &arguments)
        });
        assert_eq!(own, also, "the victim does the same in every run");
        for ((number, fast), (_, slow)) in stacks(&scratch, &fast).into_iter().zip(stacks(&scratch, &slow)) {
            // The slack of large blocks depends on what other threads did to the heap before.
            if threads != "1" && number.ends_with("slack") {
                continue;
            }
            assert!(fast == slow, "{threads} threads, {number}:\n{fast}\n---\n{slow}");
        }
        let sizes = [&fast, &slow].map(|profile| {
            scratch.json_of(&["sizes", "--json", profile.to_str().unwrap()])["classes"].clone()
        });
        assert_eq!(sizes[0], sizes[1], "{threads} threads");
        for (number, name) in [
            ("alloc_objects", "alloc_objects"),
            ("alloc_space", "alloc_bytes"),
            ("inuse_objects", "inuse_objects"),
            ("inuse_space", "inuse_bytes"),
        ] {
            let focus = ["top", "--json", "--sample_index", number, "--focus", "^w_"];
            let top = scratch.json_of(&[&focus[..], &[fast.to_str().unwrap()]].concat());
            assert_eq!(top["total"].as_i64(), Some(own[name]), "{threads} threads, {number}");
        }
    }
}

/// Close samples are in the shadow index, and most of their frees take a fast path. With a fixed
/// seed, the same blocks are sampled in every run.
#[test]
fn samples_are_the_same_on_every_path_and_in_both_indexes() {
    let scratch = Scratch::new();
    for threads in ["1", "4"] {
        let of_path = |path: &str| {
            let configuration = format!("mode:sampled,rate:300,seed:11,{path}");
            let (profile, _) = run(&scratch, &configuration, "random_events", &[threads, "3000"]);
            let mut stacks = stacks(&scratch, &profile);
            // The slack of large blocks depends on what other threads did to the heap before.
            stacks.retain(|(number, _)| threads == "1" || !number.ends_with("slack"));
            stacks
        };
        let [fast, slow, hashed] = ["fast_path:true", "fast_path:false", "index:hash"].map(of_path);
        for other in [slow, hashed] {
            for ((number, fast), (_, other)) in fast.iter().zip(other) {
                assert!(*fast == other, "{threads} threads, {number}:\n{fast}\n---\n{other}");
            }
        }
        let live =
            fast.iter().find(|(number, _)| number == "inuse_objects").map(|(_, stacks)| stacks.lines());
        assert!(live.is_some_and(|stacks| stacks.count() > 3), "{threads} threads: {fast:?}");
    }
}

/// Totals equal the program's even when hardly any stack has room; unattributed memory is reported.
#[test]
fn full_tables_lose_attribution_and_no_totals() {
    let scratch = Scratch::new();
    for tables in ["tiny", "least"] {
        let configuration = format!("mode:exact,tables:{tables},index:hash");
        let (profile, own) = run(&scratch, &configuration, "many_stacks", &["40000"]);
        let profile = profile.to_str().unwrap();
        let total = |number: &str| {
            let all = scratch.json_of(&["top", "--json", "--sample_index", number, profile]);
            all["total"].as_i64().expect("a total")
        };
        // libc's own blocks are in the totals too.
        for (number, name) in [("alloc_objects", "alloc_objects"), ("inuse_objects", "inuse_objects")] {
            let (found, own) = (total(number), own[name]);
            assert!((own..own + 20).contains(&found), "{tables} {number}: {found}, the program {own}");
        }
        let text = scratch.output_of(&["top", profile]);
        assert!(text.contains("out of table space"), "{tables}: {text}");
        let gate =
            scratch.heapwise(&["check", "--max-leaked", "1G", "--allow", "w_no", profile]).output().unwrap();
        let text = String::from_utf8_lossy(&gate.stdout);
        assert!(gate.status.success() || text.contains("cannot tell"), "{tables}: {text}");
    }
}

/// A block that found no room is not counted after a reset, neither as allocated nor as freed.
#[test]
fn a_reset_forgets_blocks_that_found_no_room() {
    let scratch = Scratch::new();
    for resets in ["1", "2"] {
        let configuration = "mode:exact,tables:tiny,index:hash";
        let (profile, own) = run(&scratch, configuration, "reset_full_tables", &[resets]);
        for (number, name) in [("alloc_objects", "alloc_objects"), ("inuse_objects", "inuse_objects")] {
            let profile = profile.to_str().unwrap();
            let all = scratch.json_of(&["top", "--json", "--sample_index", number, profile]);
            let (found, own) = (all["total"].as_i64().expect("a total"), own[name]);
            let case = format!("{resets} resets, {number}");
            assert!((own..own + 20).contains(&found), "{case}: {found}, the program {own}");
        }
    }
}

/// Stacks without room are a row of their own: no caller gets what its callees allocated.
#[test]
fn stacks_without_room_are_not_charged_to_their_callers() {
    let scratch = Scratch::new();
    for tables in ["tiny", "least"] {
        let configuration = format!("mode:exact,tables:{tables}");
        let (profile, own) = run(&scratch, &configuration, "many_paths", &["100000"]);
        let top =
            scratch.json_of(&["top", "--json", "--alloc_objects", "--addresses", profile.to_str().unwrap()]);
        // A name is "ADDRESS FUNCTION FILE:LINE"; the path of the file may contain any word.
        let flat = |function: &str| -> i64 {
            let rows = top["rows"].as_array().expect("rows").iter();
            rows.filter(|row| row["name"].as_str().is_some_and(|n| n.split(' ').nth(1) == Some(function)))
                .map(|row| row["flat"].as_i64().expect("a number"))
                .sum()
        };
        let (cut, named) = (flat("[out"), flat("w_malloc"));
        let total = top["total"].as_i64().expect("a total");
        assert!((own["alloc_objects"]..own["alloc_objects"] + 20).contains(&total), "{tables}: {total}");
        assert!(cut > total / 2 && total - cut - named < 20, "{tables}: {cut} and {named} of {total}");
        assert_eq!(flat("w_level") + flat("w_leaf") + flat("main"), 0, "{tables}");
    }
}

/// The peak is right, however many threads hold their share at once.
#[test]
fn the_peak_of_many_threads() {
    let scratch = Scratch::new();
    for threads in [1_u64, 200, 1000] {
        let (profile, own) = run(&scratch, "mode:exact", "threads_at_peak", &[&threads.to_string()]);
        assert_peak(&scratch, profile.to_str().unwrap(), &own, &format!("{threads} threads"));
    }
}

/// After a peak, threads free or allocate a part each and wait, while another one leads to the next
/// peak: the parts that they keep to themselves are in it.
#[test]
fn a_peak_after_a_lull() {
    let scratch = Scratch::new();
    for part in ["free", "allocate"] {
        let (profile, own) = run(&scratch, "mode:exact", "peak_after_lull", &[part]);
        assert_peak(&scratch, profile.to_str().unwrap(), &own, part);
    }
}

/// The peak, and the sum of what the sites held then, are within 2 % or 64 KiB of the truth.
fn assert_peak(scratch: &Scratch, profile: &str, own: &BTreeMap<String, i64>, case: &str) {
    let truth = own["peak_bytes"] as u64;
    let tolerance = (truth / 50).max(64 * 1024);
    let all = scratch.json_of(&["export", "-f", "json", profile]);
    let peak = all["peak_bytes"].as_u64().expect("a peak");
    assert!(peak.abs_diff(truth) <= tolerance, "{case}: {peak}, truth {truth}");
    let focus = ["top", "--json", "--sample_index", "peak_space", "--focus", "^w_", profile];
    let by_site = scratch.json_of(&focus)["total"].as_u64().expect("a total");
    assert!(by_site.abs_diff(truth) <= tolerance, "{case}: {by_site} by site, truth {truth}");
}

/// Sizes that vary make no difference to the account, with and without events.
#[test]
fn varying_sizes_in_exact_and_log_mode() {
    let scratch = Scratch::new();
    let recording = scratch.path("sizes.hwr");
    let logged = scratch.record("varying_sizes", &["20000"], &recording);
    let exact = scratch.capture(&["--exact"], "varying_sizes", &["20000"]);
    assert!(!LOG.is_empty() && logged == exact.witness);
    for (number, name) in [("alloc_space", "alloc_bytes"), ("inuse_space", "inuse_bytes")] {
        assert_eq!(exact.total(number), exact.witness[name], "exact {number}");
        let recording = recording.to_str().unwrap();
        let focus = ["top", "--json", "--sample_index", number, "--focus", "^w_", recording];
        assert_eq!(scratch.json_of(&focus)["total"].as_i64(), Some(logged[name]), "log {number}");
    }
}
