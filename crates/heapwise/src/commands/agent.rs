//! `agent`: profiles of every process of this host, kept in a spool and sent to receivers.

use std::io::IsTerminal;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use clap::Args;
use heapwise_agent::agent::{Agent, Settings};
use heapwise_agent::budget::{Budget, Excess};
use heapwise_agent::identity::Names;
use heapwise_agent::policy::AttachPolicy;
use heapwise_agent::receiver::Receiver;
use heapwise_agent::request::Address;
use heapwise_agent::status::Status;
use heapwise_profile::quantity::{self, parse_bytes, parse_duration, parse_rate};
use heapwise_symbolize::Options as SymbolOptions;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::allocator_settings;
use crate::failure::Outcome;
use crate::input_error;
use crate::symbols::SymbolArgs;

/// Options of `agent`.
#[derive(Debug, Args)]
pub(crate) struct AgentArgs {
    /// Take a profile of each process every TIME
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = parse_duration, help_heading = "Capture options")]
    every: Duration,
    /// Sample one block per RATE bytes in processes that do not record yet
    #[arg(short = 'c', long = "rate", value_name = "RATE", default_value = "512K", value_parser = parse_rate, help_heading = "Capture options")]
    rate: u64,
    /// Take a profile of each process once, wait until it is sent, and exit
    #[arg(long, help_heading = "Capture options")]
    once: bool,
    /// Leave names of functions to the receivers
    #[arg(long, help_heading = "Output options")]
    no_symbols: bool,
    /// Serve Prometheus' /metrics, and /status
    #[arg(long, value_name = "ADDRESS:PORT", help_heading = "Server options")]
    listen: Option<SocketAddr>,
    #[command(flatten)]
    names: NameArgs,
    #[command(flatten)]
    budget: BudgetArgs,
    #[command(flatten)]
    policy: PolicyArgs,
    #[command(flatten)]
    receivers: ReceiverArgs,
    #[command(flatten)]
    spool: SpoolArgs,
}

/// Names of the processes.
#[derive(Debug, Args)]
#[group(id = "agent_names")]
#[command(next_help_heading = "Output options")]
struct NameArgs {
    /// Name the service of every process [default: its environment, its unit, its program]
    #[arg(long, value_name = "NAME")]
    service: Option<String>,
    /// Name the release of every process [default: its environment, the build-id of its program]
    #[arg(long, value_name = "NAME")]
    release: Option<String>,
    /// Name this host [default: its host name]
    #[arg(long, value_name = "NAME")]
    host: Option<String>,
}

/// What the agent may take.
#[derive(Debug, Args)]
#[group(id = "agent_budget")]
#[command(next_help_heading = "Capture options")]
struct BudgetArgs {
    /// Take at most PERCENT of one core; the interval grows when it is more
    #[arg(long, value_name = "PERCENT", default_value = "1", value_parser = parse_percent)]
    cpu_budget: f64,
    /// Take at most this much memory (K, M, G); the interval grows when it is more
    #[arg(long, value_name = "BYTES", default_value = "64M", value_parser = parse_bytes)]
    memory_budget: u64,
}

/// Which processes get the probe.
#[derive(Debug, Args)]
#[group(id = "agent_policy")]
#[command(next_help_heading = "Capture options")]
struct PolicyArgs {
    /// Attach to programs of this name (* matches any text; may be repeated)
    #[arg(long, value_name = "PATTERN")]
    attach_name: Vec<String>,
    /// Attach to processes in this control group (* matches any text; may be repeated)
    #[arg(long, value_name = "PATTERN")]
    attach_cgroup: Vec<String>,
    /// Attach to processes of this user (may be repeated)
    #[arg(long, value_name = "USER")]
    attach_user: Vec<String>,
}

