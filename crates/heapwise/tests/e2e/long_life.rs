//! The short forms of soak and kills (`crates/testkit/tests/long_runs.rs`).

use std::time::Duration;

use crate::harness::{Scratch, victims};
use heapwise_testkit::kills::Kills;
use heapwise_testkit::soak::Soak;

fn soak(mode: &str) {
    let scratch = Scratch::new();
    let soak = Soak {
        heapwise: env!("CARGO_BIN_EXE_heapwise").into(),
        victim: victims().join("soak"),
        scratch: scratch.path("soak"),
        time: Duration::from_secs(6),
        burst: 300,
    };
    soak.run(mode).unwrap();
}

#[test]
#[ignore = "long"]
fn exact_mode_neither_grows_nor_drifts() {
    soak("--exact");
}

#[test]
#[ignore = "long"]
fn log_mode_neither_grows_nor_drifts() {
    soak("--log");
}

#[test]
#[ignore = "long"]
fn kills_at_random_moments() {
    let scratch = Scratch::new();
    let kills = Kills {
        heapwise: env!("CARGO_BIN_EXE_heapwise").into(),
        victim: victims().join("tortured"),
        scratch: scratch.path("kills"),
    };
    kills.run(24, 42).unwrap();
}
