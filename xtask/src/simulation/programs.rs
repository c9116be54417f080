//! The programs of a host: redis, Python, Lua and SQLite, none of them written for this.

use std::io::Write;
use std::process::{Child, Command, Stdio};

use heapwise_testkit::failure::Failure;

/// What a program of a host is and does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Program {
    /// Name of its service.
    pub(crate) service: &'static str,
    /// Name of its executable.
    pub(crate) name: &'static str,
    arguments: &'static [&'static str],
    /// What it reads first. Its input stays open.
    input: &'static str,
    /// Whether it ends by itself and is started again.
    pub(crate) is_short: bool,
}

/// Placeholder for a port that no other program of the host has.
const PORT: &str = "PORT";
/// First of these ports.
const FIRST_PORT: usize = 10_000;

/// Two thirds of the programs of a host run until they are killed.
const LONG: [Program; 5] = [
    Program {
        service: "cache",
        name: "redis-server",
        arguments: &["--bind", "127.0.0.1", "--port", PORT, "--save", "", "--appendonly", "no"],
        input: "",
        is_short: false,
    },
    Program { service: "web", name: "python3", arguments: &["-c", STEADY], input: "", is_short: false },
    Program { service: "rules", name: "lua5.4", arguments: &["-e", TABLE], input: "", is_short: false },
    Program { service: "index", name: "sqlite3", arguments: &[":memory:"], input: ROWS, is_short: false },
    Program { service: "web", name: "python3", arguments: &["-c", STEADY], input: "", is_short: false },
];

/// The others end after a few seconds.
const SHORT: [Program; 3] = [
    Program { service: "job", name: "python3", arguments: &["-c", JOB], input: "", is_short: true },
    Program { service: "report", name: "lua5.4", arguments: &["-e", REPORT], input: "", is_short: true },
    Program { service: "batch", name: "sqlite3", arguments: &[":memory:", ROWS], input: "", is_short: true },
];

/// The Python program of the release that leaks.
pub(crate) const LEAKS: Program =
    Program { service: "web", name: "python3", arguments: &["-c", LEAK], input: "", is_short: false };

const STEADY: &str = "
import time
def handle_request(kept):
    kept.append(bytearray(65536))
    del kept[:-40]
def main():
    kept = []
    while True:
        handle_request(kept)
        time.sleep(0.5)
main()";
const LEAK: &str = "
import time
def remember_session(sessions):
    sessions.append(bytearray(262144))
def main():
    sessions = []
    while True:
        remember_session(sessions)
        time.sleep(0.5)
main()";
const JOB: &str = "
import os, time
lines = [str(number) * 50 for number in range(20000)]
time.sleep(1 + os.getpid() % 4)
if os.getpid() % 3 == 0:
    os.kill(os.getpid(), 9)";
const TABLE: &str = "local t = {} for i = 1, 20000 do t[i] = ('x'):rep(i % 64) .. i end io.read()";
const REPORT: &str = "local t = {} for i = 1, 50000 do t[i] = ('y'):rep(i % 99) .. i end";
const ROWS: &str = "CREATE TABLE t AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n \
    LIMIT 20000) SELECT i, hex(i) || hex(i * i) AS h FROM n; CREATE INDEX x ON t(h);\n";

impl Program {
    /// The program of a place: one in three is short.
    pub(crate) fn of_place(place: usize) -> Self {
        match place % 3 {
            2 => SHORT[place / 3 % SHORT.len()],
            _ => LONG[place / 3 % LONG.len()],
        }
    }

    /// Whether it has another form in the release that leaks.
    pub(crate) fn can_leak(&self) -> bool {
        self.arguments == ["-c", STEADY]
    }

    /// Starts it by a command that runs a program of this name. It is the `number`th of its host.
    pub(crate) fn start(
        &self,
        number: usize,
        command: impl FnOnce(&str) -> Command,
    ) -> Result<Child, Failure> {
        let mut command = command(self.name);
        let port = (FIRST_PORT + number).to_string();
        command.args(self.arguments.iter().map(|argument| if *argument == PORT { &port } else { *argument }));
        command.env("HEAPWISE_SERVICE", self.service);
        if self.is_short {
            command.env("HEAPWISE_CONF", "mode:sampled,rate:64K");
        }
        let child = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let mut child = child.map_err(|why| Failure::new(format!("{}: {why}", self.name)))?;
        if let Some(input) = &mut child.stdin {
            // A program that ended already reads nothing.
            let _ = input.write_all(self.input.as_bytes());
        }
        Ok(child)
    }
}
