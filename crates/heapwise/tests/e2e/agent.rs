//! `heapwise agent`: running processes, killed ones, restarts, receivers, Prometheus.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use heapwise_agent::batch::{self, End, Entry};
use serde_json::Value;

use crate::attach::Running;
use crate::control::{Live, until};
use crate::harness::{Scratch, victims};
use crate::surroundings::with_small_disk;

/// A running agent with its spool in the scratch directory.
struct Agent<'a> {
    scratch: &'a Scratch,
    child: Child,
}

impl<'a> Agent<'a> {
    fn start(scratch: &'a Scratch, options: &[&str]) -> Self {
        // A debug build on a busy machine is not what the budget is for.
        let budget = ["--cpu-budget", "100"].into_iter().filter(|_| !options.contains(&"--cpu-budget"));
        let mut command = scratch.heapwise(&["agent", "--spool", "spool", "--host", "here"]);
        command.args(budget);
        let child = command.args(options).stderr(Stdio::piped()).spawn().expect("heapwise starts");
        Self { scratch, child }
    }

    /// The address of `/metrics`, from its first line.
    fn address(&mut self) -> SocketAddr {
        let mut line = String::new();
        let mut lines = BufReader::new(self.child.stderr.take().expect("piped"));
        lines.read_line(&mut line).expect("a line");
        // The rest is not read: a pipe of these lines never fills.
        self.child.stderr = Some(lines.into_inner());
        let (_, rest) = line.split_once("http://").expect("an address");
        rest.trim_end().trim_end_matches("/metrics").parse().expect("an address")
    }

    fn status(&self) -> Value {
        let text = fs::read_to_string(self.scratch.path("spool/status.json")).unwrap_or_default();
        serde_json::from_str(&text).unwrap_or_default()
    }

    fn until(&self, what: &str, is_true: impl Fn(&Value) -> bool) {
        until(what, || is_true(&self.status()));
    }

    /// Ends it as a service manager does; what it had stored.
    fn stop(mut self) -> Vec<Entry> {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().expect("kill runs").success());
        assert!(self.child.wait().expect("waited").success());
        stored(self.scratch)
    }
}

impl Drop for Agent<'_> {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The entries of all batches in the spool, oldest first.
fn stored(scratch: &Scratch) -> Vec<Entry> {
    let mut files: Vec<PathBuf> = fs::read_dir(scratch.path("spool"))
        .expect("a spool")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "batch"))
        .collect();
    files.sort();
    let read = |path: &PathBuf| fs::read(path).expect("a batch");
    let entries = |bytes: Vec<u8>| batch::read(&bytes).map(|entry| entry.expect("whole")).collect::<Vec<_>>();
    files.iter().map(read).flat_map(entries).collect()
}

fn live_bytes(entry: &Entry) -> f64 {
    heapwise_profile::read(&entry.profile).expect("a profile").total().inuse_bytes
}

/// A process that does not record is recorded while the agent runs; after `kill -9` its last
/// profile is stored, once, with its end.
#[test]
fn the_last_profile_of_a_killed_process_is_kept() {
    let scratch = Scratch::new();
    let mut live = Live::start_with(&scratch, &[("HEAPWISE_SERVICE", "shop"), ("HEAPWISE_RELEASE", "7")]);
    let pid: u32 = live.pid().parse().expect("a pid");
    let agent = Agent::start(&scratch, &["--every", "200ms", "--rate", "1K", "--no-symbols"]);
    agent.until("live bytes", |status| status["processes"][0]["live_bytes"].as_u64() > Some(0));
    let leases = scratch.output_of(&["ps"]);
    assert!(leases.contains("agent"), "{leases}");
    live.end();
    agent.until("its end", |status| status["ended"] == 1 && status["processes"][0].is_null());
    let entries = agent.stop();
    let last = entries.last().expect("profiles");
    let header = &last.header;
    assert_eq!((header.pid, &*header.labels.service, &*header.labels.release), (pid, "shop", "7"));
    assert_eq!(header.labels.host, "here");
    // Before Linux 6.15 only the parent is sure to get the signal.
    assert!(matches!(header.end, Some(End::Killed(Some(9) | None))), "{header:?}");
    assert!(live_bytes(last) > 0.0);
    assert!(entries[..entries.len() - 1].iter().all(|entry| entry.header.end.is_none()));
    // A second agent does not store it again.
    scratch.output_of(&["agent", "--once", "--spool", "spool"]);
    assert_eq!(stored(&scratch).len(), entries.len());
}

