//! `fleet-simulation`: hosts, agents, a server and a cluster of a fleet on this machine, killed at
//! random.
//!
//! Hosts are network namespaces. Each has an agent and runs redis-server, Python, Lua and SQLite
//! with the probe, some until the end and some for seconds. Every agent writes its profiles into
//! files too: these are the outside count that the store is compared with, once in one process and
//! once on the cluster.

mod account;
mod cluster;
mod host;
mod kills;
mod network;
mod programs;
mod reader;
mod server;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use account::Account;
use cluster::{Cluster, Counted, count_profiles};
use host::{EVERY_SECONDS, Host};
use kills::{Fleet, Kills};
use network::Network;
use reader::Reader;
use serde_json::Value;
use server::Server;

use crate::arguments::number;
use crate::runner::{self, Build};
use heapwise_testkit::failure::Failure;
use heapwise_testkit::random::Random;

/// Hosts of the fleet.
const HOSTS: usize = 3;
/// Time between flushes of the server.
const FLUSH: Duration = Duration::from_secs(5);
/// Time between two looks at what is due.
const STEP: Duration = Duration::from_millis(200);
/// Longest wait for what is sent late.
const LATE: Duration = Duration::from_secs(300);
/// Questions whose time is taken.
const QUESTIONS: [&[&str]; 5] = [&["top"], &["growth"], &["outliers"], &["oom"], &["diff", "1.0", "1.1"]];

/// The command: `fleet-simulation [--seconds N] [--processes N] [--seed N] [--fleet PATH]
/// [--heapwise PATH]`.
pub(crate) fn command(root: &Path, args: &[String]) -> Result<(), Failure> {
    let seconds = number(args, "--seconds", 120)?;
    let processes = number(args, "--processes", 200)? as usize;
    let mut random = Random::new(number(args, "--seed", 1)?);
    let heapwise = match path(args, "--heapwise") {
        Some(path) => path,
        None => runner::build_heapwise(root, Build::Release)?,
    };
    let fleet = match path(args, "--fleet") {
        Some(path) => path,
        None => runner::build_fleet(root)?,
    };
    let scratch = std::env::temp_dir().join(format!("heapwise-fleet-simulation-{}", std::process::id()));
    runner::fresh_folder(&scratch)?;
    let done = simulate(&scratch, &heapwise, &fleet, processes, Duration::from_secs(seconds), &mut random);
    let _ = std::fs::remove_dir_all(&scratch);
    done
}

fn path(args: &[String], name: &str) -> Option<PathBuf> {
    args.iter().position(|arg| arg == name).and_then(|at| args.get(at + 1)).map(PathBuf::from)
}

fn simulate(
    scratch: &Path,
    heapwise: &Path,
    fleet: &Path,
    processes: usize,
    time: Duration,
    random: &mut Random,
) -> Result<(), Failure> {
    let preload = runner::output(Command::new(heapwise).arg("preload"))?;
    let probe = String::from_utf8_lossy(&preload.stdout).trim().to_owned();
    let network = Network::new(HOSTS)?;
    let data = scratch.join("data");
    let reader = Reader::new(&network, fleet, &data);
    let mut server = Server::new(&network, fleet, data.clone());
    server.start()?;
    server.wait()?;
    let mut cluster = Cluster::start(&network, fleet, &data)?;
    let make = |number: usize| {
        let directory = scratch.join(format!("host{number}"));
        Host::new(&network, number, heapwise, &probe, directory, &Server::address())
    };
    let mut hosts = (0..HOSTS).map(make).collect::<Result<Vec<_>, _>>()?;
    for number in 0..processes {
        let at = number % HOSTS;
        hosts[at].add(at == HOSTS - 1)?;
    }
    hosts.iter_mut().try_for_each(Host::start_agent)?;
    println!("{processes} programs on {HOSTS} hosts run");

    let started = Instant::now();
    let parts = Fleet { hosts: &mut hosts, server: &mut server, cluster: &mut cluster };
    disturb(parts, &reader, time, random)?;
    until("every program has a profile in segments", || {
        let status = server.get("/v1/status")?;
        Ok(status["tables"]["profiles"]["rows"].as_u64() >= Some(processes as u64))
    })?;
    catch_up(&mut hosts, &mut server)?;
    let lasted = started.elapsed();
    times(&mut hosts, &server, &reader)?;
    hosts.iter_mut().for_each(Host::kill_programs);
    settle(&mut hosts, &reader)?;
    report(&hosts, &server, &reader, lasted)
}

