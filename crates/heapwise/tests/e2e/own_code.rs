//! "Your code" in reports: by heapwise's rule, by options, by the configuration file.

use serde_json::Value;

use crate::harness::{Scratch, victims};

fn profile(scratch: &Scratch) {
    let program = victims().join("session_cache");
    let run = ["run", "-q", "-f", "-o", "app.hwp", "--", program.to_str().unwrap(), "1000"];
    assert!(scratch.heapwise(&run).status().expect("heapwise starts").success());
}

/// The place of the row that allocates most.
fn own(report: &Value) -> (String, String) {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let own = &report["rows"][0]["own"];
    (text(&own["function"]), text(&own["file"]))
}

#[test]
fn top_leaks_and_diff_name_the_code_of_the_program() {
    let scratch = Scratch::new();
    profile(&scratch);
    let top = ["top", "--json", "--sample_index", "peak_space", "app.hwp"];
    let (function, file) = own(&scratch.json_of(&top));
    assert!(
        function.contains("SessionCache::get") && file.ends_with("session_cache.cpp"),
        "{function} {file}"
    );
    let text = scratch.output_of(&["top", "--sample_index", "peak_space", "app.hwp"]);
    let head = text.lines().nth(2).unwrap_or_default();
    assert!(head.ends_with("your code"), "{text}");
    assert!(text.lines().any(|line| line.ends_with("session_cache.cpp:11")), "{text}");
    assert!(!text.contains('\x1b'), "colors are for terminals");
    let leaks = scratch.output_of(&["leaks", "app.hwp"]);
    assert!(leaks.contains("remember (your code: session_cache.cpp:19)"), "{leaks}");
    let diff = scratch.output_of(&["diff", "--alloc_space", "app.hwp", "app.hwp"]);
    assert!(diff.lines().any(|line| line.ends_with("your code")), "{diff}");
}

#[test]
fn patterns_change_the_rule() {
    let scratch = Scratch::new();
    profile(&scratch);
    let top = ["top", "--json", "--sample_index", "peak_space", "app.hwp"];
    let with = |options: &[&str]| own(&scratch.json_of(&[&top[..], options].concat())).0;
    assert_eq!(with(&["--library", "SessionCache"]), "main");
    assert_ne!(with(&["--own", "^std::"]), "main");
    assert!(with(&["--own", "^std::"]).starts_with("std::"));
    let summary = scratch.output_of(&["summary", "--library", "SessionCache", "app.hwp"]);
    assert!(summary.contains("main held"), "{summary}");
    let refused = scratch.heapwise(&["top", "--own", "(", "app.hwp"]).output().expect("heapwise starts");
    assert_eq!(refused.status.code(), Some(2));
}

#[test]
fn a_configuration_file_has_the_same_patterns() {
    let scratch = Scratch::new();
    profile(&scratch);
    let top = ["top", "--json", "--sample_index", "peak_space", "app.hwp"];
    std::fs::write(scratch.path("heapwise.conf"), "# not ours\nlibrary SessionCache\n").unwrap();
    assert_eq!(own(&scratch.json_of(&top)).0, "main");
    let own_again = own(&scratch.json_of(&[&top[..], &["--own", "SessionCache"]].concat())).0;
    assert!(own_again.contains("SessionCache::get"), "{own_again}");
    std::fs::write(scratch.path("heapwise.conf"), "own a\nlibary b\n").unwrap();
    let failed = scratch.heapwise(&top).output().expect("heapwise starts");
    let text = String::from_utf8_lossy(&failed.stderr).into_owned();
    assert!(failed.status.code() == Some(2) && text.contains("heapwise.conf: line 2: `libary`"), "{text}");
    std::fs::remove_file(scratch.path("heapwise.conf")).unwrap();
    std::fs::create_dir_all(scratch.path("configuration/heapwise")).unwrap();
    std::fs::write(scratch.path("configuration/heapwise/heapwise.conf"), "library SessionCache\n").unwrap();
    let mut command = scratch.heapwise(&top);
    let output = command.env("XDG_CONFIG_HOME", scratch.path("configuration")).output().unwrap();
    assert_eq!(own(&serde_json::from_slice(&output.stdout).expect("JSON")).0, "main");
}
