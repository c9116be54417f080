//! `crowd`: a hundred people look at a live redis, and redis is not to notice.
//!
//! redis-server carries the probe (`heapwise run`), `heapwise serve` serves it, and one
//! redis-benchmark sends requests without a pause from beginning to end. Rounds with and without
//! onlookers alternate, each first in turn; without means that the server is stopped too. redis's
//! own count of commands over the wall time of a round is its throughput. Each client requests one
//! of seven addresses once a second over a connection that it keeps, as `client` says. All run on
//! this machine, but people have machines of their own: the clients get only the processor time
//! that nobody else wants (SCHED_IDLE).

mod client;
mod usage;

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use client::Seen;
use usage::{Usage, peak_bytes};

use crate::arguments::number;
use crate::runner::{self, Build};
use heapwise_testkit::failure::Failure;

/// Clients unless `--clients` says otherwise.
const CLIENTS: u64 = 100;
/// Pairs of rounds, one of each with onlookers.
const PAIRS: u32 = 6;
/// Onlookers settle in, or their last answers go out, before a round is counted.
const SETTLE: Duration = Duration::from_secs(1);
/// What redis must keep of its throughput.
const LEAST_KEPT: f64 = 0.97;
/// Most memory of the server.
const MOST_BYTES: u64 = 256 << 20;
/// Marks the process of the clients: `crowd --of ADDRESS COUNT PATH…`, until its input ends.
const OF: &str = "--of";

/// A process that ends with this.
struct Running(Child);

impl Running {
    fn start(command: &mut Command) -> Result<Self, Failure> {
        let name = command.get_program().to_string_lossy().into_owned();
        command.spawn().map(Self).map_err(|why| Failure::new(format!("{name}: {why}")))
    }

    fn pid(&self) -> u32 {
        self.0.id()
    }

    fn signal(&self, name: &str) {
        let _ = Command::new("kill").args([name, &self.pid().to_string()]).status();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // `heapwise run` hands a SIGTERM on to its program, which SIGKILL would leave behind.
        self.signal("-CONT");
        self.signal("-TERM");
        let _ = self.0.wait();
    }
}

/// What runs all the time.
struct Stage {
    heapwise: PathBuf,
    scratch: PathBuf,
    port: u16,
}

impl Stage {
    fn heapwise(&self) -> Command {
        let mut command = Command::new(&self.heapwise);
        command.env("HEAPWISE_DIR", self.scratch.join("segments")).env("XDG_STATE_HOME", &self.scratch);
        command.current_dir(&self.scratch).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command
    }

