//! `fleet-simulation`: hosts, agents and a server of a fleet on this machine, killed at random.
//!
//! Hosts are network namespaces. Each has an agent and runs redis-server, Python, Lua and SQLite
//! with the probe, some until the end and some for seconds. Every agent writes its profiles into
//! files too: these are the outside count that the store is compared with.

mod account;
mod host;
mod network;
mod programs;
mod server;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use account::Account;
use host::{EVERY_SECONDS, Host};
use network::Network;
use server::Server;

use crate::arguments::number;
use crate::runner::{self, Build};
use heapwise_testkit::failure::Failure;
use heapwise_testkit::random::Random;

/// Hosts of the fleet.
const HOSTS: usize = 3;
/// Time between two looks at what is due.
const STEP: Duration = Duration::from_millis(200);
/// Least and further time between two kills.
const KILL_MS: (u64, u64) = (4000, 8000);
/// Longest time that what was killed stays down.
const DOWN_MS: u64 = 3000;
/// Longest wait for what is sent late.
const LATE: Duration = Duration::from_secs(300);
/// Questions whose time is taken.
const QUESTIONS: [&str; 5] =
    ["top?since=1h", "growth?since=1h", "outliers?since=1h", "oom?since=1h", "diff?since=1h&old=1.0&new=1.1"];

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
    let mut server = Server::new(&network, fleet, scratch.join("data"));
    server.start()?;
    server.wait()?;
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
    let kills = disturb(&mut hosts, &mut server, time, random)?;
    println!("{kills} agents and servers were killed in {:.0} s", started.elapsed().as_secs_f64());
    until("every program has a profile in segments", || {
        let status = server.get("/v1/status")?;
        Ok(status["tables"]["profiles"]["rows"].as_u64() >= Some(processes as u64))
    })?;
    catch_up(&mut hosts, &mut server)?;
    times(&server)?;
    let lasted = started.elapsed();
    hosts.iter_mut().for_each(Host::kill_programs);
    let account = settle(&mut hosts, &server)?;
    report(&hosts, &server, &account, lasted)
}

/// Kills agents and the server at random moments and starts them again; the number of kills.
fn disturb(
    hosts: &mut [Host<'_>],
    server: &mut Server<'_>,
    time: Duration,
    random: &mut Random,
) -> Result<usize, Failure> {
    let (started, mut kills) = (Instant::now(), 0);
    let wait = |random: &mut Random| Duration::from_millis(KILL_MS.0) + random.moment(KILL_MS.1);
    let mut kill_at = Instant::now() + wait(random);
    let mut restart_at: Vec<(Instant, usize)> = Vec::new();
    while started.elapsed() < time {
        std::thread::sleep(STEP);
        hosts.iter_mut().try_for_each(Host::restart_ended)?;
        let now = Instant::now();
        if now >= kill_at {
            // One number more than hosts: the server.
            let victim = random.below(HOSTS as u64 + 1) as usize;
            match hosts.get_mut(victim) {
                Some(host) => host.kill_agent(),
                None => server.kill(),
            }
            kills += 1;
            restart_at.push((now + random.moment(DOWN_MS), victim));
            kill_at = now + wait(random);
        }
        for (_, victim) in restart_at.extract_if(.., |(at, _)| *at <= now) {
            match hosts.get_mut(victim) {
                Some(host) => host.start_agent()?,
                None => server.start()?,
            }
        }
    }
    hosts.iter_mut().try_for_each(Host::start_agent)?;
    server.start()?;
    server.wait()?;
    Ok(kills)
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
        "after a break of {} s, {received} profiles arrived within {:.1} s of the server's start",
        3 * EVERY_SECONDS,
        started.elapsed().as_secs_f64()
    );
    Ok(())
}

/// Takes the time of questions.
fn times(server: &Server<'_>) -> Result<(), Failure> {
    for question in QUESTIONS {
        let started = Instant::now();
        let rows = server.get(&format!("/v1/ask/{question}"))?;
        let count = rows.as_array().map_or(0, Vec::len);
        println!("{question}: {count} rows in {:.2} s", started.elapsed().as_secs_f64());
        if question.starts_with("growth") {
            println!("  first: {}", rows[0]);
        }
    }
    Ok(())
}

/// Waits until agents have found the ends of all programs and sent everything, ends them, and
/// compares.
fn settle(hosts: &mut [Host<'_>], server: &Server<'_>) -> Result<Account, Failure> {
    let is_done = |host: &Host<'_>| {
        let status = host.status();
        let has_none = status["processes"].as_array().is_some_and(Vec::is_empty);
        has_none && status["spool"]["batches"].as_u64() == Some(0)
    };
    until("agents find the ends of programs", || Ok(hosts.iter().all(is_done)))?;
    hosts.iter_mut().for_each(Host::stop_agent);
    let mut account = Account::of(hosts, server)?;
    // What was accepted last is not in segments yet.
    let late = until("the server writes segments", || {
        account = Account::of(hosts, server)?;
        Ok(account.missing == 0)
    });
    if late.is_err() {
        println!("{account:?}");
    }
    Ok(account)
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
    account: &Account,
    lasted: Duration,
) -> Result<(), Failure> {
    let seconds = lasted.as_secs_f64();
    for host in hosts {
        let spent = host.total();
        println!(
            "{}: {} programs started; agent: {} profiles in {} rounds, {:.2} % of a core, {:.1} ms a profile, \
             at most {} MiB",
            host.name(),
            host.started,
            spent.profiles,
            spent.rounds,
            100.0 * spent.cpu_seconds / seconds,
            1e3 * spent.cpu_seconds / spent.profiles.max(1) as f64,
            spent.most_bytes >> 20,
        );
    }
    let status = server.get("/v1/status")?;
    for table in ["profiles", "samples", "stacks", "functions"] {
        let of = |name: &str| status["tables"][table][name].as_u64().unwrap_or(0);
        println!("{table}: {} rows, {} bytes, {} segments", of("rows"), of("bytes"), of("segments"));
    }
    println!(
        "{} profiles ({:.0} bytes on average, {:.1} a second): {} missing, {} stored twice, {} unknown",
        account.taken,
        account.bytes as f64 / account.taken.max(1) as f64,
        account.taken as f64 / seconds,
        account.missing,
        account.repeated,
        account.unknown,
    );
    match account.is_even() {
        true => Ok(()),
        false => Err(Failure::new("the store does not have every profile once")),
    }
}
