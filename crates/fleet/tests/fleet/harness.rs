//! Batches of a simulated fleet, a server, and commands.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use heapwise_agent::batch::{End, Entry, Labels, Moment};
use heapwise_profile::{Profile, compact, fixture};
use serde_json::Value;

/// 2026-11-16T12:00:00Z.
pub(crate) const NOON_NS: u64 = 1_794_830_400_000_000_000;
pub(crate) const MINUTE_NS: u64 = 60_000_000_000;
/// Wait for conditions; no test takes this long on an idle machine.
pub(crate) const LONG: Duration = Duration::from_secs(300);

/// A directory that is removed with the value.
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    pub(crate) fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("heapwise-fleet-e2e-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A process of the simulated fleet.
#[derive(Clone, Copy)]
pub(crate) struct Process<'a> {
    pub(crate) host: &'a str,
    pub(crate) release: &'a str,
    pub(crate) pid: u32,
}

impl Process<'_> {
    /// Its profile at a minute after noon.
    pub(crate) fn at(self, minute: u64, end: Option<End>, folded: &str) -> Entry {
        self.entry(minute, end, &fixture::profile(folded))
    }

    pub(crate) fn entry(self, minute: u64, end: Option<End>, profile: &Profile) -> Entry {
        let labels = Labels {
            service: "shop".into(),
            release: self.release.into(),
            host: self.host.into(),
            container: String::new(),
        };
        let moment = Moment {
            time_ns: NOON_NS + minute * MINUTE_NS,
            labels,
            program: "/usr/bin/shop".into(),
            pid: self.pid,
            start_ns: NOON_NS - MINUTE_NS,
            end,
        };
        Entry::new(moment, compact::encode(profile))
    }
}

pub(crate) fn batch(entries: &[Entry]) -> Vec<u8> {
    let mut bytes = Vec::new();
    entries.iter().for_each(|entry| entry.append_to(&mut bytes));
    bytes
}

/// `heapwise-fleet` with a data directory.
pub(crate) fn fleet(data: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_heapwise-fleet"));
    command.arg("--data").arg(data);
    command
}

