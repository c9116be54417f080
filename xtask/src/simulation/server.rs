//! The server of the simulated fleet.

use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::network::{Network, SERVER};
use crate::runner;
use heapwise_testkit::failure::Failure;

/// What requests need, because other hosts reach the server.
const TOKEN: &str = "simulated";
/// Time that a server has to answer.
const START: Duration = Duration::from_secs(60);

/// The server; killed with the value.
pub(crate) struct Server<'a> {
    network: &'a Network,
    fleet: PathBuf,
    data: PathBuf,
    child: Option<Child>,
}

impl<'a> Server<'a> {
    /// A server that is not started yet.
    pub(crate) fn new(network: &'a Network, fleet: &Path, data: PathBuf) -> Self {
        Self { network, fleet: fleet.to_owned(), data, child: None }
    }

    /// The address that agents send to.
    pub(crate) fn address() -> String {
        format!("http://{SERVER}:8095/t/{TOKEN}")
    }

    /// Starts it unless it runs; it may not answer yet.
    pub(crate) fn start(&mut self) -> Result<(), Failure> {
        if self.child.is_some() {
            return Ok(());
        }
        let mut command = self.network.on_server(&self.fleet.display().to_string());
        command.arg("--data").arg(&self.data).args(["serve", "--flush", "5s", "--token", TOKEN, "--listen"]);
        command.arg(format!("{SERVER}:8095")).stdin(Stdio::null()).stderr(Stdio::null());
        self.child = Some(command.spawn().map_err(|why| Failure::at(&self.fleet, why))?);
        Ok(())
    }

    /// Kills it as `kill -9` does.
    pub(crate) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Waits until it answers.
    pub(crate) fn wait(&self) -> Result<(), Failure> {
        let started = Instant::now();
        while self.get("/v1/status").is_err() {
            if started.elapsed() > START {
                return Err(Failure::new("the server does not answer"));
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        Ok(())
    }

    /// The answer to a request.
    pub(crate) fn get(&self, path: &str) -> Result<Value, Failure> {
        let mut curl = self.network.on_server("curl");
        curl.args(["--silent", "--fail", "--max-time", "120"]).arg(format!("{}{path}", Self::address()));
        let output = runner::output(&mut curl)?;
        serde_json::from_slice(&output.stdout).map_err(|why| Failure::new(format!("{path}: {why}")))
    }

    /// The rows of a query, by another process than the server.
    pub(crate) fn rows(&self, sql: &str) -> Result<Vec<Value>, Failure> {
        let mut command = self.network.on_server(&self.fleet.display().to_string());
        let output = runner::output(command.arg("--data").arg(&self.data).args(["query", "--json", sql]))?;
        serde_json::from_slice(&output.stdout).map_err(|why| Failure::new(format!("{sql}: {why}")))
    }
}

impl Drop for Server<'_> {
    fn drop(&mut self) {
        self.kill();
    }
}
