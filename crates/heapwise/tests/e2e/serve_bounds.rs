//! The server's bounds: every answer about a large profile has few rows and bytes, and the server
//! as a whole stays within its memory.

use std::fs;
use std::thread;

use heapwise_profile::{compact, read};

use crate::harness::Scratch;
use crate::serve::Server;

/// Every address that answers about a profile.
const ADDRESSES: [&str; 31] = [
    "/api/v1/sources",
    "/api/v1/sources/ID",
    "/api/v1/sources/ID/summary",
    "/api/v1/sources/ID/findings",
    "/api/v1/sources/ID/top?granularity=lines",
    "/api/v1/sources/ID/top?n=1000000000",
    "/api/v1/sources/ID/flame",
    "/api/v1/sources/ID/flame?shape=bottomup",
    "/api/v1/sources/ID/flame?shape=callers&pivot=.",
    "/api/v1/sources/ID/flame?shape=callees&pivot=.",
    "/api/v1/sources/ID/tree?n=1000000000",
    "/api/v1/sources/ID/graph?nodecount=1000000000&format=json",
    "/api/v1/sources/ID/leaks",
    "/api/v1/sources/ID/leaks?n=1000000000&sample_type=alloc_space",
    "/api/v1/sources/ID/sizes?n=1000000000",
    "/api/v1/sources/ID/threads",
    "/api/v1/sources/ID/modules",
    "/api/v1/sources/ID/timeline",
    "/api/v1/sources/ID/list?function=.&n=1000000000",
    "/api/v1/sources/ID/flame?format=svg",
    "/api/v1/sources/ID/flame?format=png",
    "/api/v1/sources/ID/export?format=pprof",
    "/api/v1/sources/ID/export?format=speedscope",
    "/api/v1/sources/ID/export?format=csv",
    "/api/v1/sources/ID/export?format=heapwise",
    "/api/v1/sources/ID/export?format=folded&focus=site1",
    "/p/ID/pprof/heap",
    "/p/ID/pprof/heap?display=text",
    "/p/ID/pprof/heap?display=flamegraph",
    "/p/ID/debug/pprof/heap",
    "/p/ID/hotspots/heap?console=1&display_type=text",
];

/// Memory that the server is given, and the largest answer that this allows.
const MEMORY_MIB: u64 = 256;
const MOST_ANSWER_BYTES: usize = (MEMORY_MIB as usize) << 20 >> 3;

/// A profile with 25 000 stacks of 60 frames: listing every stack takes about a gigabyte.
fn write_large_profile(path: &std::path::Path) {
    let mut folded = String::new();
    for stack in 0..25_000_u64 {
        let mut state = stack.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        for depth in 0..60 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let choice = if depth < 40 { 0 } else { (state >> 60) % 5 };
            folded += &format!("{}f{depth}_{choice}", if depth == 0 { "" } else { ";" });
        }
        folded += &format!(";site{} {}\n", stack % 300, 100 + stack % 7);
    }
    let profile = read(folded.as_bytes()).expect("folded stacks");
    fs::write(path, compact::encode(&profile)).expect("written");
}

fn peak_kib(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("the server runs");
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).expect("a peak");
    line.split_whitespace().nth(1).and_then(|number| number.parse().ok()).expect("a number")
}

/// The answer at an address, after as many attempts as a busy machine needs.
fn answer_of(server: &Server, address: &str) -> String {
    let mut answers = (0..10).map(|_| server.get(address));
    let is_done = |answer: &String| !answer.contains("busy with other renders, try again");
    answers.find(is_done).unwrap_or_default()
}

#[test]
#[ignore = "long"]
fn every_answer_about_a_large_profile_is_bounded() {
    let scratch = Scratch::new();
    write_large_profile(&scratch.path("large.hwp"));
    let memory = format!("{MEMORY_MIB}M");
    let server = Server::start(&scratch, &["--memory", &memory, "large.hwp"]);
    thread::scope(|scope| {
        for address in ADDRESSES {
            let server = &server;
            scope.spawn(move || {
                let answer = answer_of(server, &address.replace("ID", "large.hwp"));
                let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_default();
                assert!(head.starts_with("HTTP/1.1 200"), "{address}: {head} {body:.200}");
                assert!(body.len() <= MOST_ANSWER_BYTES, "{address}: {} bytes", body.len());
                assert!(!body.is_empty(), "{address}");
            });
        }
    });
    let peak = peak_kib(server.child.id());
    assert!(peak < MEMORY_MIB << 10, "{} MiB", peak >> 10);
    let leaks = server.get("/api/v1/sources/large.hwp/leaks");
    let body = leaks.split_once("\r\n\r\n").expect("a body").1;
    let leaks: serde_json::Value = serde_json::from_str(body).expect("JSON");
    let groups = leaks["groups"].as_array().expect("groups");
    assert_eq!((groups.len(), leaks["dropped"].as_u64()), (200, Some(100)));
    assert!(groups[0]["more_stacks"].as_u64().is_some_and(|more| more > 50));
}