/// Where profiles go.
#[derive(Debug, Args)]
#[group(id = "agent_receivers")]
#[command(next_help_heading = "Output options")]
struct ReceiverArgs {
    /// Send batches to heapwise-fleet
    #[arg(long, value_name = "URL")]
    fleet: Option<Address>,
    /// Send pprof to Grafana Pyroscope
    #[arg(long, value_name = "URL")]
    pyroscope: Option<Address>,
    /// Send pprof to Parca over gRPC (grpc://HOST:PORT)
    #[arg(long, value_name = "URL", value_parser = parse_grpc)]
    parca: Option<Address>,
    /// Send OTLP profiles over HTTP (http://HOST:PORT) or gRPC (grpc://HOST:PORT)
    #[arg(long, value_name = "URL")]
    otlp: Option<Address>,
    /// Write profile files into DIR
    #[arg(long, value_name = "DIR")]
    files: Option<PathBuf>,
    /// Send this header with every request (may be repeated)
    #[arg(long, value_name = "NAME: VALUE", value_parser = parse_header)]
    header: Vec<(String, String)>,
}

/// What waits for receivers.
#[derive(Debug, Args)]
#[group(id = "agent_spool")]
#[command(next_help_heading = "Output options")]
struct SpoolArgs {
    /// Keep profiles that are not sent yet in DIR
    #[arg(long, value_name = "DIR")]
    spool: Option<PathBuf>,
    /// Keep at most this much (K, M, G); the oldest go first
    #[arg(long, value_name = "BYTES", default_value = "256M", value_parser = parse_bytes)]
    spool_limit: u64,
}

fn parse_percent(text: &str) -> Result<f64, String> {
    match text.trim_end_matches('%').parse::<f64>() {
        Ok(percent) if percent > 0.0 && percent <= 100.0 => Ok(percent / 100.0),
        _ => Err("a number above 0, at most 100".into()),
    }
}

fn parse_grpc(text: &str) -> Result<Address, String> {
    let address: Address =
        text.parse().map_err(|error: heapwise_agent::request::AddressError| error.to_string())?;
    if address.is_grpc() { Ok(address) } else { Err("start it with grpc://".into()) }
}

fn parse_header(text: &str) -> Result<(String, String), String> {
    let is_name = |name: &str| {
        !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
    };
    let is_value = |value: &str| value.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic());
    match text.split_once(':') {
        Some((name, value)) if is_name(name) && is_value(value) => {
            Ok((name.to_ascii_lowercase(), value.trim().to_owned()))
        }
        _ => Err("give NAME: VALUE".into()),
    }
}

impl ReceiverArgs {
    fn list(&self) -> Vec<Receiver> {
        [
            self.fleet.clone().map(Receiver::Fleet),
            self.pyroscope.clone().map(Receiver::Pyroscope),
            self.parca.clone().map(Receiver::Parca),
            self.otlp.clone().map(Receiver::Otlp),
            self.files.clone().map(Receiver::Files),
        ]
        .into_iter()
        .flatten()
        .collect()
    }
}

/// How long `--once` waits for its receivers.
const ONCE_WAIT: Duration = Duration::from_secs(60);

/// Runs until interrupted; with `--once`, fails when a receiver did not get everything.
pub(crate) fn run(args: AgentArgs) -> Outcome<ExitCode> {
    allocator_settings::restart_with_them();
    let once = args.once;
    let mut agent = Agent::start(settings(args)?)?;
    if let Some(address) = agent.address() {
        note!("metrics at http://{address}/metrics");
    }
    let mut report = Report::new();
    if once {
        let is_sent = agent.run_once(ONCE_WAIT, |status| report.line(status));
        return Ok(if is_sent { ExitCode::SUCCESS } else { ExitCode::FAILURE });
    }
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&stop))
            .map_err(|error| input_error!("cannot watch for Ctrl-C: {}", error))?;
    }
    agent.run(&stop, |status| report.round(status));
    Ok(ExitCode::SUCCESS)
}

fn settings(args: AgentArgs) -> Outcome<Settings> {
    let least = Duration::from_millis(100);
    if args.every < least {
        return Err(input_error!("--every: at least {}", quantity::duration(least)));
    }
    let spool = args.spool.spool.or_else(state_dir).ok_or_else(|| {
        input_error!("no place for the spool: neither XDG_STATE_HOME nor HOME is set; give --spool")
    })?;
    let host =
        args.names.host.unwrap_or_else(|| rustix::system::uname().nodename().to_string_lossy().into_owned());
    // One thread, and nothing that waits for the network.
    let symbols = SymbolOptions { jobs: 1, debuginfod_urls: Vec::new(), ..SymbolArgs::default().options() };
    Ok(Settings {
        every: args.every,
        // A lease of a moment would record nothing.
        sample_bytes: Some(args.rate).filter(|_| !args.once),
        budget: Budget { cpu: args.budget.cpu_budget, memory_bytes: args.budget.memory_budget },
        names: Names { service: args.names.service, release: args.names.release, host },
        policy: AttachPolicy {
            names: args.policy.attach_name,
            cgroups: args.policy.attach_cgroup,
            users: args.policy.attach_user,
        },
        symbols: Some(symbols).filter(|_| !args.no_symbols),
        spool,
        spool_bytes: args.spool.spool_limit,
        receivers: args.receivers.list(),
        headers: args.receivers.header,
        listen: args.listen,
    })
}

