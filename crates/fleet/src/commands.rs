//! The commands.

mod ask;
#[cfg(feature = "ballista")]
mod cluster;
mod serve;

use std::io::Write;
use std::path::Path;

use heapwise_capture::failure::{Failure, Outcome};
use heapwise_fleet::asked::Question;
use heapwise_fleet::catalog::Catalog;
use heapwise_fleet::clickhouse;
use heapwise_fleet::drill_down::{self, Wanted};
use heapwise_fleet::generate::{self, Size};
use heapwise_fleet::manifest::Manifest;
use heapwise_fleet::schema::Table;
use heapwise_fleet::store::Store;
use heapwise_profile::compact;

use crate::args::{Args, Command, GenerateArgs, ProfileArgs};

/// Runs a command.
pub(crate) fn run(args: Args) -> Outcome {
    let place = args.store.unwrap_or_else(|| args.data.join("store").display().to_string());
    let store = Store::open(&place, args.endpoint.as_deref())?;
    match args.command {
        Command::Serve(options) => serve::run(args.data, store, options),
        Command::Query(options) => ask::query(&store, &options),
        Command::Top(options) => ask::question(&store, &Question::Top, &options),
        Command::Growth(options) => ask::question(&store, &Question::Growth, &options),
        Command::Outliers(options) => ask::question(&store, &Question::Outliers, &options),
        Command::Oom(options) => ask::question(&store, &Question::Oom, &options),
        Command::Diff { old, new, ask } => ask::question(&store, &Question::Diff { old, new }, &ask),
        Command::History { site, ask } => ask::question(&store, &Question::History { site }, &ask),
        Command::Profile(options) => profile(&store, options),
        Command::Merged { ask, output } => write(&output, &compact::encode(&ask::merged(&store, &ask)?)),
        Command::Files { table } => files(&store, table.as_deref()),
        Command::Clickhouse => print(clickhouse::statements(&store, &Manifest::load(&store)?).as_bytes()),
        #[cfg(feature = "ballista")]
        Command::Scheduler(options) => cluster::scheduler(&store, &options),
        #[cfg(feature = "ballista")]
        Command::Executor(options) => cluster::executor(&store, &args.data, options),
        Command::Generate(options) => generate(&store, &options),
    }
}

/// Prints a result. A closed pipe is ignored.
fn print(text: &[u8]) -> Outcome {
    match std::io::stdout().write_all(text) {
        Err(why) if why.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(Failure::new(format!("cannot write the result: {why}")))
        }
        _ => Ok(()),
    }
}

fn profile(store: &Store, args: ProfileArgs) -> Outcome {
    let catalog = Catalog::new(store, &Manifest::load(store)?)?;
    let wanted = Wanted { host: args.host, pid: args.pid, until_ns: args.at };
    let profile = drill_down::profile(&catalog, &wanted)?;
    write(&args.output, &compact::encode(&profile))
}

fn write(path: &Path, bytes: &[u8]) -> Outcome {
    std::fs::write(path, bytes).map_err(|why| Failure::file(path, why))
}

fn files(store: &Store, table: Option<&str>) -> Outcome {
    let table = match table {
        Some(name) => Some(Table::of_name(name).ok_or_else(|| Failure::new(format!("no table `{name}`")))?),
        None => None,
    };
    let manifest = Manifest::load(store)?;
    let chosen = manifest.segments.iter().filter(|segment| table.is_none_or(|table| segment.table == table));
    let lines: String = chosen.map(|segment| format!("{}\n", store.place(&segment.name))).collect();
    print(lines.as_bytes())
}

fn generate(store: &Store, args: &GenerateArgs) -> Outcome {
    let bytes = std::fs::read(&args.profile).map_err(|why| Failure::file(&args.profile, why))?;
    let profile = heapwise_profile::read(&bytes).map_err(|why| Failure::file(&args.profile, why))?;
    let size = Size { rows: args.rows, stacks: args.stacks, points: args.points, start_ns: args.start };
    let hosts = generate::run(store, profile, size)?;
    print(format!("{hosts} hosts, {} profiles each\n", args.points).as_bytes())
}
