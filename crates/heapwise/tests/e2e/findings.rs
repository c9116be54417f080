//! What `run` and `summary` say first: at most five findings, by function of the own code.

use serde_json::Value;

use crate::harness::{Scratch, victims};

/// Kind, bytes, function and share of each finding.
fn found(summary: &Value) -> Vec<(String, i64, String, f64)> {
    let findings = summary["findings"].as_array().expect("findings");
    assert!(findings.len() <= 5 && serde_json::to_string(summary).unwrap().len() <= 4096, "{summary}");
    let one = |finding: &Value| {
        let place = &finding["places"][0];
        let bytes = finding["values"]["bytes"].as_f64().unwrap_or_default() as i64;
        let function = place["function"].as_str().unwrap_or_default().to_owned();
        (finding["kind"].as_str().unwrap().to_owned(), bytes, function, place["percent"].as_f64().unwrap())
    };
    findings.iter().map(one).collect()
}

#[test]
fn run_and_summary_name_the_cache_the_leak_and_the_churn() {
    let scratch = Scratch::new();
    let program = victims().join("session_cache");
    let output = scratch
        .heapwise(&["run", "-o", "app.hwp", "--", program.to_str().unwrap(), "10000"])
        .output()
        .expect("heapwise starts");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("every block"), "{text}");
    for line in ["peak: ", "never freed: 488 KiB in 1000 blocks", "turnover: ", "(session_cache.cpp:11)"] {
        assert!(text.contains(line), "no {line}: {text}");
    }
    let found = found(&scratch.json_of(&["summary", "--json", "app.hwp"]));
    let kinds: Vec<&str> = found.iter().map(|(kind, ..)| kind.as_str()).collect();
    assert_eq!(kinds, ["peak", "never_freed", "turnover"]);
    assert!(found[0].2.starts_with("SessionCache::get") && found[0].3 > 80.0, "{found:?}");
    assert_eq!((found[1].1, found[1].2.as_str()), (500_000, "remember"));
    assert!(found[2].2 == "answer" && found[2].3 > 95.0, "{found:?}");
}

/// A program that frees everything has grown at its peak.
#[test]
fn summary_of_a_difference_names_what_grew() {
    let scratch = Scratch::new();
    let program = victims().join("session_cache");
    for (file, requests) in [("a.hwp", "1000"), ("b.hwp", "4000")] {
        let run = ["run", "-q", "-o", file, "--", program.to_str().unwrap(), requests];
        assert!(scratch.heapwise(&run).status().expect("heapwise starts").success());
    }
    let found = found(&scratch.json_of(&["summary", "--json", "--base", "a.hwp", "b.hwp"]));
    let kinds: Vec<&str> = found.iter().map(|(kind, ..)| kind.as_str()).collect();
    assert_eq!(kinds, ["peak_growth", "growth"]);
    assert!(found[0].2.starts_with("SessionCache::get"), "{found:?}");
    // 300 blocks of 500 bytes more were forgotten.
    assert_eq!((found[1].1, found[1].2.as_str()), (150_000, "remember"));
    let text = scratch.output_of(&["summary", "--base", "a.hwp", "b.hwp"]);
    for command in ["diff --sample_index peak_space a.hwp b.hwp", "diff a.hwp b.hwp"] {
        assert!(text.contains(&format!("  \u{2192} heapwise {command}\n")), "{text}");
        assert!(!scratch.output_of(&command.split(' ').collect::<Vec<_>>()).is_empty());
    }
}

/// Every next command works.
#[test]
fn the_next_commands_of_a_profile_work() {
    let scratch = Scratch::new();
    let program = victims().join("session_cache");
    let run = ["run", "-q", "-o", "app.hwp", "--", program.to_str().unwrap(), "1000"];
    assert!(scratch.heapwise(&run).status().expect("heapwise starts").success());
    let summary = scratch.json_of(&["summary", "--json", "app.hwp"]);
    let findings = summary["findings"].as_array().unwrap();
    assert!(findings.len() >= 3, "{summary}");
    for finding in findings {
        let command = finding["next"].as_str().unwrap().replace("FILE", "app.hwp");
        let words: Vec<&str> = command.split(' ').skip(1).collect();
        assert!(!scratch.output_of(&words).is_empty(), "{command}");
    }
}

/// `run --log` ends with the findings of its recording, and every next command works.
#[test]
fn a_recorded_run_ends_with_its_findings() {
    let scratch = Scratch::new();
    let program = victims().join("session_cache");
    let run = ["run", "--log", "-o", "app.hwr", "--", program.to_str().unwrap(), "10000"];
    let output = scratch.heapwise(&run).output().expect("heapwise starts");
    let text = String::from_utf8_lossy(&output.stderr);
    for line in ["peak: ", "SessionCache::get", "never freed: ", "(session_cache.cpp:11)"] {
        assert!(text.contains(line), "no {line}: {text}");
    }
    let commands: Vec<&str> =
        text.lines().filter_map(|line| line.strip_prefix("  \u{2192} heapwise ")).collect();
    assert!(commands.len() >= 3, "{text}");
    for command in commands {
        let words: Vec<&str> = command.split(' ').collect();
        assert!(!scratch.output_of(&words).is_empty(), "{command}");
    }
}

/// A report without rows says why.
#[test]
fn empty_results_say_so() {
    let scratch = Scratch::new();
    std::fs::write(scratch.path("a.folded"), "main;load;parse 6144\n").expect("written");
    let victim = victims().join("plain").display().to_string();
    scratch.output_of(&["run", "-q", "-o", "a.hwp", "--", &victim, "10"]);
    for (arguments, reason) in [
        (&["top", "a.folded", "--focus", "nosuch"][..], "no stack passes the filters"),
        (&["leaks", "a.folded", "--focus", "nosuch"], "no stack passes the filters"),
        (&["diff", "a.folded", "a.folded"], "the total is zero"),
        (&["diff", "a.hwp", "a.hwp"], "peak_space compares the peaks"),
        (&["list", "nosuch", "a.folded"], "no function that allocated matches `nosuch`"),
        (&["peek", "nosuch", "a.folded"], "no function that allocated matches `nosuch`"),
    ] {
        let output = scratch.heapwise(arguments).output().expect("heapwise starts");
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && text.contains(reason), "{arguments:?}: {text}");
    }
}
