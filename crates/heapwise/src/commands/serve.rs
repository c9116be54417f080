//! `serve`: the web page and the HTTP addresses other tools know.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use heapwise_profile::quantity::parse_bytes;
use heapwise_serve::{Address, Server, Settings};

use super::attach::OfferArgs;
use crate::allocator_settings;
use crate::failure::Outcome;
use crate::input_error;
use crate::own_code::OwnArgs;
use crate::symbols::SymbolArgs;

/// Options of `serve`.
#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    /// Files, directories of dumps, pids or program names; every process with the probe when left
    /// out
    #[arg(value_name = "FILE|DIR|PID|NAME")]
    targets: Vec<String>,
    /// Listen on this port of 127.0.0.1 (0 = any free one)
    #[arg(
        long,
        value_name = "PORT",
        default_value_t = 8090,
        conflicts_with = "listen",
        help_heading = "Server options"
    )]
    port: u16,
    /// Listen on ADDRESS:PORT (readers then need the token), or on a Unix socket
    #[arg(long, value_name = "ADDRESS:PORT|PATH", help_heading = "Server options")]
    listen: Option<String>,
    /// Require this token for changes, and for reading too [default: a new one, for changes]
    #[arg(long, value_name = "TEXT", help_heading = "Server options")]
    token: Option<String>,
    /// Keep at most N profiles of each process
    #[arg(
        long = "max_profiles_kept",
        alias = "max-profiles-kept",
        value_name = "N",
        default_value_t = 32,
        help_heading = "Server options"
    )]
    max_profiles_kept: usize,
    /// Keep profiles in DIR
    #[arg(long = "profile-dir", value_name = "DIR", help_heading = "Server options")]
    profile_dir: Option<PathBuf>,
    /// Set the niceness of the server (0–19)
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(i32).range(0..=19), help_heading = "Server options")]
    nice: i32,
    /// Take at most this much memory (K, M, G)
    #[arg(long, value_name = "BYTES", default_value = "512M", value_parser = parse_memory, help_heading = "Server options")]
    memory: usize,
    #[command(flatten)]
    offer: OfferArgs,
    #[command(flatten)]
    own: OwnArgs,
    #[command(flatten)]
    symbols: SymbolArgs,
}

/// Least memory of a server: a loaded profile, its views, and the program itself.
const LEAST_MEMORY: u64 = 64 << 20;

fn parse_memory(text: &str) -> Result<usize, String> {
    match parse_bytes(text)? {
        bytes if bytes < LEAST_MEMORY => Err("at least 64M".to_owned()),
        bytes => usize::try_from(bytes).map_err(|_| "too large".to_owned()),
    }
}

/// Shortest token a user may choose.
const SHORTEST_TOKEN: usize = 8;

/// Serves until interrupted.
pub(crate) fn run(args: ServeArgs) -> Outcome {
    allocator_settings::restart_with_them();
    heapwise_capture::stale_segments::collect();
    let address = match &args.listen {
        None => Address::Tcp(([127, 0, 0, 1], args.port).into()),
        Some(text) => Address::parse(text).ok_or_else(|| {
            input_error!(
                "--listen {}: not an address; give ADDRESS:PORT, or a path with a `/` for a Unix socket",
                text
            )
        })?,
    };
    if let Some(token) = &args.token
        && (token.len() < SHORTEST_TOKEN || !token.bytes().all(|byte| byte.is_ascii_alphanumeric()))
    {
        return Err(input_error!("--token: use at least {} letters and digits", SHORTEST_TOKEN));
    }
    let root = args.profile_dir.or_else(state_dir).ok_or_else(|| {
        input_error!("no place to keep profiles: neither XDG_STATE_HOME nor HOME is set; give --profile-dir")
    })?;
    args.offer.bring_in(&args.targets)?;
    // Many viewers must not slow down the programs. A kernel that refuses changes nothing. Not
    // SCHED_IDLE: with every core busy that leaves 3/1024 of one, and a page would take minutes.
    let _ = rustix::process::nice(args.nice);
    let server = Server::new(Settings {
        address,
        token: args.token,
        targets: args.targets,
        root,
        most_profiles: args.max_profiles_kept.max(1),
        symbols: args.symbols.options(),
        own: args.own.rule()?,
        memory_bytes: args.memory,
    })?;
    announce(&server);
    server.run()
}

/// `$XDG_STATE_HOME/heapwise/profiles`, or `~/.local/state/heapwise/profiles`.
fn state_dir() -> Option<PathBuf> {
    let state = std::env::var_os("XDG_STATE_HOME")
        .map(PathBuf::from)
        .or_else(|| std::env::var_os("HOME").map(|home| Path::new(&home).join(".local/state")))?;
    Some(state.join("heapwise/profiles"))
}

/// Prints the address once, on stderr. Errors are ignored: a server outlives the terminal that
/// started it.
fn announce(server: &Server) {
    let (address, token) = (server.address(), server.token());
    let text = if server.token_for_reading() && address.ip().is_some() {
        format!("heapwise: serving at {address}?token={token}\n")
    } else {
        format!("heapwise: serving at {address}\nheapwise: token for changes by other tools: {token}\n")
    };
    let _ = io::stderr().write_all(text.as_bytes());
}
