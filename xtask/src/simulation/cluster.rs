//! The Ballista cluster of the simulated fleet: a scheduler beside the server, executors on hosts.

use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::network::{self, Network, SERVER};
use super::reader::Reader;
use heapwise_testkit::failure::Failure;

/// Executors, each on a host of its own.
pub(crate) const EXECUTORS: usize = 2;
/// Counts that are never less than before, and are equal while no profile is stored twice.
const COUNT: &str = "SELECT count(*) AS n, count(DISTINCT profile_id) AS ids FROM profiles";

/// Scheduler and executors; killed with the value.
pub(crate) struct Cluster<'a> {
    network: &'a Network,
    fleet: PathBuf,
    data: PathBuf,
    scheduler: Child,
    executors: [Option<Child>; EXECUTORS],
}

impl<'a> Cluster<'a> {
    /// Starts a cluster that reads the store of a data directory.
    pub(crate) fn start(network: &'a Network, fleet: &Path, data: &Path) -> Result<Self, Failure> {
        let mut command = network.on_server(&fleet.display().to_string());
        command.arg("--data").arg(data).args(["scheduler", "--listen", &Self::address()]);
        let scheduler = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let mut cluster = Self {
            network,
            fleet: fleet.to_owned(),
            data: data.to_owned(),
            scheduler: scheduler.map_err(|why| Failure::at(fleet, why))?,
            executors: [const { None }; EXECUTORS],
        };
        (0..EXECUTORS).try_for_each(|number| cluster.start_executor(number))?;
        Ok(cluster)
    }

    /// The address of the scheduler.
    pub(crate) fn address() -> String {
        format!("{SERVER}:50050")
    }

    /// Starts an executor unless it runs. One whose scheduler does not listen yet tries again.
    pub(crate) fn start_executor(&mut self, number: usize) -> Result<(), Failure> {
        if self.executors[number].is_some() {
            return Ok(());
        }
        let mut command = self.network.on_host(number, &self.fleet.display().to_string());
        command.arg("--data").arg(&self.data).args(["executor", "--scheduler", &Self::address()]);
        command.args(["--cores", "1", "--listen", &format!("{}:50051", network::address(number))]);
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        self.executors[number] = Some(child.map_err(|why| Failure::at(&self.fleet, why))?);
        Ok(())
    }

    /// Kills an executor as `kill -9` does.
    pub(crate) fn kill_executor(&mut self, number: usize) {
        if let Some(mut child) = self.executors[number].take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Drop for Cluster<'_> {
    fn drop(&mut self) {
        (0..EXECUTORS).for_each(|number| self.kill_executor(number));
        let _ = self.scheduler.kill();
        let _ = self.scheduler.wait();
    }
}

/// What became of the queries of [`count_profiles`].
#[derive(Debug, Default)]
pub(crate) struct Counted {
    pub(crate) answers: usize,
    pub(crate) failures: Vec<String>,
    /// Counts less than an earlier one, or with a profile twice.
    pub(crate) wrong: usize,
    pub(crate) slowest: Duration,
}

/// Counts the stored profiles on the cluster again and again until `stop` is set.
pub(crate) fn count_profiles(reader: &Reader<'_>, stop: &AtomicBool) -> Counted {
    let (mut counted, mut most) = (Counted::default(), 0);
    while !stop.load(Ordering::Relaxed) {
        let started = Instant::now();
        match reader.rows(&["query", COUNT], Some(&Cluster::address())) {
            Ok(rows) => {
                let number = |name: &str| rows[0][name].as_u64().unwrap_or(0);
                let (profiles, ids) = (number("n"), number("ids"));
                counted.answers += 1;
                counted.wrong += usize::from(profiles < most || profiles != ids);
                most = most.max(profiles);
            }
            Err(failure) => counted.failures.push(failure.to_string()),
        }
        counted.slowest = counted.slowest.max(started.elapsed());
        std::thread::sleep(Duration::from_millis(200));
    }
    counted
}
