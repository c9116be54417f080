//! What jemalloc's profiler keeps of single threads and single blocks, over plain glibc.

use std::collections::BTreeMap;
use std::process::{Command, Output};

use serde_json::Value;

use crate::harness::{Scratch, victims, witness};

const VICTIM: &str = "jemalloc_threads";

fn run(scratch: &Scratch, preload: &str, conf: &str, arguments: &[&str]) -> (Output, BTreeMap<String, i64>) {
    let mut command = scratch.command(victims().join(VICTIM));
    command.args(arguments).env("LD_PRELOAD", preload).env("MALLOC_CONF", conf);
    let output = command.output().expect("victim starts");
    assert!(output.status.success(), "{output:?}");
    let told = witness(&output);
    (output, told)
}

fn ours(scratch: &Scratch, conf: &str, arguments: &[&str]) -> (Output, BTreeMap<String, i64>) {
    let library = scratch.output_of(&["preload"]);
    run(scratch, library.trim(), conf, arguments)
}

fn json(scratch: &Scratch, name: &str) -> Value {
    serde_json::from_slice(&std::fs::read(scratch.path(name)).expect("written")).expect("JSON")
}

#[test]
#[ignore = "needs jeprof and libjemalloc"]
fn dumps_have_lines_per_thread() {
    let scratch = Scratch::new();
    let (_, told) = ours(&scratch, "prof:true,lg_prof_sample:0", &["threads"]);
    assert_eq!((told["named"], told["dumped"]), (0, 0));
    let dump = scratch.path(&format!("jeprof.{}.0.m0.heap", told["pid"]));
    let text = std::fs::read_to_string(&dump).expect("a dump");
    // Eight of its sixteen are left, though it was the main thread that freed the others.
    assert!(text.contains("\n  t1: 8: 8000 [0: 0] producer\n"), "{text}");
    assert!(text.contains("\n  t*: 8: 8000 [0: 0]\n  t1: 8: 8000 [0: 0]\n"), "{text}");
    assert!(!text.contains("system_name\n@"), "only with prof_sys_thread_name");

    let jeprof = |thread: &str| {
        let output = Command::new("jeprof")
            .args(["--text", "--show_bytes", thread])
            .arg(victims().join(VICTIM))
            .arg(&dump)
            .output()
            .expect("jeprof (Debian: libjemalloc-dev) is installed");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    assert!(jeprof("--thread=1").starts_with("Total (t1): 8000 B\n"), "{}", jeprof("--thread=1"));
    let all = jeprof("--thread=*");
    assert!(all.contains("Total (t0): ") && all.contains("Total (t1): 8000 B\n"), "{all}");

    let threads = scratch.output_of(&["threads", dump.to_str().expect("UTF-8")]);
    assert!(threads.contains("producer") && threads.contains("system_name"), "{threads}");
}

#[test]
fn the_systems_names_are_in_dumps_where_they_are_wanted() {
    let scratch = Scratch::new();
    let conf = "prof:true,lg_prof_sample:0,prof_sys_thread_name:true";
    let (_, told) = ours(&scratch, conf, &["threads"]);
    assert_eq!(told["named"], 2, "ENOENT: names are the system's");
    let dump = scratch.path(&format!("jeprof.{}.0.m0.heap", told["pid"]));
    let text = std::fs::read_to_string(dump).expect("a dump");
    let main = text.lines().find(|line| line.starts_with("  t0: ")).expect("the main thread");
    assert!(main.ends_with(" system_name"), "{main}");
}

/// Sampled as coarsely as by default, a thread still has its line.
#[test]
fn sampled_dumps_have_lines_per_thread() {
    let scratch = Scratch::new();
    let library = scratch.output_of(&["preload"]);
    let mut command = scratch.command(victims().join("jemalloc_guide"));
    command.arg("grow").env("LD_PRELOAD", library.trim()).env("MALLOC_CONF", "prof:true,prof_final:true");
    let told = witness(&command.output().expect("victim starts"));
    let dump = scratch.path(&format!("jeprof.{}.0.f.heap", told["pid"]));
    let text = std::fs::read_to_string(dump).expect("a dump");
    let sums: Vec<&str> =
        text.lines().skip(1).take(2).map(|line| line.split_once(": ").expect("counts").1).collect();
    assert!(text.starts_with("heap_v2/524288\n  t*: ") && sums[0] == sums[1], "{text}");
}

#[test]
#[ignore = "needs jeprof and libjemalloc"]
fn the_last_blocks_are_kept() {
    let scratch = Scratch::new();
    let conf = "prof:true,lg_prof_sample:0,prof_recent_alloc_max:3";
    let shape = |blocks: &Value| -> Vec<(u64, bool)> {
        let blocks = blocks["recent_alloc"].as_array().expect("blocks");
        let of = |block: &Value| (block["size"].as_u64().expect("a size"), block["released"] == true);
        blocks.iter().map(of).collect()
    };
    let (_, told) = ours(&scratch, conf, &["recent"]);
    assert_eq!(told["recent"], 0);
    let kept = json(&scratch, "recent.json");
    assert_eq!(shape(&kept), [(200, false), (300, true), (400, false)]);
    assert_eq!((kept["sample_interval"].as_u64(), kept["recent_alloc_max"].as_i64()), (Some(1), Some(3)));
    run(&scratch, "libjemalloc.so.2", conf, &["recent"]);
    let jemallocs = json(&scratch, "recent.json");
    assert_eq!(shape(&jemallocs), shape(&kept));
    let keys = |kept: &Value| -> Vec<String> {
        let block = kept["recent_alloc"][1].as_object().expect("a block");
        block.keys().cloned().collect()
    };
    assert_eq!(keys(&kept), keys(&jemallocs));
}

#[test]
#[ignore = "needs jeprof and libjemalloc"]
fn the_log_has_what_was_freed() {
    let scratch = Scratch::new();
    let mut shapes = Vec::new();
    let library = scratch.output_of(&["preload"]);
    for preload in [library.trim(), "libjemalloc.so.2"] {
        let (_, told) = run(&scratch, preload, "prof:true,lg_prof_sample:0", &["log"]);
        let results = ["started", "started_twice", "stopped", "stopped_twice"].map(|name| told[name]);
        assert_eq!(results, [0, 14, 0, 14], "{preload}");
        let log = json(&scratch, "log.json");
        let freed = log["allocations"].as_array().expect("blocks");
        assert!(freed.iter().any(|block| matches!(block["usize"].as_u64(), Some(60..=80))), "{log}");
        let keys: Vec<String> = freed[0].as_object().expect("a block").keys().cloned().collect();
        let info: Vec<String> = log["info"].as_object().expect("info").keys().cloned().collect();
        shapes.push((keys, info));
    }
    assert_eq!(shapes[0], shapes[1]);
}

#[test]
#[ignore = "needs jeprof and libjemalloc"]
fn size_classes_are_summed() {
    let scratch = Scratch::new();
    let conf = "prof:true,lg_prof_sample:0,prof_stats:true";
    let (_, told) = ours(&scratch, conf, &["sizes"]);
    let (_, jemallocs) = run(&scratch, "libjemalloc.so.2", conf, &["sizes"]);
    for (name, expected) in [
        ("small_live_bytes", 110),
        ("small_live_blocks", 1),
        ("small_ever_bytes", 210),
        ("small_ever_blocks", 2),
        ("large_live_bytes", 20000),
        ("large_live_blocks", 1),
    ] {
        assert_eq!((told[name], jemallocs[name]), (expected, expected), "{name}");
    }
}

#[test]
fn statistics_are_printed_as_text_and_json() {
    let scratch = Scratch::new();
    let stderr = |letters: &str| {
        let (output, _) = ours(&scratch, "prof:true,lg_prof_sample:10", &["print", letters]);
        String::from_utf8(output.stderr).expect("UTF-8")
    };
    let text = stderr("a");
    assert!(text.starts_with("___ Begin jemalloc statistics ___\nVersion: "), "{text}");
    assert!(text.contains("\n  opt.lg_prof_sample: 10\n") && text.contains("\nAllocated: "), "{text}");
    assert!(text.ends_with("\n--- End jemalloc statistics ---\n"), "{text}");
    let short = stderr("gm");
    assert!(!short.contains("opt.") && !short.contains("Allocator: ") && short.contains("Allocated: "));
    let json: Value = serde_json::from_str(&stderr("J")).expect("JSON");
    assert_eq!(json["jemalloc"]["opt"]["lg_prof_interval"], -1);
    assert_eq!(json["jemalloc"]["opt"]["prof"], true);
    assert!(json["jemalloc"]["stats"]["allocated"].is_u64());
    let general: Value = serde_json::from_str(&stderr("Jg")).expect("JSON");
    assert!(general["jemalloc"]["opt"].is_null() && general["jemalloc"]["stats"].is_object());
}
