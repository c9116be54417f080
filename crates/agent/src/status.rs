//! What the agent does at present: plain data for the status line, the status file and `/metrics`.

use std::fs;
use std::io::{self, Write as _};
use std::path::Path;
use std::time::Duration;

use heapwise_capture::own_files::create_temporary;
use serde_json::{Value, json};

use crate::batch::Labels;
use crate::budget::{Budget, Excess};
use crate::cost::Cost;
use crate::delivery::DeliveryCounts;
use crate::spool::SpoolCounts;

/// A followed process.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ProcessStatus {
    /// Its names.
    pub labels: Labels,
    /// Path of its program.
    pub program: String,
    /// Its number.
    pub pid: u32,
    /// Live bytes at the last profile.
    pub live_bytes: u64,
    /// Live blocks at the last profile.
    pub live_objects: u64,
    /// Bytes allocated since recording started.
    pub allocated_bytes: u64,
    /// Blocks allocated since recording started.
    pub allocated_objects: u64,
    /// Highest number of live bytes.
    pub peak_bytes: u64,
    /// Resident bytes.
    pub resident_bytes: u64,
}

/// Counts since the agent started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Rounds.
    pub rounds: u64,
    /// Profiles taken.
    pub profiles: u64,
    /// Their bytes in the spool.
    pub profile_bytes: u64,
    /// Profiles that could not be taken.
    pub failures: u64,
    /// Last profiles of processes that ended.
    pub ended: u64,
    /// Processes attached to.
    pub attached: u64,
    /// Processes that the policy allows and that could not be attached to.
    pub attach_failures: u64,
}

/// The state of the agent after a round.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Status {
    /// Followed processes.
    pub processes: Vec<ProcessStatus>,
    /// Counts.
    pub counts: Counts,
    /// The agent's cost in the last round.
    pub cost: Cost,
    /// Its budget.
    pub budget: Budget,
    /// What the last round exceeded.
    pub excess: Option<Excess>,
    /// The interval in force.
    pub interval: Duration,
    /// Whether the interval is longer than the wanted one.
    pub is_slowed: bool,
    /// The spool.
    pub spool: SpoolCounts,
    /// Receivers by name.
    pub receivers: Vec<(&'static str, DeliveryCounts)>,
    /// The last problem with a process or the spool.
    pub problem: Option<String>,
    /// Times that `/metrics` was read.
    pub scrapes: u64,
}

impl ProcessStatus {
    fn json(&self) -> Value {
        json!({
            "pid": self.pid,
            "program": self.program,
            "service": self.labels.service,
            "release": self.labels.release,
            "container": self.labels.container,
            "live_bytes": self.live_bytes,
            "resident_bytes": self.resident_bytes,
        })
    }
}

impl Status {
    /// The status file.
    #[must_use]
    pub fn json(&self) -> Value {
        let receivers = self.receivers.iter().map(|(name, counts)| {
            json!({
                "name": name,
                "sent": counts.sent,
                "rejected": counts.rejected,
                "unreadable": counts.unreadable,
                "failures": counts.failures,
                "problem": counts.problem,
            })
        });
        json!({
            "rounds": self.counts.rounds,
            "profiles": self.counts.profiles,
            "profile_bytes": self.counts.profile_bytes,
            "failures": self.counts.failures,
            "ended": self.counts.ended,
            "attached": self.counts.attached,
            "attach_failures": self.counts.attach_failures,
            "cpu": self.cost.cpu,
            "cpu_budget": self.budget.cpu,
            "cpu_seconds": self.cost.cpu_time.as_secs_f64(),
            "resident_bytes": self.cost.resident_bytes,
            "round_peak_resident_bytes": self.cost.round_peak_bytes,
            "peak_resident_bytes": self.cost.peak_bytes,
            "memory_budget_bytes": self.budget.memory_bytes,
            "over_budget": self.excess.map(|excess| match excess {
                Excess::Cpu => "cpu",
                Excess::Memory => "memory",
            }),
            "interval_seconds": self.interval.as_secs_f64(),
            "spool": {
                "batches": self.spool.batches,
                "bytes": self.spool.bytes,
                "dropped": self.spool.dropped,
            },
            "receivers": receivers.collect::<Vec<_>>(),
            "processes": self.processes.iter().map(ProcessStatus::json).collect::<Vec<_>>(),
            "problem": self.problem,
            "scrapes": self.scrapes,
        })
    }

    /// Writes the status file so that a reader finds it whole.
    pub(crate) fn write(&self, directory: &Path) -> io::Result<()> {
        let (path, temporary) = (directory.join("status.json"), directory.join("status.tmp"));
        create_temporary(&temporary)?.write_all(format!("{:#}\n", self.json()).as_bytes())?;
        fs::rename(&temporary, &path)
    }
}