/// Starts `allocates_when_told` with the probe. `before` is a shell command that runs first.
fn start_told(scratch: &Scratch, before: &str) -> Running {
    let library = scratch.output_of(&["preload"]);
    let script = format!("{before} export LD_PRELOAD=\"$PROBE\"; exec \"$VICTIM\"");
    let mut command = scratch.command("/bin/sh");
    command.args(["-c", &script]).env("PROBE", library.trim());
    Running::of(command.env("VICTIM", victims().join("allocates_when_told")))
}

fn assert_in_order(entries: &[Entry]) {
    let times: Vec<u64> = entries.iter().map(|entry| entry.header.time_ns).collect();
    assert!(times.windows(2).all(|pair| pair[0] < pair[1]), "{times:?}");
}

/// The probe's last sign of life is older than profiles that were taken while the process waited.
/// The last profile is newer than they are.
#[test]
fn the_last_profile_of_an_idle_process_is_the_newest() {
    let scratch = Scratch::new();
    let mut told = start_told(&scratch, "");
    let agent = Agent::start(&scratch, &["--every", "100ms", "--rate", "1", "--no-symbols"]);
    agent.until("a lease", |status| status["profiles"].as_u64() > Some(0));
    told.allocate(2000);
    agent.until("its blocks", |status| status["processes"][0]["live_bytes"].as_u64() > Some(1_000_000));
    let seen = agent.status()["profiles"].as_u64();
    agent.until("further profiles", |status| status["profiles"].as_u64() > seen.map(|seen| seen + 2));
    drop(told);
    agent.until("its end", |status| status["ended"] == 1);
    let entries = agent.stop();
    assert!(entries.last().is_some_and(|last| last.header.end.is_some() && live_bytes(last) > 1e6));
    assert_in_order(&entries);
}

/// A process that exceeds the memory limit of its control group is killed by the kernel. Its last
/// profile has what it held, and the end `oom`.
#[test]
fn a_process_killed_for_memory_is_known_as_such() {
    const LIMIT_BYTES: u64 = 32 << 20;
    let Some(group) = MemoryGroup::new(LIMIT_BYTES) else {
        eprintln!("no control group with a memory limit can be made here");
        return;
    };
    let scratch = Scratch::new();
    let enter = format!("echo $$ >'{}' || exit 1;", group.0.join("cgroup.procs").display());
    let mut told = start_told(&scratch, &enter);
    let agent = Agent::start(&scratch, &["--every", "200ms", "--rate", "1K", "--no-symbols"]);
    agent.until("a lease", |status| status["profiles"].as_u64() > Some(0));
    told.allocate(2000);
    agent.until("its blocks", |status| status["processes"][0]["live_bytes"].as_u64() > Some(1_000_000));
    told.tell(100_000);
    agent.until("its end", |status| status["ended"] == 1);
    let entries = agent.stop();
    let last = entries.last().expect("profiles");
    assert_eq!(last.header.end, Some(End::OutOfMemory), "{:?}", last.header);
    let held = live_bytes(last) / LIMIT_BYTES as f64;
    assert!((0.5..1.1).contains(&held), "{held} of the limit");
    assert_in_order(&entries);
}

/// A control group with a memory limit; removed with the value, when its processes are gone.
struct MemoryGroup(PathBuf);

impl MemoryGroup {
    /// `None` without the rights, or without a memory controller.
    fn new(limit_bytes: u64) -> Option<Self> {
        let name = format!("heapwise-test-{}", std::process::id());
        for (root, limit, swap) in [
            ("/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.memsw.limit_in_bytes"),
            ("/sys/fs/cgroup", "memory.max", "memory.swap.max"),
        ] {
            let group = Self(Path::new(root).join(&name));
            if !Path::new(root).join("cgroup.procs").exists() || fs::create_dir(&group.0).is_err() {
                continue;
            }
            let swap_bytes = if limit == "memory.max" { 0 } else { limit_bytes };
            // A machine without swap may have no such file.
            let limited = fs::write(group.0.join(limit), limit_bytes.to_string());
            let _ = fs::write(group.0.join(swap), swap_bytes.to_string());
            if limited.is_ok() {
                return Some(group);
            }
        }
        None
    }
}

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

