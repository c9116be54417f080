//! redis-server under load: requests a second and the 99th percentile, as a user of the server sees
//! them.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::Bench;
use super::system::System;
use super::workload::Workload;
use crate::runner::fresh_folder;
use heapwise_testkit::failure::Failure;

/// A server that has not come to its end by then is ended.
const LONGEST: Duration = Duration::from_secs(180);

/// The best of all rounds of one system.
pub(crate) struct Served {
    pub system: &'static str,
    /// Mean over the tests of requests a second.
    pub requests: f64,
    /// Mean over the tests of the 99th percentile, milliseconds.
    pub p99: f64,
    pub peak_rss: u64,
}

fn free_port() -> Result<u16, Failure> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
        .map_err(|e| Failure::new(format!("no free port: {e}")))?;
    listener
        .local_addr()
        .map(|address| address.port())
        .map_err(|e| Failure::new(format!("no free port: {e}")))
}

/// Sends one inline command and waits for the first bytes of the answer.
fn ask(port: u16, command: &[u8]) -> bool {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let Ok(mut stream) = TcpStream::connect_timeout(&address, Duration::from_secs(1)) else { return false };
    let mut answer = [0; 16];
    stream.write_all(command).is_ok() && stream.read(&mut answer).is_ok_and(|n| n > 0)
}

fn wait_until_up(port: u16) -> bool {
    let deadline = Instant::now() + Duration::from_secs(20);
    while Instant::now() < deadline {
        if ask(port, b"PING\r\n") {
            return true;
        }
        thread::sleep(Duration::from_millis(20));
    }
    false
}

/// Mean of column `name` of redis-benchmark's CSV.
fn mean_of(csv: &str, name: &str) -> Option<f64> {
    let mut lines =
        csv.lines().map(|line| line.split(',').map(|cell| cell.trim_matches('"')).collect::<Vec<_>>());
    let header = lines.find(|cells| cells.first() == Some(&"test"))?;
    let column = header.iter().position(|cell| *cell == name)?;
    let values: Vec<f64> = lines.filter_map(|cells| cells.get(column)?.parse().ok()).collect();
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

fn load(port: u16, requests: u32) -> Option<(f64, f64)> {
    let output = Command::new("redis-benchmark")
        .args(["-p", &port.to_string(), "-n", &requests.to_string(), "-c", "20", "-r", "100000", "-d", "64"])
        .args(["-t", "set,get,lpush,sadd,hset", "--csv"])
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .ok()?;
    let csv = String::from_utf8_lossy(&output.stdout).into_owned();
    Some((mean_of(&csv, "rps")?, mean_of(&csv, "p99_latency_ms")?))
}

fn serve(bench: &Bench, system: &System, requests: u32) -> Result<Option<Served>, Failure> {
    let out = bench.folder_of(system);
    fresh_folder(&out)?;
    let port = free_port()?;
    let args = ["--port", &port.to_string(), "--save", "", "--appendonly", "no", "--daemonize", "no"];
    let server = Workload {
        name: "redis".into(),
        program: "redis-server".into(),
        args: args.iter().map(|a| a.to_string()).collect(),
        env: Vec::new(),
        stdin: None,
    };
    let mut command = system.command(&bench.heapwise, &server, &out);
    let mut wrapped = bench.stopwatch.wrap(command.current_dir(&out), LONGEST);
    wrapped.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = bench.stopwatch.start(&mut wrapped)?;
    let measured = if wait_until_up(port) { load(port, requests) } else { None };
    ask(port, b"SHUTDOWN NOSAVE\r\n");
    let usage = bench.stopwatch.finish(&mut child)?;
    Ok(measured.map(|(requests, p99)| Served {
        system: system.name,
        requests,
        p99,
        peak_rss: usage.peak_rss,
    }))
}

/// Every system, interleaved; the best figures of `rounds`.
pub(crate) fn run(bench: &Bench, rounds: usize, requests: u32) -> Result<Vec<Served>, Failure> {
    let mut best: Vec<Served> = Vec::new();
    for _ in 0..rounds {
        for system in bench.systems.iter().filter(|s| s.only.is_empty()) {
            let Some(served) = serve(bench, system, requests)? else { continue };
            match best.iter_mut().find(|b| b.system == system.name) {
                Some(known) => {
                    known.requests = known.requests.max(served.requests);
                    known.p99 = known.p99.min(served.p99);
                    known.peak_rss = known.peak_rss.min(served.peak_rss);
                }
                None => best.push(served),
            }
        }
    }
    Ok(best)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_columns_of_the_csv_are_found_by_name() {
        let csv =
            "\"test\",\"rps\",\"p99_latency_ms\"\n\"SET\",\"100.0\",\"0.5\"\n\"GET\",\"300.0\",\"1.5\"\n";
        assert_eq!(mean_of(csv, "rps"), Some(200.0));
        assert_eq!(mean_of(csv, "p99_latency_ms"), Some(1.0));
        assert_eq!(mean_of(csv, "p50"), None);
    }
}
