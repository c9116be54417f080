//! Queries of the simulated fleet's store, by a process of their own.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::network::Network;
use crate::runner;
use heapwise_testkit::failure::Failure;

/// Reads the store of a data directory.
pub(crate) struct Reader<'a> {
    network: &'a Network,
    fleet: PathBuf,
    data: PathBuf,
}

impl<'a> Reader<'a> {
    /// A reader on the machine of the server.
    pub(crate) fn new(network: &'a Network, fleet: &Path, data: &Path) -> Self {
        Self { network, fleet: fleet.to_owned(), data: data.to_owned() }
    }

    /// The rows of a command, such as `growth`: in its process, or on the cluster of a scheduler.
    pub(crate) fn rows(&self, arguments: &[&str], scheduler: Option<&str>) -> Result<Vec<Value>, Failure> {
        let mut command = self.network.on_server(&self.fleet.display().to_string());
        command.arg("--data").arg(&self.data).args(arguments).arg("--json");
        if let Some(scheduler) = scheduler {
            command.args(["--ballista", scheduler]);
        }
        let output = runner::output(&mut command)?;
        serde_json::from_slice(&output.stdout).map_err(|why| Failure::new(format!("{arguments:?}: {why}")))
    }
}
