//! A host of the simulated fleet: its programs and its agent.

use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use super::network::Network;
use super::programs::{LEAKS, Program};
use heapwise_testkit::failure::Failure;

/// Time between the profiles of an agent: a minute in a sixth of the time.
pub(crate) const EVERY_SECONDS: u64 = 10;
/// The budget of a minute, 1 % of a core, in a sixth of the time.
const CPU_BUDGET: &str = "6";

/// A host.
pub(crate) struct Host<'a> {
    network: &'a Network,
    number: usize,
    heapwise: PathBuf,
    probe: String,
    directory: PathBuf,
    address: String,
    places: Vec<(Program, Child)>,
    agent: Option<Child>,
    /// Programs that were started.
    pub(crate) started: usize,
    /// CPU seconds and rounds of agents that have ended.
    pub(crate) spent: Spent,
}

/// What agents of a host did.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Spent {
    pub(crate) cpu_seconds: f64,
    pub(crate) profiles: u64,
    pub(crate) rounds: u64,
    pub(crate) most_bytes: u64,
}

impl<'a> Host<'a> {
    /// A host with programs that wait to be started.
    pub(crate) fn new(
        network: &'a Network,
        number: usize,
        heapwise: &Path,
        probe: &str,
        directory: PathBuf,
        address: &str,
    ) -> Result<Self, Failure> {
        let segments = directory.join("segments");
        let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(&segments);
        made.map_err(|why| Failure::at(&segments, why))?;
        Ok(Self {
            network,
            number,
            heapwise: heapwise.to_owned(),
            probe: probe.to_owned(),
            directory,
            address: address.to_owned(),
            places: Vec::new(),
            agent: None,
            started: 0,
            spent: Spent::default(),
        })
    }

    /// The name that its profiles have.
    pub(crate) fn name(&self) -> String {
        format!("host{}", self.number)
    }

    /// Directory of a second receiver of the agent: a file for every profile.
    pub(crate) fn files(&self) -> PathBuf {
        self.directory.join("files")
    }

    /// Starts a program at the next place. The last host has the release that leaks.
    pub(crate) fn add(&mut self, leaks: bool) -> Result<(), Failure> {
        let program = Program::of_place(self.places.len());
        let program = if leaks && program.can_leak() { LEAKS } else { program };
        let child = self.start(program)?;
        self.places.push((program, child));
        Ok(())
    }

    fn start(&mut self, program: Program) -> Result<Child, Failure> {
        self.started += 1;
        let release = if program == LEAKS { "1.1" } else { "1.0" };
        let (network, number, probe) = (self.network, self.number, &self.probe);
        let segments = self.directory.join("segments");
        program.start(self.started, |name| {
            let mut command = network.on_host(number, "env");
            let preload = format!("LD_PRELOAD={probe}");
            command.arg(preload).arg(name).current_dir("/").env("HEAPWISE_DIR", segments);
            command.env("HEAPWISE_RELEASE", release);
            command
        })
    }

    /// Starts short programs again that have ended. Long ones do not end.
    pub(crate) fn restart_ended(&mut self) -> Result<(), Failure> {
        for at in 0..self.places.len() {
            let (program, child) = &mut self.places[at];
            let (program, Ok(Some(status))) = (*program, child.try_wait()) else { continue };
            if !program.is_short {
                return Err(Failure::new(format!("{} of {}: {status}", program.name, self.name())));
            }
            self.places[at].1 = self.start(program)?;
        }
        Ok(())
    }

    /// Kills all programs as `kill -9` does.
    pub(crate) fn kill_programs(&mut self) {
        for (_, child) in &mut self.places {
            let _ = child.kill();
            let _ = child.wait();
        }
        self.places.clear();
    }

    /// Starts the agent unless it runs.
    pub(crate) fn start_agent(&mut self) -> Result<(), Failure> {
        if self.agent.is_some() {
            return Ok(());
        }
        let every = format!("{EVERY_SECONDS}s");
        let mut command = self.network.on_host(self.number, &self.heapwise.display().to_string());
        command.args(["agent", "--every", &every, "--cpu-budget", CPU_BUDGET, "--host", &self.name()]);
        command
            .args(["--fleet", &self.address, "--files"])
            .arg(self.files())
            .arg("--spool")
            .arg(self.spool());
        let log = self.directory.join("agent.log");
        let log = fs::OpenOptions::new().create(true).append(true).open(&log);
        let log = log.map_err(|why| Failure::at(&self.directory, why))?;
        command.env("HEAPWISE_DIR", self.directory.join("segments")).stdin(Stdio::null()).stderr(log);
        let child = command.stdout(Stdio::null()).spawn();
        self.agent = Some(child.map_err(|why| Failure::at(&self.heapwise, why))?);
        Ok(())
    }

    /// Kills the agent as `kill -9` does.
    pub(crate) fn kill_agent(&mut self) {
        self.end_agent("-KILL");
    }

    /// Ends the agent as a service manager does.
    pub(crate) fn stop_agent(&mut self) {
        self.end_agent("-TERM");
    }

    fn end_agent(&mut self, signal: &str) {
        let Some(mut agent) = self.agent.take() else { return };
        let _ = Command::new("kill").args([signal, &agent.id().to_string()]).status();
        let _ = agent.wait();
        self.spent = self.total();
        // The next agent has a status of its own.
        let _ = fs::remove_file(self.spool().join("status.json"));
    }

    /// What its agents did, with the one that runs.
    pub(crate) fn total(&self) -> Spent {
        let status = self.status();
        let number = |name: &str| status[name].as_u64().unwrap_or(0);
        Spent {
            cpu_seconds: self.spent.cpu_seconds + status["cpu_seconds"].as_f64().unwrap_or(0.0),
            profiles: self.spent.profiles + number("profiles"),
            rounds: self.spent.rounds + number("rounds"),
            most_bytes: self.spent.most_bytes.max(number("peak_resident_bytes")),
        }
    }

    /// The status of the agent that runs.
    pub(crate) fn status(&self) -> Value {
        let text = fs::read_to_string(self.spool().join("status.json")).unwrap_or_default();
        serde_json::from_str(&text).unwrap_or_default()
    }

    /// The batches that wait in the spool.
    pub(crate) fn batches(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.spool()).into_iter().flatten().flatten();
        let files = entries.map(|entry| entry.path());
        files.filter(|path| path.extension().is_some_and(|ending| ending == "batch")).collect()
    }

    fn spool(&self) -> PathBuf {
        self.directory.join("spool")
    }
}

impl Drop for Host<'_> {
    fn drop(&mut self) {
        self.kill_programs();
        self.kill_agent();
    }
}