/// Kills parts of the fleet at random for some time, while the cluster counts rows.
fn disturb(
    mut fleet: Fleet<'_, '_>,
    reader: &Reader<'_>,
    time: Duration,
    random: &mut Random,
) -> Result<(), Failure> {
    let stop = AtomicBool::new(false);
    let (kills, counted) = std::thread::scope(|scope| {
        let counts = scope.spawn(|| count_profiles(reader, &stop));
        let kills = fleet.disturb(time, random);
        stop.store(true, Ordering::Relaxed);
        (kills, counts.join().unwrap_or_default())
    });
    let Kills { agents, servers, executors } = kills?;
    println!("killed in {} s: {agents} agents, {servers} servers, {executors} executors", time.as_secs());
    let Counted { answers, failures, wrong, slowest } = counted;
    println!(
        "meanwhile the cluster counted the profiles {answers} times: {wrong} counts are wrong, {} queries failed, \
         the slowest took {:.1} s",
        failures.len(),
        slowest.as_secs_f64()
    );
    failures.iter().for_each(|failure| println!("  {failure}"));
    match wrong {
        0 => Ok(()),
        _ => Err(Failure::new("the cluster counted fewer profiles than before, or one twice")),
    }
}

/// Lets agents take profiles without a server, then takes the time until it has them.
fn catch_up(hosts: &mut [Host<'_>], server: &mut Server<'_>) -> Result<(), Failure> {
    server.kill();
    std::thread::sleep(Duration::from_secs(3 * EVERY_SECONDS));
    let waiting: Vec<PathBuf> = hosts.iter().flat_map(Host::batches).collect();
    let started = Instant::now();
    server.start()?;
    server.wait()?;
    until("agents send what waited", || Ok(waiting.iter().all(|batch| !batch.exists())))?;
    // A new server counts from zero.
    let received = server.get("/v1/status")?["received"]["accepted"].clone();
    println!(
        "after a break of {} s, {received} profiles arrived within {:.1} s of the server's start, which took \
         {:.2} s of CPU time",
        3 * EVERY_SECONDS,
        started.elapsed().as_secs_f64(),
        server.cpu_seconds()
    );
    Ok(())
}

/// Takes the time of questions in one process and on the cluster, and compares the rows. Agents
/// stand still meanwhile.
fn times(hosts: &mut [Host<'_>], server: &Server<'_>, reader: &Reader<'_>) -> Result<(), Failure> {
    hosts.iter_mut().for_each(Host::stop_agent);
    let mut generation = Value::Null;
    until("the server writes segments", || {
        let before = std::mem::replace(&mut generation, server.get("/v1/status")?["generation"].clone());
        std::thread::sleep(2 * FLUSH);
        Ok(before == generation)
    })?;
    for question in QUESTIONS {
        let timed = |scheduler: Option<&str>| -> Result<(Vec<Value>, Duration), Failure> {
            let started = Instant::now();
            Ok((reader.rows(question, scheduler)?, started.elapsed()))
        };
        let ((own, own_time), (theirs, their_time)) = (timed(None)?, timed(Some(&Cluster::address()))?);
        println!(
            "{}: {} rows in {:.2} s, on the cluster in {:.2} s",
            question.join(" "),
            own.len(),
            own_time.as_secs_f64(),
            their_time.as_secs_f64()
        );
        if question == ["growth"] {
            println!("  first: {}", own.first().unwrap_or(&Value::Null));
        }
        if !is_equal(&own, &theirs) {
            return Err(Failure::new(format!("{question:?}: {own:?} and on the cluster {theirs:?}")));
        }
    }
    hosts.iter_mut().try_for_each(Host::start_agent)
}

/// Whether rows are equal, but for the order of sums.
fn is_equal(one: &[Value], two: &[Value]) -> bool {
    let is_near = |one: &Value, two: &Value| match (one.as_f64(), two.as_f64()) {
        (Some(one), Some(two)) => (one - two).abs() <= 1e-9 * one.abs().max(two.abs()).max(1.0),
        _ => one == two,
    };
    let is_same = |(one, two): (&Value, &Value)| {
        let (one, two) = (one.as_object(), two.as_object());
        one.zip(two).is_some_and(|(one, two)| one.iter().all(|(name, value)| is_near(value, &two[name])))
    };
    one.len() == two.len() && one.iter().zip(two).all(is_same)
}

/// Waits until agents have found the ends of all programs and sent everything, ends them, and waits
/// until the store has everything.
fn settle(hosts: &mut [Host<'_>], reader: &Reader<'_>) -> Result<(), Failure> {
    let is_done = |host: &Host<'_>| {
        let status = host.status();
        let has_none = status["processes"].as_array().is_some_and(Vec::is_empty);
        has_none && status["spool"]["batches"].as_u64() == Some(0)
    };
    until("agents find the ends of programs", || Ok(hosts.iter().all(is_done)))?;
    hosts.iter_mut().for_each(Host::stop_agent);
    // What was accepted last is not in segments yet. What stays missing is reported.
    let _ = until("the server writes segments", || Ok(Account::of(hosts, reader, None)?.missing == 0));
    Ok(())
}

fn until(what: &str, mut is_true: impl FnMut() -> Result<bool, Failure>) -> Result<(), Failure> {
    let started = Instant::now();
    while !is_true()? {
        if started.elapsed() > LATE {
            return Err(Failure::new(format!("not within {} s: {what}", LATE.as_secs())));
        }
        std::thread::sleep(STEP);
    }
    Ok(())
}

fn report(
    hosts: &[Host<'_>],
    server: &Server<'_>,
    reader: &Reader<'_>,
    lasted: Duration,
) -> Result<(), Failure> {
    for host in hosts {
        let spent = host.total();
        println!(
            "{}: {} programs started; agents: {} profiles in {} rounds, {:.2} % of a core, {:.1} ms a profile, \
             at most {} MiB",
            host.name(),
            host.started,
            spent.profiles,
            spent.rounds,
            100.0 * spent.cpu_seconds / lasted.as_secs_f64(),
            1e3 * spent.cpu_seconds / spent.profiles.max(1) as f64,
            spent.most_bytes >> 20,
        );
    }
    let status = server.get("/v1/status")?;
    for table in ["profiles", "samples", "stacks", "functions"] {
        let of = |name: &str| status["tables"][table][name].as_u64().unwrap_or(0);
        println!("{table}: {} rows, {} bytes, {} segments", of("rows"), of("bytes"), of("segments"));
    }
    let own = Account::of(hosts, reader, None)?;
    let theirs = Account::of(hosts, reader, Some(&Cluster::address()))?;
    println!(
        "{} profiles ({:.0} bytes on average, {:.1} a second): {} missing, {} stored twice, {} unknown; \
         the cluster {}",
        own.taken,
        own.bytes as f64 / own.taken.max(1) as f64,
        own.taken as f64 / lasted.as_secs_f64(),
        own.missing,
        own.repeated,
        own.unknown,
        if own == theirs { "counts the same".to_owned() } else { format!("counts {theirs:?}") },
    );
    match own.is_even() && own == theirs {
        true => Ok(()),
        false => Err(Failure::new("the store does not have every profile once")),
    }
}
