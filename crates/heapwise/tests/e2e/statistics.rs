//! `heapwise stats`: what four allocators say of themselves, and where resident memory is.

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};

use serde_json::Value;

use crate::harness::{Scratch, victims};
use crate::serve::Server;

/// A program that holds memory, over some allocator, in exact mode.
struct Holding {
    child: Child,
    inuse: i64,
}

impl Holding {
    fn new(scratch: &Scratch, allocator: &str) -> Self {
        let library = scratch.output_of(&["preload"]);
        let mut command = scratch.command(victims().join("holds_memory"));
        command.env("LD_PRELOAD", format!("{} {allocator}", library.trim()));
        command.env("HEAPWISE_CONF", "mode:exact").stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("victim starts");
        let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        let inuse = lines
            .map_while(Result::ok)
            .find_map(|line| line.strip_prefix("witness inuse_bytes ")?.parse().ok())
            .expect("it holds memory");
        Self { child, inuse }
    }

    fn stats(&self, scratch: &Scratch) -> Value {
        scratch.json_of(&["stats", "--json", &self.child.id().to_string()])[0].clone()
    }
}

impl Drop for Holding {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Bytes of the lines of a kind.
fn line(stats: &Value, kind: &str) -> i64 {
    let lines = stats["ledger"]["lines"].as_array().expect("lines").iter();
    lines.filter(|line| line["kind"] == kind).map(|line| line["bytes"].as_i64().expect("bytes")).sum()
}

fn resident(stats: &Value) -> i64 {
    stats["ledger"]["resident"].as_i64().expect("a number")
}

fn check_ledger(stats: &Value, inuse: i64) {
    let lines = stats["ledger"]["lines"].as_array().expect("lines");
    let sum: i64 = lines.iter().map(|line| line["bytes"].as_i64().expect("bytes")).sum();
    let resident = resident(stats);
    assert_eq!(sum, resident, "{stats}");
    let rss = stats["rss"].as_i64().expect("a number");
    assert!((resident - rss).abs() < 1 << 20, "{stats}");
    // 16 MiB that were never written to are live and not resident, but for their first page; so are
    // buffers of libraries.
    let untouched = stats["ledger"]["untouched"].as_i64().expect("a number");
    assert!(((16 << 20) - (64 << 10)..(16 << 20) + (1 << 20)).contains(&untouched), "{stats}");
    let live = line(stats, "heap_live");
    assert!((inuse - untouched..inuse - untouched + (1 << 20)).contains(&live), "{live} {stats}");
    // The second thread has written to 64 KiB of its stack, but where the kernel joins that with
    // memory above it, only the main thread's can be identified.
    assert!((4 << 10..4 << 20).contains(&line(stats, "stacks")), "{stats}");
    assert!(line(stats, "binaries") > 1 << 20 && line(stats, "probe") > 1 << 20, "{stats}");
}

#[test]
fn glibc_tells_and_every_resident_page_is_accounted_for() {
    let scratch = Scratch::new();
    let program = Holding::new(&scratch, "");
    let stats = program.stats(&scratch);
    assert_eq!(stats["allocator"], "glibc");
    check_ledger(&stats, program.inuse);
    let told = &stats["allocator_stats"];
    let number = |name: &str| told[name].as_i64().unwrap_or_else(|| panic!("{name} of {told}"));
    assert!((program.inuse..program.inuse + (2 << 20)).contains(&number("allocated")), "{told}");
    assert!(number("active") <= number("mapped") && number("large") >= 16 << 20, "{told}");
    assert!(told["metadata"].is_null() && told["arenas"].is_null(), "glibc does not tell them: {told}");
    assert!(line(&stats, "unexplained") < resident(&stats) / 20, "{stats}");
    // The main thread's and the second one's, from outside.
    let arenas = stats["arenas"].as_array().expect("arenas");
    let resident: Vec<i64> =
        arenas.iter().map(|arena| arena["resident"].as_i64().expect("bytes") >> 20).collect();
    assert!(
        resident.len() >= 2 && resident[0] >= 31 && resident.iter().skip(1).sum::<i64>() >= 15,
        "{resident:?}"
    );
    let text = scratch.output_of(&["stats", &program.child.id().to_string()]);
    assert!(text.contains("  ledger\n") && text.contains("not told") && text.contains("arena 1"), "{text}");
}

#[test]
#[ignore = "needs jemalloc, tcmalloc and mimalloc"]
fn jemalloc_tells_everything_and_tcmalloc_and_mimalloc_what_they_know() {
    let scratch = Scratch::new();
    for (library, name, tells) in [
        (
            "libjemalloc.so.2",
            "jemalloc",
            &["allocated", "active", "resident", "mapped", "retained", "metadata", "arenas"][..],
        ),
        (
            "libtcmalloc_minimal.so.4",
            "tcmalloc",
            &["allocated", "active", "resident", "mapped", "retained", "free"],
        ),
        ("libmimalloc.so.2", "mimalloc", &["active", "resident", "mapped"]),
    ] {
        let program = Holding::new(&scratch, library);
        let stats = program.stats(&scratch);
        assert_eq!(stats["allocator"], name);
        check_ledger(&stats, program.inuse);
        let told = &stats["allocator_stats"];
        for number in tells {
            assert!(told[number].is_u64(), "{name} tells {number}: {told}");
        }
        if let Some(allocated) = told["allocated"].as_i64() {
            assert!((program.inuse..program.inuse + (8 << 20)).contains(&allocated), "{name}: {told}");
        }
        assert!(told["mapped"].as_i64().expect("a number") >= 48 << 20, "{name}: {told}");
        if name == "jemalloc" {
            // The main thread's and the second one's arena hold everything between them.
            let arenas = stats["arenas"].as_array().expect("arenas");
            let allocated: i64 = arenas.iter().map(|arena| arena["allocated"].as_i64().expect("bytes")).sum();
            assert!(
                arenas.len() >= 2 && (program.inuse..program.inuse + (8 << 20)).contains(&allocated),
                "{stats}"
            );
        }
        if name == "mimalloc" {
            assert!(told["allocated"].is_null(), "{told}");
        }
    }
}

fn body(server: &Server, address: &str) -> String {
    let answer = server.get(address);
    assert!(answer.starts_with("HTTP/1.1 200"), "{address}: {answer}");
    answer.split_once("\r\n\r\n").expect("a body").1.to_owned()
}

/// The first request of a server already has the allocator's numbers.
#[test]
fn the_first_request_for_memory_has_the_allocators_numbers() {
    let scratch = Scratch::new();
    let holding = Holding::new(&scratch, "");
    let server = Server::start(&scratch, &[]);
    let first: Value = serde_json::from_str(&body(&server, "/memory?opts=J")).expect("JSON");
    let allocator = &first["sections"][0];
    assert_eq!(allocator["title"], "Allocator (glibc)", "{first}");
    let rows = allocator["rows"].as_array().expect("rows");
    let allocated = rows.iter().find(|row| row["name"] == "allocated").expect("a row");
    assert!(allocated["value"].as_i64().expect("bytes") >= holding.inuse, "{first}");
}

/// Over jemalloc `opts` has its letters: each omits a part of what jemalloc itself prints.
#[test]
#[ignore = "needs libjemalloc"]
fn memory_of_jemalloc_has_its_parts_by_letter() {
    let scratch = Scratch::new();
    let holding = Holding::new(&scratch, "libjemalloc.so.2");
    let server = Server::start(&scratch, &[]);
    let first: Value = serde_json::from_str(&body(&server, "/memory?opts=Ja")).expect("JSON");
    let allocated = first["jemalloc"]["stats"]["allocated"].as_i64().expect("bytes");
    assert!(allocated >= holding.inuse, "{first}");
    assert!(first["jemalloc"]["stats.arenas"]["0"].is_null(), "{first}");
    let whole = body(&server, "/memory?opts=");
    assert!(whole.starts_with("___ Begin jemalloc statistics ___\n"), "{whole}");
    assert!(whole.trim_end().ends_with("--- End jemalloc statistics ---"), "{whole}");
    for (letter, part) in [
        ("g", "Run-time option settings"),
        ("a", "arenas[0]:"),
        ("b", "\nbins:"),
        ("l", "\nlarge:          size"),
    ] {
        let without = body(&server, &format!("/memory?opts={letter}"));
        assert!(whole.contains(part) && !without.contains(part), "{letter}: {without}");
    }
    let stats = body(&server, "/pprof/heap?display=stats&opts=Jgmdablxe");
    let stats: Value = serde_json::from_str(&stats).expect("JSON");
    assert!(stats["jemalloc"]["stats"]["allocated"].is_i64(), "{stats}");
}