    fn redis(&self) -> Result<(Running, u32), Failure> {
        let mut command = self.heapwise();
        command.args(["run", "-q", "--", "redis-server", "--save", "", "--appendonly", "no", "--port"]);
        let running = Running::start(command.arg(self.port.to_string()))?;
        let deadline = Instant::now() + Duration::from_secs(20);
        while Instant::now() < deadline {
            let pid = self.info("process_id").and_then(|pid| u32::try_from(pid).ok());
            if let Some(pid) = pid {
                return Ok((running, pid));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Err(Failure::new("redis-server does not answer"))
    }

    /// The server and its `ADDRESS:PORT`.
    fn server(&self) -> Result<(Running, String), Failure> {
        let mut command = self.heapwise();
        let mut running = Running::start(command.args(["serve", "--port", "0"]).stderr(Stdio::piped()))?;
        let mut line = String::new();
        if let Some(stderr) = &mut running.0.stderr {
            let _ = BufReader::new(stderr).read_line(&mut line);
        }
        let address = line.split("http://").nth(1).map(|rest| rest.trim().trim_end_matches('/').to_owned());
        Ok((running, address.ok_or_else(|| Failure::new(format!("the server says: {line}")))?))
    }

    fn benchmark(&self) -> Result<Running, Failure> {
        let mut command = Command::new("redis-benchmark");
        command.args(["-t", "set", "-r", "100000", "-d", "64", "-c", "20", "-n", "2000000000", "-q", "-p"]);
        command.arg(self.port.to_string()).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Running::start(&mut command)
    }

    /// A number that redis reports.
    fn info(&self, name: &str) -> Option<u64> {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).ok()?;
        stream.set_read_timeout(Some(Duration::from_secs(5))).ok()?;
        stream.write_all(b"INFO\r\nQUIT\r\n").ok()?;
        let mut text = String::new();
        stream.read_to_string(&mut text).ok()?;
        text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')?.trim().parse().ok())
    }

    fn clients(&self, address: &str, count: u64, id: u32) -> Result<Running, Failure> {
        let program = std::env::current_exe().map_err(|why| Failure::new(why.to_string()))?;
        let api = format!("/api/v1/sources/{id}");
        let mut command = Command::new("chrt");
        command.args(["--idle", "0"]).arg(program).args(["crowd", OF, address, &count.to_string()]).args([
            format!("/p/{id}/pprof/heap"),
            format!("/p/{id}/pprof/heap?display=text"),
            format!("/p/{id}/debug/pprof/heap"),
            format!("{api}/top?n=20"),
            format!("{api}/flame"),
            format!("{api}/summary"),
            "/api/v1/sources".into(),
        ]);
        Running::start(command.stdin(Stdio::piped()).stdout(Stdio::piped()))
    }
}

/// One round.
#[derive(Debug, Clone, Copy)]
struct Round {
    time: Duration,
    commands: u64,
    redis: Usage,
    benchmark: Usage,
    server: Usage,
    clients: Usage,
}

impl Round {
    fn throughput(&self) -> f64 {
        self.commands as f64 / self.time.as_secs_f64()
    }

    fn print(&self, name: &str) {
        println!(
            "{name:<8} {:>7.0} commands/s; of a core: redis {:.0} % ({:.2} µs a command), redis-benchmark {:.0} %, server {:.1} %, clients {:.1} %",
            self.throughput(),
            self.redis.percent(self.time),
            self.redis.micros_each(self.commands),
            self.benchmark.percent(self.time),
            self.server.percent(self.time),
            self.clients.percent(self.time),
        );
    }
}

/// Counts redis's commands and everybody's processor time for a while. The last pid, of the
/// clients, may be none.
fn measure(stage: &Stage, time: Duration, pids: [u32; 4]) -> Result<Round, Failure> {
    let count = || stage.info("total_commands_processed").ok_or_else(|| Failure::new("redis is silent"));
    let (before, start, commands) = (pids.map(Usage::of), Instant::now(), count()?);
    std::thread::sleep(time);
    let (time, commands) = (start.elapsed(), count()? - commands);
    let after = pids.map(Usage::of);
    let [redis, benchmark, server, clients] = std::array::from_fn(|at| after[at] - before[at]);
    Ok(Round { time, commands, redis, benchmark, server, clients })
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    if values.len() % 2 == 1 { values[middle] } else { f64::midpoint(values[middle - 1], values[middle]) }
}

/// The command: `crowd [--seconds N] [--clients N]` with the release build; N seconds of onlookers
/// in all.
pub(crate) fn command(root: &Path, args: &[String]) -> Result<(), Failure> {
    if let [of, address, count, paths @ ..] = args
        && of == OF
    {
        return onlookers(address, count.parse().unwrap_or(1), paths);
    }
    let (seconds, clients) = (number(args, "--seconds", 60)?, number(args, "--clients", CLIENTS)?);
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split(' ').next().unwrap_or("unknown");
    // Others decide who gets which core then: with a load of 20, redis alone was slower than with
    // onlookers.
    println!("load {load} at the start; the figure means something on a quiet machine only");
    let stage = prepare(root)?;
    let (_redis, redis) = stage.redis()?;
    let (server, address) = stage.server()?;
    let benchmark = stage.benchmark()?;
    std::thread::sleep(2 * SETTLE);

    let time = Duration::from_secs(seconds) / PAIRS;
    let (mut ratios, mut seen) = (Vec::new(), Seen::default());
    for pair in 0..PAIRS {
        let alone = || -> Result<Round, Failure> {
            server.signal("-STOP");
            std::thread::sleep(SETTLE);
            let round = measure(&stage, time, [redis, benchmark.pid(), server.pid(), 0]);
            server.signal("-CONT");
            round
        };
        let mut watched = || -> Result<Round, Failure> {
            let mut crowd = stage.clients(&address, clients, redis)?;
            std::thread::sleep(2 * SETTLE);
            let round = measure(&stage, time, [redis, benchmark.pid(), server.pid(), crowd.pid()])?;
            seen.add(&end(&mut crowd)?);
            Ok(round)
        };
        let (without, with) = if pair % 2 == 0 {
            let first = alone()?;
            (first, watched()?)
        } else {
            let first = watched()?;
            (alone()?, first)
        };
        without.print("alone");
        with.print("watched");
        ratios.push(with.throughput() / without.throughput());
    }
    judge(&ratios, &seen, peak_bytes(server.pid()))
}

fn prepare(root: &Path) -> Result<Stage, Failure> {
    let scratch = root.join("target/crowd");
    let _ = fs::remove_dir_all(&scratch);
    fs::create_dir_all(&scratch).map_err(|why| Failure::at(&scratch, why))?;
    let segments = scratch.join("segments");
    fs::DirBuilder::new().mode(0o700).create(&segments).map_err(|why| Failure::at(&segments, why))?;
    let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|listener| listener.local_addr());
    let port = port.map_err(|why| Failure::new(format!("no free port: {why}")))?.port();
    Ok(Stage { heapwise: runner::build_heapwise(root, Build::Release)?, scratch, port })
}

