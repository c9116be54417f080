//! The same SQL on a Ballista cluster: scheduler and executors as separate processes.

use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::harness::{LONG, Scratch, fleet, is_equal, rows, simulated, store};

const QUESTIONS: [&[&str]; 8] = [
    &["top"],
    &["diff", "1.0", "1.1"],
    &["growth"],
    &["outliers"],
    &["history", "cache_insert"],
    &["oom"],
    &["query", "SELECT host, sum(inuse_bytes) AS n FROM samples GROUP BY host ORDER BY host"],
    // Without a segment.
    &["query", "SELECT count(*) AS n FROM samples_day"],
];

/// A process of the cluster; killed with the value.
struct Member(Child);

impl Member {
    fn start(data: &Path, arguments: &[&str], address: &str) -> Self {
        let mut command = fleet(data);
        let child = command.args(arguments).args(["--listen", address]).stderr(Stdio::null()).spawn();
        let member = Self(child.unwrap());
        let started = Instant::now();
        while TcpStream::connect(address).is_err() {
            assert!(started.elapsed() < LONG, "{arguments:?} does not listen");
            std::thread::sleep(Duration::from_millis(50));
        }
        member
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Loopback addresses that no other process uses: they have the number of this one.
fn address(number: u8) -> String {
    let pid = std::process::id();
    format!("127.{}.{}.{number}:50050", 128 + (pid >> 8) % 120, pid & 0xff)
}

fn assert_equal(data: &Path, scheduler: &str) {
    for question in QUESTIONS {
        let ours = rows(data, question);
        let theirs = rows(data, &[question, &["--ballista", scheduler]].concat());
        assert_eq!(ours.len(), theirs.len(), "{question:?}");
        assert!(!ours.is_empty(), "{question:?}");
        let all_equal = |(ours, theirs): (&Value, &Value)| {
            let (ours, theirs) = (ours.as_object().unwrap(), theirs.as_object().unwrap());
            ours.len() == theirs.len() && ours.iter().all(|(name, value)| is_equal(value, &theirs[name]))
        };
        assert!(ours.iter().zip(&theirs).all(all_equal), "{question:?}: {ours:?} and {theirs:?}");
    }
}

fn start_scheduler(data: &Path, number: u8) -> (Member, String) {
    let scheduler = address(number);
    (Member::start(data, &["scheduler"], &scheduler), scheduler)
}

fn start_executor(data: &Path, scheduler: &str, number: u8) -> Member {
    let arguments = ["executor", "--scheduler", scheduler, "--cores", "2"];
    Member::start(data, &arguments, &address(number))
}

/// One executor and two give the rows of DataFusion in one process.
#[test]
fn a_cluster_gives_the_same_rows() {
    let scratch = Scratch::new("cluster");
    let data = scratch.path();
    store(data, &simulated());
    let (_running, scheduler) = start_scheduler(data, 1);
    let _first = start_executor(data, &scheduler, 2);
    assert_equal(data, &scheduler);
    let _second = start_executor(data, &scheduler, 3);
    assert_equal(data, &scheduler);
}

/// So does one of two, after the other was killed.
#[test]
fn a_killed_executor_changes_no_answer() {
    let scratch = Scratch::new("killed-executor");
    let data = scratch.path();
    store(data, &simulated());
    let (_running, scheduler) = start_scheduler(data, 4);
    let first = start_executor(data, &scheduler, 5);
    let _second = start_executor(data, &scheduler, 6);
    let question = ["growth", "--ballista", &scheduler];
    assert!(!rows(data, &question).is_empty());
    drop(first);
    assert_equal(data, &scheduler);
}