/// A process that ended while no agent ran is found by the next one.
#[test]
fn processes_that_ended_before_the_agent_are_found() {
    let scratch = Scratch::new();
    let mut live = Live::start(&scratch);
    scratch.output_of(&["start", "--exact", &live.pid()]);
    live.wait_for_blocks(&scratch);
    live.end();
    scratch.output_of(&["agent", "--once", "--spool", "spool", "--files", "out"]);
    let files: Vec<_> = fs::read_dir(scratch.path("out")).expect("files").flatten().collect();
    assert_eq!(files.len(), 1);
    let file = files[0].path();
    let top = scratch.json_of(&["top", "--json", "--focus", "^w_", file.to_str().expect("UTF-8")]);
    assert!(top["total"].as_i64() > Some(0), "{top}");
    let status: Value =
        serde_json::from_str(&fs::read_to_string(scratch.path("spool/status.json")).expect("a status"))
            .expect("JSON");
    assert_eq!((&status["ended"], &status["receivers"][0]["sent"]), (&1.into(), &1.into()));
    assert_eq!(status["spool"]["batches"], 0);
}

/// On a full disk the oldest batches go, are counted, and the agent goes on.
#[test]
fn a_full_disk_drops_the_oldest_profiles() {
    let scratch = Scratch::new();
    // Each round finds one more process that has ended, and stores a batch.
    let script = "export HEAPWISE_DIR=\"$PWD/segments\" LD_LIBRARY_PATH=; probe=$(\"$HEAPWISE\" preload); \
        for round in 1 2 3 4 5 6 7 8 9 10; do \
            HEAPWISE_CONF=mode:exact LD_PRELOAD=$probe \"$VICTIMS/leaky\" 200 >&2; \
            \"$HEAPWISE\" agent --once --no-symbols --spool \"$SMALL/spool\" || exit 1; \
        done; ls \"$SMALL/spool\"";
    let output = with_small_disk(&scratch, 32, script);
    let (listing, errors) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{errors}");
    let batches: Vec<&str> = listing.lines().filter(|name| name.ends_with(".batch")).collect();
    let numbers: Vec<u32> = batches.iter().map(|name| name[..12].parse().expect("a number")).collect();
    assert!(numbers.len() < 10 && numbers.len() > 2, "{listing}");
    assert_eq!(numbers.last(), Some(&9), "{listing} {errors}");
    assert!(numbers.windows(2).all(|pair| pair[0] + 1 == pair[1]), "{listing}");
    assert!(errors.contains("1 dropped"), "{errors}");
}

/// The interval grows when the agent is above its budget, and status and lines say so.
#[test]
fn an_agent_above_its_budget_slows_down() {
    let scratch = Scratch::new();
    let _live = Live::start(&scratch);
    let options = ["--every", "100ms", "--cpu-budget", "0.0001", "--no-symbols"];
    let mut agent = Agent::start(&scratch, &options);
    agent.until("a longer interval", |status| {
        status["over_budget"] == "cpu" && status["interval_seconds"].as_f64() >= Some(0.4)
    });
    let mut lines = BufReader::new(agent.child.stderr.take().expect("piped")).lines();
    let is_told =
        |line: std::io::Result<String>| line.is_ok_and(|line| line.contains("above the CPU budget"));
    assert!(lines.any(is_told));
}

/// Memory counts against the budget with its peak, which status and metrics show.
#[test]
fn an_agent_above_its_memory_budget_says_so() {
    let scratch = Scratch::new();
    let _live = Live::start(&scratch);
    let mut agent = Agent::start(
        &scratch,
        &["--every", "100ms", "--memory-budget", "1M", "--listen", "127.0.0.1:0", "--no-symbols"],
    );
    let address = agent.address();
    agent.until("an excess", |status| status["over_budget"] == "memory");
    let status = agent.status();
    let bytes = ["resident_bytes", "round_peak_resident_bytes", "peak_resident_bytes"]
        .map(|name| status[name].as_u64().expect("a number"));
    assert!(bytes[0] > 1 << 20 && bytes.is_sorted(), "{bytes:?}");
    let page = get(address, "/metrics");
    let lines = page.lines().filter_map(|line| line.strip_prefix("heapwise_agent_peak_resident_bytes "));
    let peak: Vec<f64> = lines.map(|value| value.parse().expect("a number")).collect();
    assert!(matches!(peak[..], [peak] if peak >= bytes[0] as f64), "{page}");
}

