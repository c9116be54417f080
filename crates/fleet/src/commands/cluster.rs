//! `scheduler` and `executor`: the processes of a Ballista cluster.

use std::io::Write;
use std::path::Path;

use heapwise_capture::failure::{Failure, Outcome};
use heapwise_fleet::cluster::{self, ExecutorSettings};
use heapwise_fleet::store::Store;

use crate::args::{ExecutorArgs, SchedulerArgs};

/// Plans queries until the process ends.
pub(super) fn scheduler(store: &Store, args: &SchedulerArgs) -> Outcome {
    let _ = writeln!(std::io::stderr(), "heapwise-fleet: scheduler at {}", args.listen);
    cluster::run_scheduler(store, args.listen)
}

/// Runs tasks until the process ends.
pub(super) fn executor(store: &Store, data: &Path, args: ExecutorArgs) -> Outcome {
    let parts = args.scheduler.rsplit_once(':').and_then(|(host, port)| Some((host, port.parse().ok()?)));
    let Some((host, port)) = parts else {
        return Err(Failure::new(format!("--scheduler {}: not HOST:PORT", args.scheduler)));
    };
    let _ = writeln!(std::io::stderr(), "heapwise-fleet: executor at {}", args.listen);
    cluster::run_executor(
        store,
        ExecutorSettings {
            address: args.listen,
            scheduler_host: host.to_owned(),
            scheduler_port: port,
            cores: args.cores,
            work: data.join(format!("shuffle-{}-{}", args.listen.ip(), args.listen.port())),
        },
    )
}