/// The process of the clients.
fn onlookers(address: &str, count: usize, paths: &[String]) -> Result<(), Failure> {
    let stop = AtomicBool::new(false);
    let seen = std::thread::scope(|scope| {
        scope.spawn(|| {
            let _ = std::io::stdin().read(&mut [0]);
            stop.store(true, Ordering::Relaxed);
        });
        client::crowd(address, paths, count, &stop)
    });
    println!("{}", seen.to_line());
    Ok(())
}

/// Closes the clients' input and waits for what they saw.
fn end(crowd: &mut Running) -> Result<Seen, Failure> {
    drop(crowd.0.stdin.take());
    let mut text = String::new();
    if let Some(mut output) = crowd.0.stdout.take() {
        let _ = output.read_to_string(&mut text);
    }
    Seen::from_line(&text).ok_or_else(|| Failure::new(format!("the clients say: {text}")))
}

fn judge(ratios: &[f64], seen: &Seen, peak: u64) -> Result<(), Failure> {
    let kept = median(ratios.to_vec());
    let (low, high) = ratios.iter().fold((f64::MAX, 0.0_f64), |(low, high), r| (low.min(*r), high.max(*r)));
    println!(
        "{} answers ({} unchanged, {:.1} MB of bodies), {} errors, longest wait {} ms; server at most {} MB",
        seen.answers,
        seen.unchanged,
        seen.body_bytes as f64 / 1e6,
        seen.errors,
        seen.longest_ms,
        peak >> 20
    );
    println!(
        "redis keeps {kept:.3} of its throughput (median of {} pairs, {low:.3} to {high:.3})",
        ratios.len()
    );
    if seen.errors > 0 || seen.answers == 0 {
        return Err(Failure::new(format!("{} errors in {} answers", seen.errors, seen.answers)));
    }
    if peak > MOST_BYTES {
        return Err(Failure::new(format!("the server took more than {} MB", MOST_BYTES >> 20)));
    }
    if kept < LEAST_KEPT {
        return Err(Failure::new(format!("redis is to keep {LEAST_KEPT} of its throughput")));
    }
    Ok(())
}
