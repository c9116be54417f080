//! The Firefox Profiler's own command line as witness of its form: it loads, checks and upgrades a
//! file as the page does, and sums up the same call tree.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use heapwise_profile::{Metric, Profile};
use heapwise_render::export::Format;
use serde_json::Value;

use crate::specimen::{recording, rich};
use crate::tool::Written;

const PROFILER: &str = "profiler-cli";
const INSTALL: &str = "npm install -g @firefox-devtools/profiler-cli@0.10.0";

/// From start to first answer, on a loaded machine.
const LONGEST_START: Duration = Duration::from_secs(60);

/// The profiler with a file open: a process that serves requests.
struct Viewer {
    process: Child,
    sessions: PathBuf,
    _file: Written,
}

impl Viewer {
    fn open(profile: &Profile, metric: Metric, name: &str) -> Self {
        let file = Written::profile(profile, Format::Firefox, metric, name);
        let sessions = file.path.with_extension("sessions");
        std::fs::create_dir_all(&sessions).unwrap();
        let process = Command::new(PROFILER)
            .args(["--daemon", file.path(), "--session", "one"])
            .env("PROFILER_CLI_SESSION_DIR", &sessions)
            .stdout(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| panic!("{PROFILER}: {error}; install it with `{INSTALL}`"));
        let viewer = Self { process, sessions, _file: file };
        viewer.wait();
        viewer
    }

    /// Waits until it listens: an earlier request takes it for dead and removes its session.
    fn wait(&self) {
        let begun = Instant::now();
        let listens = || ["one.json", "one.sock"].iter().all(|name| self.sessions.join(name).exists());
        while !listens() {
            assert!(begun.elapsed() < LONGEST_START, "{PROFILER} does not start");
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Retries until there is a response.
    fn ask(&self, question: &[&str]) -> Value {
        let begun = Instant::now();
        loop {
            let answer = Command::new(PROFILER)
                .args(question)
                .args(["--session", "one", "--json"])
                .env("PROFILER_CLI_SESSION_DIR", &self.sessions)
                .output()
                .unwrap();
            if answer.status.success() {
                return serde_json::from_slice(&answer.stdout).unwrap();
            }
            let why = String::from_utf8_lossy(&answer.stderr);
            assert!(begun.elapsed() < LONGEST_START, "{question:?}: {why}");
            thread::sleep(Duration::from_millis(200));
        }
    }

    /// Sum of all samples in the call tree.
    fn total(&self) -> f64 {
        let tree = self.ask(&["thread", "samples-top-down"]);
        tree["regularCallTree"]["totalSamples"].as_f64().unwrap()
    }

    /// Flat and cumulative weight of a function.
    fn function(&self, name: &str) -> (f64, f64) {
        let all = self.ask(&["thread", "functions"]);
        let found = all["functions"].as_array().unwrap().iter().find(|one| one["name"] == name);
        let found = found.unwrap_or_else(|| panic!("no {name} in {all}"));
        (found["selfSamples"].as_f64().unwrap(), found["totalSamples"].as_f64().unwrap())
    }
}

impl Drop for Viewer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = std::fs::remove_dir_all(&self.sessions);
    }
}

#[test]
#[ignore = "needs the tool that it is compared with"]
fn the_profiler_counts_the_bytes_of_every_function() {
    let profile = recording("heaptrack.zst");
    let viewer = Viewer::open(&profile, Metric::AllocSpace, "firefox-bytes");
    assert_eq!(viewer.total(), profile.total().alloc_bytes);
    // fixture.c: leaf_a allocates 100 blocks of 64 B, leaf_b 50 of 1000 B, both from middle.
    assert_eq!(viewer.function("leaf_a"), (6400.0, 6400.0));
    assert_eq!(viewer.function("leaf_b"), (50_000.0, 50_000.0));
    assert_eq!(viewer.function("middle"), (0.0, 56_400.0));
}

#[test]
#[ignore = "needs the tool that it is compared with"]
fn the_profiler_counts_blocks_and_estimates() {
    let profile = recording("heaptrack.zst");
    let viewer = Viewer::open(&profile, Metric::InuseObjects, "firefox-blocks");
    assert_eq!(viewer.total(), profile.total().inuse_objects);
    assert_eq!(viewer.function("leaf_b").0, 20.0);
    let sampled = rich();
    let viewer = Viewer::open(&sampled, Metric::InuseSpace, "firefox-sampled");
    // Every sample is written as a whole number.
    let rounding = sampled.samples.len() as f64;
    assert!((viewer.total() - sampled.total().inuse_bytes).abs() <= rounding, "{}", viewer.total());
}