/// What a command prints; it must succeed.
pub(crate) fn output(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The rows of a command with `--json`.
pub(crate) fn rows(data: &Path, arguments: &[&str]) -> Vec<Value> {
    let text = output(fleet(data).args(arguments).arg("--json"));
    serde_json::from_str(&text).unwrap_or_else(|why| panic!("{arguments:?}: {why}: {text}"))
}

/// Whether two values are equal, but for the order of a sum.
pub(crate) fn is_equal(one: &Value, two: &Value) -> bool {
    match (one.as_f64(), two.as_f64()) {
        (Some(one), Some(two)) => (one - two).abs() <= 1e-9 * one.abs().max(two.abs()).max(1.0),
        _ => one == two,
    }
}

/// A running server.
pub(crate) struct Server {
    child: Child,
    pub(crate) url: String,
}

impl Server {
    /// Starts a server that keeps samples forever: the simulated fleet has fixed times.
    pub(crate) fn start(data: &Path) -> Self {
        Self::start_command(fleet(data), &[])
    }

    /// Starts a server with a store and options of the caller's.
    pub(crate) fn start_command(mut command: Command, options: &[&str]) -> Self {
        command.args(["serve", "--listen", "127.0.0.1:0", "--flush", "100ms", "--keep-minutes", "0s"]);
        command.args(["--keep-hours", "0s", "--keep-days", "0s"]).args(options);
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let url = loop {
            let line = lines.next().expect("the server prints its address").unwrap();
            if let Some((_, url)) = line.split_once("serving at ") {
                break url.trim_end_matches('/').to_owned();
            }
        };
        // A full pipe would stop the server.
        std::thread::spawn(move || lines.for_each(drop));
        Self { child, url }
    }

    /// Sends a batch; the answer, or nothing when the server is gone.
    pub(crate) fn try_send(url: &str, batch: &[u8]) -> Option<Value> {
        let mut answer = ureq::post(format!("{url}/v1/batches")).send(batch).ok()?;
        serde_json::from_str(&answer.body_mut().read_to_string().ok()?).ok()
    }

    pub(crate) fn get(&self, path: &str) -> String {
        let mut answer = ureq::get(format!("{}{path}", self.url)).call().unwrap();
        answer.body_mut().read_to_string().unwrap()
    }

    /// Where an answer sends the browser.
    pub(crate) fn redirect_of(&self, path: &str) -> String {
        let config = ureq::Agent::config_builder().max_redirects(0).build();
        let answer = config.new_agent().get(format!("{}{path}", self.url)).call().unwrap();
        let location = answer.headers().get("location").expect("a redirection");
        location.to_str().unwrap().to_owned()
    }

    /// Waits until segments have this many profiles.
    pub(crate) fn wait_for_profiles(&self, count: u64) {
        let started = Instant::now();
        loop {
            let status: Value = serde_json::from_str(&self.get("/v1/status")).unwrap();
            if status["tables"]["profiles"]["rows"].as_u64() == Some(count) {
                return;
            }
            assert!(started.elapsed() < LONG, "{status}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Waits until the server ends by itself; its exit status.
    pub(crate) fn wait_for_end(mut self) -> Option<i32> {
        let started = Instant::now();
        while started.elapsed() < LONG {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code();
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        panic!("the server goes on");
    }

    /// Kills the server as `kill -9` does.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Stores entries through a server.
pub(crate) fn store(data: &Path, entries: &[Entry]) {
    let server = Server::start(data);
    let answer = Server::try_send(&server.url, &batch(entries)).expect("an answer");
    assert_eq!(answer["accepted"].as_u64(), Some(entries.len() as u64), "{answer}");
    server.wait_for_profiles(entries.len() as u64);
}

/// Ten hosts for twelve minutes. Release 1.1 runs on two of them, where `cache_insert` grows by
/// 64 KiB a minute; `load` of host h03 is ten times as large as on other hosts; process 77 of host
/// h05 is killed for memory.
pub(crate) fn simulated() -> Vec<Entry> {
    let mut entries = Vec::new();
    for minute in 0..12 {
        for number in 0..10_u64 {
            let host = format!("h{number:02}");
            let (release, inserted) = match number {
                8 | 9 => ("1.1", (minute + 1) << 16),
                _ => ("1.0", 4096),
            };
            let load = if number == 3 { 10 << 20 } else { 1 << 20 };
            // Large, and without a trend.
            let parse = (8 << 20) + ((minute * 7 + number * 3) % 5) * (1 << 20);
            let folded = format!(
                "main;load;malloc {load} 10\nmain;parse;malloc {parse} 100\nmain;serve;cache_insert;malloc \
                 {inserted} 7\n"
            );
            entries.push(Process { host: &host, release, pid: 10 }.at(minute, None, &folded));
        }
    }
    let victim = Process { host: "h05", release: "1.0", pid: 77 };
    entries.push(victim.at(
        3,
        Some(End::OutOfMemory),
        "main;read_all;malloc 900000000 3\nmain;load;malloc 5 1\n",
    ));
    entries
}

/// Two hosts, each with a release of its own, for twelve minutes. `insert` grows by 64 KiB a minute
/// in release 1.0 and by 128 KiB in 1.1, in one stack in even minutes and in another in odd ones.
/// `append` grows by 192 and 256 KiB, in a stack of each release. `cache` is large and does not
/// change.
pub(crate) fn several_stacks() -> Vec<Entry> {
    let mut entries = Vec::new();
    for minute in 0..12_u64 {
        let inserter = if minute.is_multiple_of(2) { "even" } else { "odd" };
        for (number, release, appender) in [(0, "1.0", "old"), (1, "1.1", "new")] {
            let (inserted, appended) =
                (((minute + 1) << 16) * (number + 1), ((minute + 1) << 16) * (number + 3));
            let folded = format!(
                "main;{inserter};insert;malloc {inserted} 1\nmain;{appender};append;malloc {appended} 1\n\
                 main;cache;malloc 1000000000001 1\n"
            );
            let host = format!("h{number}");
            entries.push(Process { host: &host, release, pid: 10 }.at(minute, None, &folded));
        }
    }
    entries
}