/// Processes are attached to by name.
#[test]
#[cfg(target_arch = "x86_64")]
fn processes_are_attached_to_by_policy() {
    let scratch = Scratch::new();
    // A name that no other test has.
    let program = scratch.path(&format!("wanted-{}", std::process::id()));
    fs::copy(victims().join("allocates_when_told"), &program).expect("copied");
    let mut told = Running::of(&mut scratch.command(&program));
    told.allocate(10);
    let name = program.file_name().and_then(|name| name.to_str()).expect("UTF-8");
    let pattern = format!("{}*", &name[..name.len() - 1]);
    let agent = Agent::start(
        &scratch,
        &["--every", "200ms", "--attach-name", &pattern, "--rate", "1", "--no-symbols"],
    );
    agent.until("attached", |status| status["attached"] == 1 && status["processes"][0]["pid"].is_u64());
    told.allocate(1000);
    agent.until("its blocks", |status| status["processes"][0]["live_bytes"].as_u64() >= Some(1_000_000));
    assert_eq!(agent.status()["attach_failures"], 0);
    drop(agent);
    told.allocate(10);
}

fn get(address: SocketAddr, path: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("connected");
    write!(stream, "GET {path} HTTP/1.1\r\n\r\n").expect("sent");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("UTF-8");
    text.split_once("\r\n\r\n").expect("a body").1.to_owned()
}

/// Debian's Prometheus scrapes the agent and stores its samples; promtool finds no fault.
#[test]
#[ignore = "needs prometheus"]
fn prometheus_scrapes_the_agent() {
    let scratch = Scratch::new();
    let live = Live::start_with(&scratch, &[("OTEL_SERVICE_NAME", "shop")]);
    scratch.output_of(&["start", "--exact", &live.pid()]);
    live.wait_for_blocks(&scratch);
    let mut agent = Agent::start(&scratch, &["--every", "200ms", "--listen", "127.0.0.1:0", "--no-symbols"]);
    let address = agent.address();
    until("a process", || get(address, "/metrics").contains("heapwise_live_bytes{"));
    let mut check = scratch.command("/usr/bin/promtool");
    let mut check = check.args(["check", "metrics"]).stdin(Stdio::piped()).spawn().expect("promtool runs");
    let page = get(address, "/metrics");
    check.stdin.take().expect("piped").write_all(page.as_bytes()).expect("read");
    assert!(check.wait().expect("waited").success(), "{page}");
    let config = format!(
        "scrape_configs:\n- job_name: heapwise\n  scrape_interval: 200ms\n  scrape_timeout: 200ms\n  \
         static_configs:\n  - targets: ['{address}']\n"
    );
    fs::write(scratch.path("prometheus.yml"), config).expect("written");
    let mut prometheus = scratch.command("/usr/bin/prometheus");
    let mut prometheus = prometheus
        .args([
            "--config.file=prometheus.yml",
            "--storage.tsdb.path=tsdb",
            "--web.listen-address=127.0.0.1:0",
        ])
        .stderr(Stdio::null())
        .spawn()
        .expect("prometheus runs");
    let before = scrapes(address);
    until("scrapes", || scrapes(address) >= before + 10);
    let pid = prometheus.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().expect("kill runs").success());
    prometheus.wait().expect("waited");
    let dump = scratch.command("/usr/bin/promtool").args(["tsdb", "dump", "tsdb"]).output().expect("a dump");
    let dump = String::from_utf8(dump.stdout).expect("UTF-8");
    let rows = dump.lines().filter(|line| line.contains("__name__=\"heapwise_live_bytes\""));
    let rows: Vec<&str> = rows.filter(|line| line.contains("service=\"shop\"")).collect();
    assert!(!rows.is_empty(), "{dump}");
}

fn scrapes(address: SocketAddr) -> u64 {
    let status: Value = serde_json::from_str(&get(address, "/status")).expect("JSON");
    status["scrapes"].as_u64().expect("a number")
}
