//! Long runs with the release build, none of them part of `cargo test` or `cargo xtask test`:
//!
//! ```text
//! cargo build --release
//! cargo test -p heapwise-testkit --test long_runs -- --ignored --nocapture [soak|kills|torture]
//! ```
//!
//! `HEAPWISE_MINUTES`, `HEAPWISE_ROUNDS` and `HEAPWISE_SEED` change their length and seed. Short
//! forms run with the end-to-end tests of `heapwise` (`long_life.rs`, `recording.rs`).

use std::path::{Path, PathBuf};
use std::time::Duration;

use heapwise_testkit::kills::Kills;
use heapwise_testkit::programs;
use heapwise_testkit::soak::Soak;
use heapwise_testkit::torture::Torture;

struct Stage {
    heapwise: PathBuf,
    victims: PathBuf,
    scratch: PathBuf,
}

impl Stage {
    fn new(name: &str) -> Self {
        let root =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the repository");
        let out = root.join("target").join(name);
        let victims = out.join("victims");
        programs::build(&root.join("tests/programs"), &victims).expect("victims compile");
        let heapwise = root.join("target/release/heapwise");
        assert!(heapwise.exists(), "{} is missing; run `cargo build --release`", heapwise.display());
        Self { heapwise, victims, scratch: out.join("scratch") }
    }
}

fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).map_or(default, |text| text.parse().expect("a number"))
}

fn soak(mode: &str) {
    let stage = Stage::new(&format!("soak-{mode}"));
    let soak = Soak {
        heapwise: stage.heapwise,
        victim: stage.victims.join("soak"),
        scratch: stage.scratch,
        time: Duration::from_secs(60 * number("HEAPWISE_MINUTES", 60)),
        burst: 300,
    };
    println!("{mode}: {}", soak.run(&format!("--{mode}")).unwrap());
}

#[test]
#[ignore = "takes an hour"]
fn soak_exact() {
    soak("exact");
}

#[test]
#[ignore = "takes an hour"]
fn soak_log() {
    soak("log");
}

#[test]
#[ignore = "takes an hour"]
fn kills() {
    let stage = Stage::new("kills");
    let kills =
        Kills { heapwise: stage.heapwise, victim: stage.victims.join("tortured"), scratch: stage.scratch };
    kills.run(number("HEAPWISE_ROUNDS", 2000) as u32, number("HEAPWISE_SEED", 1)).unwrap();
}

#[test]
#[ignore = "takes an hour"]
fn torture() {
    let stage = Stage::new("torture");
    let torture =
        Torture { heapwise: stage.heapwise, victim: stage.victims.join("tortured"), scratch: stage.scratch };
    let rounds = number("HEAPWISE_ROUNDS", 1000) as u32;
    assert!(torture.run(rounds, number("HEAPWISE_SEED", 1)).is_ok());
}
