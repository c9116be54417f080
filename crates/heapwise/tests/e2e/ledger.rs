//! The ledger of all memory, on a program whose pages are known by construction.

use std::collections::HashMap;
use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::harness::{Scratch, victims};

const PAGE: i64 = 4096;

/// A program that holds memory until its test ends, and the numbers that it printed.
struct Holding {
    child: Child,
    known: HashMap<String, i64>,
}

impl Holding {
    fn new(scratch: &Scratch, mode: &str) -> Self {
        let library = scratch.output_of(&["preload"]);
        let mut command = scratch.command(victims().join("known_pages"));
        command.env("LD_PRELOAD", library.trim()).env("HEAPWISE_CONF", format!("mode:{mode}"));
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("victim starts");
        let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        let number = |line: String| {
            let (name, value) = line.split_once(' ')?;
            Some((name.to_owned(), value.parse().ok()?))
        };
        let known: HashMap<_, _> = lines.map_while(Result::ok).filter_map(number).take(6).collect();
        assert_eq!(known.len(), 6, "{known:?}");
        Self { child, known }
    }

    fn stats(&self, scratch: &Scratch) -> Value {
        scratch.json_of(&["stats", "--json", &self.child.id().to_string()])[0]["ledger"].clone()
    }
}

impl Drop for Holding {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Bytes of the lines of a kind.
fn line(ledger: &Value, kind: &str) -> i64 {
    let lines = ledger["lines"].as_array().expect("lines").iter();
    lines.filter(|line| line["kind"] == kind).map(|line| line["bytes"].as_i64().expect("bytes")).sum()
}

fn sum(ledger: &Value) -> i64 {
    let lines = ledger["lines"].as_array().expect("lines").iter();
    lines.map(|line| line["bytes"].as_i64().expect("bytes")).sum()
}

#[test]
fn every_line_is_right_to_the_page() {
    let scratch = Scratch::new();
    for mode in ["exact", "log", "sampled"] {
        let program = Holding::new(&scratch, mode);
        let known = |name: &str| program.known[name];
        let ledger = program.stats(&scratch);
        assert_eq!(sum(&ledger), ledger["resident"].as_i64().expect("bytes"), "{mode}: {ledger}");
        assert_eq!(line(&ledger, "mappings"), known("mappings") * PAGE, "{mode}: {ledger}");
        assert_eq!(line(&ledger, "shared_memory"), known("shared") * PAGE, "{mode}: {ledger}");
        assert!(
            line(&ledger, "unexplained") <= ledger["resident"].as_i64().expect("bytes") / 50,
            "{mode}: {ledger}"
        );
        if mode == "sampled" {
            assert_eq!(ledger["basis"], "samples");
            continue;
        }
        // Buffers of libc are beside the program's own blocks.
        let live = known("sparse_bytes") + known("large") * PAGE;
        assert!((live..live + (96 << 10)).contains(&line(&ledger, "heap_live")), "{mode}: {ledger}");
        let untouched = known("untouched");
        assert!(
            (untouched - PAGE..untouched + (96 << 10))
                .contains(&ledger["untouched"].as_i64().expect("bytes"))
        );
        // Each page with a sparse block is fragmented but for the block and its header.
        let pinned = known("sparse_pages") * (PAGE - 256 - 16);
        let fragmentation = line(&ledger, "heap_fragmentation");
        assert!((pinned - 16 * PAGE..pinned + 16 * PAGE).contains(&fragmentation), "{mode}: {ledger}");
        let sparse = ledger["pages"]["quarters"][0].as_i64().expect("pages");
        assert!((known("sparse_pages") - 4..known("sparse_pages") + 4).contains(&sparse), "{mode}: {ledger}");
    }
}

#[test]
fn fragmentation_is_blamed_on_the_sites_of_the_blocks() {
    let scratch = Scratch::new();
    let program = Holding::new(&scratch, "exact");
    let view = scratch.json_of(&["fragmentation", "--json", &program.child.id().to_string()]);
    let first = &view["rows"][0];
    assert_eq!(first["name"], "hold_sparse", "{view}");
    assert_eq!(first["blocks"], program.known["sparse_pages"], "{view}");
    let pinned = program.known["sparse_pages"] * (PAGE - 256 - 16);
    let number = |name: &str| first[name].as_i64().expect("bytes");
    assert!((pinned - 16 * PAGE..pinned + 16 * PAGE).contains(&number("pinned")), "{view}");
    let pages = program.known["sparse_pages"] * PAGE;
    assert!((pages - 4 * PAGE..=pages + 4 * PAGE).contains(&number("returned")), "{view}");
    let text = scratch.output_of(&["fragmentation", &program.child.id().to_string()]);
    assert!(text.contains("hold_sparse") && text.starts_with("Heap: "), "{text}");
}

#[test]
fn resident_memory_is_ranked_over_blocks_and_mappings() {
    let scratch = Scratch::new();
    for mode in ["exact", "sampled"] {
        let program = Holding::new(&scratch, mode);
        let pid = program.child.id().to_string();
        let top = scratch.json_of(&["top", "--resident", "--cum", "--json", "-n", "0", &pid]);
        let rows = top["rows"].as_array().expect("rows");
        let cum = |name: &str| {
            let row = rows.iter().find(|row| row["name"] == name);
            row.map_or(0, |row| row["cum"].as_i64().expect("bytes"))
        };
        let mapped = cum("map_private") + cum("map_moved");
        assert_eq!(mapped, program.known["mappings"] * PAGE, "{mode}: {top}");
        assert_eq!(cum("map_shared"), program.known["shared"] * PAGE, "{mode}: {top}");
        assert!(
            rows.iter()
                .any(|row| row["name"].as_str().is_some_and(|name| name.starts_with("[libraries: libc")))
        );
        let total = top["total"]["value"].as_i64().or_else(|| top["total"].as_i64()).expect("a total");
        let ledger = program.stats(&scratch);
        let resident = ledger["resident"].as_i64().expect("bytes");
        assert!((total - resident).abs() < 64 * PAGE, "{mode}: {total} {resident}");
    }
}

/// The last lines of `run` for a program that holds its memory for `hold`.
fn summary_of_run(scratch: &Scratch, hold: Duration) -> String {
    let mut command = scratch.heapwise(&["run", "-f", "--exact", "-o"]);
    command.arg(scratch.path("a.heap")).arg("--").arg(victims().join("known_pages"));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("run");
    let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    assert!(lines.any(|line| line.is_ok_and(|line| line.starts_with("untouched"))), "the victim is ready");
    std::thread::sleep(hold);
    drop(child.stdin.take());
    let output = child.wait_with_output().expect("run ends");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// `run` reads ledgers now and then: a program that ends too early has none of its last state.
#[test]
fn run_ends_with_the_main_lines() {
    let scratch = Scratch::new();
    let mut text = String::new();
    for milliseconds in [100, 1000, 4000, 16_000] {
        text = summary_of_run(&scratch, Duration::from_millis(milliseconds));
        let resident = text.lines().find(|line| line.trim_start().starts_with("resident "));
        if resident.is_some_and(|line| line.contains(": heap ") && line.contains("mappings 936 KiB")) {
            return;
        }
    }
    panic!("{text}");
}
