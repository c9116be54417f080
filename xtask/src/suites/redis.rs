//! redis: a long fixed load whose data set is compared by its digest, and redis-benchmark's mix of
//! commands.

use std::fmt::Write as _;
use std::fs::File;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::{Stage, Suite, Under};
use heapwise_testkit::failure::Failure;

pub(super) const SUITE: Suite = Suite {
    name: "redis",
    packages: &[("/usr/bin/redis-server", "redis-server"), ("/usr/bin/redis-cli", "redis-tools")],
    is_short: false,
    run,
};

/// A server that ends with the suite.
struct Server {
    process: Child,
    socket: String,
}

impl Server {
    fn start(stage: &Stage, under: &Under<'_>) -> Result<Self, Failure> {
        let socket = stage.scratch.join("redis.sock").to_string_lossy().into_owned();
        let process = under
            .command("/usr/bin/redis-server")
            .args(["--port", "0", "--unixsocket", &socket, "--enable-debug-command", "yes", "--save", ""])
            // Old entries go, lists become large, a rewrite forks: allocator paths that short runs
            // miss.
            .args(["--appendonly", "yes", "--maxmemory-policy", "noeviction", "--activedefrag", "no"])
            .stdout(Stdio::null())
            .spawn()
            .map_err(|error| Failure::new(format!("redis-server: {error}")))?;
        let server = Self { process, socket };
        let deadline = Instant::now() + Duration::from_secs(30);
        while server.ask(&["ping"]) != "PONG\n" {
            if Instant::now() > deadline {
                return Err(Failure::new("redis-server does not answer"));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(server)
    }

    fn client(&self, program: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.args(["-s", &self.socket]).args(arguments).stderr(Stdio::null());
        command
    }

    fn ask(&self, question: &[&str]) -> String {
        let output = self.client("/usr/bin/redis-cli", question).output();
        output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.ask(&["shutdown", "nosave"]);
        let _ = self.process.wait();
    }
}

fn run(stage: &Stage, under: &Under<'_>) -> Result<Option<String>, Failure> {
    let script = stage.scratch.join("commands");
    std::fs::write(&script, commands(40_000)).map_err(|error| Failure::at(&script, error))?;
    let mut server = Server::start(stage, under)?;
    let mut verdicts = String::new();
    let input = File::open(&script).map_err(|error| Failure::at(&script, error))?;
    let loaded = server.client("/usr/bin/redis-cli", &[]).stdin(input).stdout(Stdio::null()).status();
    let _ = writeln!(verdicts, "load {}", loaded.is_ok_and(|status| status.success()));
    let _ = writeln!(verdicts, "digest {}", server.ask(&["debug", "digest"]));
    server.ask(&["bgrewriteaof"]);
    server.ask(&["debug", "reload"]);
    let _ = writeln!(verdicts, "digest after reload {}", server.ask(&["debug", "digest"]));
    let mix = ["-q", "-n", "30000", "-r", "10000", "-d", "200", "-P", "16"];
    let output = server.client("/usr/bin/redis-benchmark", &mix).output();
    let printed =
        output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    for line in printed.replace('\r', "\n").lines().filter(|line| line.contains("requests per second")) {
        let _ = writeln!(verdicts, "benchmark {}", line.split(':').next().unwrap_or_default());
    }
    let _ = writeln!(verdicts, "answers {}", server.ask(&["ping"]));
    server.ask(&["shutdown", "nosave"]);
    let status = server.process.wait().map_err(|error| Failure::new(format!("redis-server: {error}")))?;
    let _ = writeln!(verdicts, "{status}");
    Ok(Some(verdicts))
}

/// Every type, growing, shrinking and deleted; the same at every run.
fn commands(rounds: u32) -> String {
    let mut script = String::new();
    for i in 0..rounds {
        let (k, v) = (i * 7919 % 4999, "x".repeat((i * 31 % 400) as usize + 1));
        let _ = match i % 9 {
            0 => writeln!(script, "set s{k} {v}"),
            1 => writeln!(script, "append s{k} {v}"),
            2 => writeln!(script, "rpush l{} {v} {i}", k % 97),
            3 => writeln!(script, "hset h{} f{i} {v}", k % 89),
            4 => writeln!(script, "sadd t{} {i} m{k}", k % 83),
            5 => writeln!(script, "zadd z{} {} m{i}", k % 79, k),
            6 => writeln!(script, "xadd x{} {}-1 f {v}", k % 73, i + 1),
            7 => writeln!(script, "ltrim l{} 0 50", k % 97),
            _ => writeln!(script, "del s{} h{}", k / 2, k % 501),
        };
    }
    script
}
