//! The command line.

#[cfg(feature = "ballista")]
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args as Arguments, Parser, Subcommand};
use heapwise_fleet::day;
use heapwise_fleet::questions::Resolution;
use heapwise_profile::quantity::parse_duration;

/// Store profiles of many hosts and answer questions about them
#[derive(Debug, Parser)]
#[command(name = "heapwise-fleet", version)]
pub(crate) struct Args {
    /// Directory of the log, of opened profiles, and of the segments unless --store is given
    #[arg(long, global = true, value_name = "DIR", default_value = "fleet-data")]
    pub(crate) data: PathBuf,
    /// Keep segments in this directory, or in a bucket
    #[arg(long, global = true, value_name = "DIR|s3://BUCKET/PREFIX")]
    pub(crate) store: Option<String>,
    /// Address of the server of the bucket [default: AWS_ENDPOINT_URL, or Amazon's]
    #[arg(long, global = true, value_name = "URL")]
    pub(crate) endpoint: Option<String>,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Receive batches of agents and serve the page
    Serve(ServeArgs),
    /// Run SQL over the tables
    Query(QueryArgs),
    /// List the functions that hold most memory across the fleet now
    Top(AskArgs),
    /// Compare the average live bytes per host of two releases
    Diff {
        /// Older release
        old: String,
        /// Newer release
        new: String,
        #[command(flatten)]
        ask: AskArgs,
    },
    /// List sites that grow on most hosts of a release
    Growth(AskArgs),
    /// List hosts that hold far more of a site than the others
    Outliers(AskArgs),
    /// Show the live bytes of a site over time
    History {
        /// Name of the site, as other questions print it
        site: String,
        #[command(flatten)]
        ask: AskArgs,
    },
    /// List processes killed because memory was short, and their largest sites
    Oom(AskArgs),
    /// Write the profile of a process at a moment to a file
    Profile(ProfileArgs),
    /// Write the sum of the last profiles of all processes that run to a file
    Merged {
        #[command(flatten)]
        ask: AskArgs,
        /// Write the profile to FILE
        #[arg(short, long, value_name = "FILE")]
        output: PathBuf,
    },
    /// Print the Parquet files of a table
    Files {
        /// functions, stacks, frames, profiles, samples, samples_hour or samples_day; all tables
        /// when left out
        table: Option<String>,
    },
    /// Print statements that load the tables into ClickHouse
    Clickhouse,
    /// Plan queries for a Ballista cluster
    #[cfg(feature = "ballista")]
    Scheduler(SchedulerArgs),
    /// Run parts of queries for a Ballista cluster
    #[cfg(feature = "ballista")]
    Executor(ExecutorArgs),
    /// Fill an empty store with varied copies of a profile and a leak in one release
    Generate(GenerateArgs),
}

/// Options of `serve`.
#[derive(Debug, Arguments)]
pub(crate) struct ServeArgs {
    /// Listen on ADDRESS:PORT (requests then need the token), or on a Unix socket
    #[arg(long, value_name = "ADDRESS:PORT|PATH", default_value = "127.0.0.1:8095")]
    pub(crate) listen: String,
    /// Require this token [default: a new one, where other machines reach the address]
    #[arg(long, value_name = "TEXT")]
    pub(crate) token: Option<String>,
    /// Write segments this often
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = parse_duration)]
    pub(crate) flush: Duration,
    /// Keep samples as received for this time (0s = forever)
    #[arg(long, value_name = "TIME", default_value = "168h", value_parser = parse_duration)]
    pub(crate) keep_minutes: Duration,
    /// Keep roll-ups of hours for this time
    #[arg(long, value_name = "TIME", default_value = "2160h", value_parser = parse_duration)]
    pub(crate) keep_hours: Duration,
    /// Keep roll-ups of days for this time
    #[arg(long, value_name = "TIME", default_value = "17520h", value_parser = parse_duration)]
    pub(crate) keep_days: Duration,
    #[command(flatten)]
    pub(crate) engine: EngineArgs,
}

/// Options of `query`.
#[derive(Debug, Arguments)]
pub(crate) struct QueryArgs {
    /// A SELECT over functions, stacks, frames, profiles, samples, samples_hour and samples_day
    pub(crate) sql: String,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Where a query runs, and how its rows are printed.
#[derive(Debug, Arguments)]
pub(crate) struct OutputArgs {
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) engine: EngineArgs,
}

/// Where queries run.
#[derive(Debug, Arguments)]
pub(crate) struct EngineArgs {
    /// Run queries on the Ballista cluster of this scheduler
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) ballista: Option<String>,
}

/// Options of `scheduler`.
#[cfg(feature = "ballista")]
#[derive(Debug, Arguments)]
pub(crate) struct SchedulerArgs {
    /// Listen on ADDRESS:PORT for executors and queries; there is no token
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:50050")]
    pub(crate) listen: SocketAddr,
}

/// Options of `executor`.
#[cfg(feature = "ballista")]
#[derive(Debug, Arguments)]
pub(crate) struct ExecutorArgs {
    /// Address of the scheduler
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:50050")]
    pub(crate) scheduler: String,
    /// Address at which other executors and clients fetch results; there is no token
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:50051")]
    pub(crate) listen: SocketAddr,
    /// Run N tasks at the same time [default: the number of cores]
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    pub(crate) cores: usize,
}

/// Options of questions.
#[derive(Debug, Arguments)]
pub(crate) struct AskArgs {
    /// Cover this service only
    #[arg(long, value_name = "NAME")]
    pub(crate) service: Option<String>,
    /// Cover this time before the newest profile [default: 24h; 10m for `top`]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub(crate) since: Option<Duration>,
    /// Cover the time before this moment (2026-11-16T22:15:00Z)
    #[arg(long, value_name = "MOMENT", value_parser = day::parse_moment)]
    pub(crate) until: Option<i64>,
    /// Read samples of this resolution
    #[arg(long, value_enum, default_value = "minute")]
    pub(crate) resolution: Resolution,
    /// Show at most N rows
    #[arg(short = 'n', long, value_name = "N", default_value_t = 20)]
    pub(crate) limit: usize,
    /// Print the SQL of the question instead of its answer
    #[arg(long)]
    pub(crate) sql: bool,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Options of `profile`.
#[derive(Debug, Arguments)]
pub(crate) struct ProfileArgs {
    /// Name of the host
    pub(crate) host: String,
    /// Number of the process
    pub(crate) pid: u32,
    /// Newest profile up to this moment (2026-11-16T22:15:00Z) [default: the newest]
    #[arg(long, value_name = "MOMENT", value_parser = day::parse_moment)]
    pub(crate) at: Option<i64>,
    /// Write the profile to FILE
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: PathBuf,
}

/// Options of `generate`.
#[derive(Debug, Arguments)]
pub(crate) struct GenerateArgs {
    /// A profile of any format that heapwise reads
    pub(crate) profile: PathBuf,
    /// Write about N rows of samples
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    pub(crate) rows: usize,
    /// Take the N largest stacks of the profile
    #[arg(long, value_name = "N", default_value_t = 2000)]
    pub(crate) stacks: usize,
    /// Write N profiles of each process, one a minute
    #[arg(long, value_name = "N", default_value_t = 30)]
    pub(crate) points: usize,
    /// Time of the first profile
    #[arg(long, value_name = "MOMENT", default_value = "2026-11-01T00:00:00Z", value_parser = day::parse_moment)]
    pub(crate) start: i64,
}
