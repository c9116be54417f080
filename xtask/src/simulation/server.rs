//! The server of the simulated fleet.

use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::FLUSH;
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
        command.arg("--data").arg(&self.data).args(["serve", "--token", TOKEN, "--flush"]);
        command
            .arg(format!("{}s", FLUSH.as_secs()))
            .args(["--listen", &format!("{SERVER}:8095")])
            .stdin(Stdio::null())
            .stderr(Stdio::null());
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

    /// CPU time of the process that runs.
    pub(crate) fn cpu_seconds(&self) -> f64 {
        let stat = self.child.as_ref().map(|child| format!("/proc/{}/stat", child.id()));
        let text = stat.and_then(|path| std::fs::read_to_string(path).ok()).unwrap_or_default();
        // The name before the last parenthesis may have spaces. Times are in hundredths of seconds.
        let fields = text.rsplit_once(')').map_or("", |(_, fields)| fields);
        let times = fields.split_whitespace().skip(11).take(2).filter_map(|field| field.parse::<u64>().ok());
        times.sum::<u64>() as f64 / 100.0
    }
}

impl Drop for Server<'_> {
    fn drop(&mut self) {
        self.kill();
    }
}