/// `$XDG_STATE_HOME/heapwise/agent`, or `~/.local/state/heapwise/agent`.
fn state_dir() -> Option<PathBuf> {
    let state = std::env::var_os("XDG_STATE_HOME")
        .map(PathBuf::from)
        .or_else(|| std::env::var_os("HOME").map(|home| Path::new(&home).join(".local/state")))?;
    Some(state.join("heapwise/agent"))
}

/// Lines about the agent: each round on a terminal, else what has changed.
struct Report {
    is_terminal: bool,
    interval: Duration,
    problems: Vec<String>,
    dropped: u64,
}

impl Report {
    fn new() -> Self {
        Self {
            is_terminal: std::io::stderr().is_terminal(),
            interval: Duration::MAX,
            problems: Vec::new(),
            dropped: 0,
        }
    }

    fn round(&mut self, status: &Status) {
        let is_first = self.interval == Duration::MAX;
        if status.interval != self.interval && !is_first {
            let interval = quantity::duration(status.interval);
            match status.excess {
                Some(excess) => note!("above the {} budget: a profile every {interval} now", name_of(excess)),
                None => note!("within the budget: a profile every {interval} again"),
            }
        }
        self.interval = status.interval;
        if status.spool.dropped > self.dropped {
            note!("the spool is full: {} profiles dropped", status.spool.dropped - self.dropped);
            self.dropped = status.spool.dropped;
        }
        let of_receiver = |(name, counts): &(&str, heapwise_agent::delivery::DeliveryCounts)| {
            counts.problem.as_ref().map(|problem| format!("{name}: {problem}"))
        };
        let problems: Vec<String> =
            status.receivers.iter().filter_map(of_receiver).chain(status.problem.clone()).collect();
        for problem in problems.iter().filter(|problem| !self.problems.contains(problem)) {
            note!("{problem}");
        }
        self.problems = problems;
        if self.is_terminal || is_first {
            self.line(status);
        }
    }

    /// The status line.
    fn line(&mut self, status: &Status) {
        let sent: u64 = status.receivers.iter().map(|(_, counts)| counts.sent).sum();
        note!(
            "{} processes, {} profiles ({}), {sent} sent, {} in the spool, {} dropped; {:.2} % of a core, {} \
             (peak {})",
            status.processes.len(),
            status.counts.profiles,
            quantity::bytes(status.counts.profile_bytes as f64),
            quantity::bytes(status.spool.bytes as f64),
            status.spool.dropped,
            status.cost.cpu * 100.0,
            quantity::bytes(status.cost.resident_bytes as f64),
            quantity::bytes(status.cost.peak_bytes as f64),
        );
    }
}

fn name_of(excess: Excess) -> &'static str {
    match excess {
        Excess::Cpu => "CPU",
        Excess::Memory => "memory",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_checked() {
        assert_eq!(parse_percent("1"), Ok(0.01));
        assert_eq!(parse_percent("2.5%"), Ok(0.025));
        assert!(parse_percent("0").is_err() && parse_percent("101").is_err() && parse_percent("x").is_err());
        let header = ("x-scope-orgid".to_owned(), "a b".to_owned());
        assert_eq!(parse_header("X-Scope-OrgID: a b"), Ok(header));
        for wrong in ["", "a", ": b", "a b: c", "a: b\nc: d"] {
            assert!(parse_header(wrong).is_err(), "{wrong}");
        }
        assert!(parse_grpc("grpc://h:1").is_ok() && parse_grpc("http://h:1").is_err());
    }
}
