//! Programs that speak to the probe inside them: the Rust client and `heapwise.h`, with the probe
//! and without.

use std::process::Command;

use heapwise_client as client;

use crate::harness::{Scratch, victims, witness};

/// Set for the run of this test binary that is the program.
const ROLE: &str = "HEAPWISE_TEST_ROLE";

#[inline(never)]
fn labelled_work(bytes: usize) -> Vec<u8> {
    let _outer = client::label("checkout");
    let _inner = client::label("basket");
    vec![1; bytes]
}

/// The program of the tests below; as a test of its own it does nothing.
#[test]
fn program() {
    let Ok(role) = std::env::var(ROLE) else { return };
    assert!(client::is_present());
    if role == "labels" {
        return std::mem::forget(labelled_work(3 << 20));
    }
    let before_start = vec![1_u8; 1 << 20];
    client::start(client::Recording::Exact);
    let labelled = labelled_work(3 << 20);
    let unlabelled = vec![1_u8; 5 << 20];
    client::mark("worked");
    client::stop();
    let after_stop = vec![1_u8; 7 << 20];
    let now = client::snapshot().expect("the probe is here");
    client::dump("client.heap").expect("written");
    assert!(client::dump("/nonexistent/client.heap").is_err());
    println!("\nwitness live {}\nwitness recorded {}", now.live_bytes, now.recorded);
    client::start(client::Recording::Sampled { mean_bytes: 4096 });
    client::reset();
    println!("witness after_reset {}", client::snapshot().expect("still here").recorded);
    let sampled: Vec<Vec<u8>> = (0..1000).map(|_| vec![1; 4096]).collect();
    println!("witness sampled_live {}", client::snapshot().expect("still here").live_bytes);
    drop((before_start, labelled, unlabelled, after_stop, sampled));
}

fn run_program(
    scratch: &Scratch,
    mut command: Command,
    role: &str,
) -> std::collections::BTreeMap<String, i64> {
    let itself = std::env::current_exe().expect("a path");
    command.env(ROLE, role);
    command.arg(itself).args(["client::program", "--exact", "--nocapture", "--test-threads=1"]);
    let output = command.current_dir(scratch.path(".")).output().expect("starts");
    assert!(output.status.success(), "{output:?}");
    witness(&output)
}

#[test]
fn the_rust_client_starts_stops_resets_and_dumps() {
    let scratch = Scratch::new();
    let library = scratch.output_of(&["preload"]);
    let mut command = scratch.command("env");
    command.env("LD_PRELOAD", library.trim());
    let told = run_program(&scratch, command, "all");
    let live = told["live"];
    assert!((8 << 20..9 << 20).contains(&live), "{live}: what was allocated between start and stop");
    assert!(told["after_reset"] < 20, "{told:?}");
    let sampled = told["sampled_live"] as f64 / (1000.0 * 4096.0);
    assert!((0.85..1.15).contains(&sampled), "{sampled} of the truth; the standard error is 2 %");
    let dump = scratch.path("client.heap");
    let top = scratch.json_of(&["top", "--json", "--focus", "client::", dump.to_str().expect("UTF-8")]);
    assert_eq!(top["total"].as_i64().expect("a total") >> 20, 8, "{top}");
}

#[test]
fn labels_show_up_in_reports() {
    let scratch = Scratch::new();
    let profile = scratch.path("labels.heap");
    let mut command = scratch.heapwise(&["run", "--exact", "-q", "-o"]);
    command.arg(&profile).arg("--");
    run_program(&scratch, command, "labels");
    let profile = profile.to_str().expect("UTF-8");
    for label in [r"^\[checkout\]$", r"^\[basket\]$"] {
        let top = scratch.json_of(&["top", "--json", "--focus", label, profile]);
        assert_eq!(top["total"].as_i64(), Some(3 << 20), "{label}");
    }
}

/// Builds and runs the C program that includes `heapwise.h`.
fn c_program(scratch: &Scratch, preload: Option<&str>) -> std::collections::BTreeMap<String, i64> {
    let mut command = scratch.command(victims().join("api_user"));
    if let Some(library) = preload {
        command.env("LD_PRELOAD", library);
    }
    let output = command.output().expect("victim starts");
    assert!(output.status.success(), "{output:?}");
    witness(&output)
}

#[test]
#[ignore = "needs jeprof"]
fn the_c_header_works_with_the_probe_and_without() {
    let scratch = Scratch::new();
    let absent = c_program(&scratch, None);
    assert_eq!((absent["present"], absent["snapshot"], absent["live"], absent["dump"]), (0, 0, 0, 0));
    assert!(!scratch.path("api.heap").exists());

    let library = scratch.output_of(&["preload"]);
    let told = c_program(&scratch, Some(library.trim()));
    assert_eq!((told["present"], told["snapshot"], told["dump"], told["bad_dump"]), (1, 1, 0, 14));
    assert_eq!(told["live"], told["inuse_bytes"]);
    let dump = scratch.path("api.heap");
    let top = scratch.json_of(&["top", "--json", "--focus", "^w_", dump.to_str().expect("UTF-8")]);
    assert_eq!(top["total"].as_i64(), Some(told["inuse_bytes"]));
    let jeprof = Command::new("jeprof")
        .args(["--text", "--show_bytes"])
        .arg(victims().join("api_user"))
        .arg(&dump)
        .output()
        .expect("jeprof (Debian: libjemalloc-dev) is installed");
    let text = String::from_utf8_lossy(&jeprof.stdout).into_owned();
    assert!(text.starts_with(&format!("Total: {} B\n", told["inuse_bytes"])), "{text}");
}

#[test]
fn labels_of_a_c_program_are_frames_of_reports() {
    let scratch = Scratch::new();
    let capture = scratch.capture(&["--exact"], "api_user", &["labels"]);
    let profile = capture.profile.to_str().expect("UTF-8");
    let total = |focus: &str| {
        let top = scratch.json_of(&["top", "--json", "--focus", focus, profile]);
        top["total"].as_i64().expect("a total")
    };
    assert_eq!(total(r"^\[checkout\]$"), capture.witness["checkout"]);
    assert_eq!(total(r"^\[basket of 3\]$"), capture.witness["basket"]);
    let rows = scratch.output_of(&["top", profile]);
    assert!(rows.contains("[basket of 3]") && rows.contains("[checkout]"), "{rows}");
}
