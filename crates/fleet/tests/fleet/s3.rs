//! A store in a bucket: moto's S3 server, from PyPI, on the loopback address.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};

use serde_json::Value;

use crate::harness::{Process, Scratch, Server, batch, fleet, output, simulated};

/// Starts a server with a bucket, prints its port, and ends with its input. A line of input prints
/// the number of objects and whether all of them are named by the manifest.
const SCRIPT: &str = r#"
import json, logging, sys
import boto3
from moto.server import ThreadedMotoServer
logging.getLogger("werkzeug").setLevel(logging.ERROR)
server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
port = server.get_host_and_port()[1]
client = boto3.client("s3", endpoint_url=f"http://127.0.0.1:{port}", region_name="us-east-1",
                      aws_access_key_id="key", aws_secret_access_key="secret")
client.create_bucket(Bucket="profiles")
print(port, flush=True)
for _ in sys.stdin:
    listed = client.list_objects_v2(Bucket="profiles", Prefix="fleet/").get("Contents", [])
    names = {each["Key"].removeprefix("fleet/") for each in listed} - {"manifest.json"}
    manifest = json.load(client.get_object(Bucket="profiles", Key="fleet/manifest.json")["Body"])
    listed = {segment["name"] for segment in manifest["segments"]}
    print(json.dumps({"missing": len(listed - names), "strays": len(names - listed)}), flush=True)
"#;

/// An S3 server that ends with the value.
struct Bucket {
    child: Child,
    input: Option<ChildStdin>,
    lines: std::io::Lines<BufReader<std::process::ChildStdout>>,
    endpoint: String,
}

impl Bucket {
    fn start() -> Self {
        let mut python = Command::new("python3");
        python.args(["-c", SCRIPT]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = python.spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let port = lines.by_ref().map(Result::unwrap).find_map(|line| line.parse::<u16>().ok());
        let endpoint = format!("http://127.0.0.1:{}", port.expect("moto prints its port"));
        let input = child.stdin.take();
        Self { child, input, lines, endpoint }
    }

    /// A command whose segments are in the bucket.
    fn fleet(&self, data: &Path) -> Command {
        let mut command = fleet(data);
        command.args(["--store", "s3://profiles/fleet", "--endpoint", &self.endpoint]);
        command.env("AWS_ACCESS_KEY_ID", "key").env("AWS_SECRET_ACCESS_KEY", "secret");
        command
    }

    fn serve(&self, data: &Path) -> Server {
        Server::start_command(self.fleet(data), &[])
    }

    fn one(&self, data: &Path, sql: &str) -> u64 {
        let text = output(self.fleet(data).args(["query", "--json", sql]));
        let rows: Value = serde_json::from_str(&text).unwrap();
        rows[0]["n"].as_u64().unwrap_or_else(|| panic!("{sql}: {text}"))
    }

    /// Objects that the manifest lacks, and segments that do not exist.
    fn compare(&mut self) -> Value {
        use std::io::Write;
        writeln!(self.input.as_mut().unwrap()).unwrap();
        serde_json::from_str(&self.lines.next().unwrap().unwrap()).unwrap()
    }
}

impl Drop for Bucket {
    fn drop(&mut self) {
        drop(self.input.take());
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn process(pid: u32) -> Vec<u8> {
    let process = Process { host: "h1", release: "1.0", pid };
    batch(&[process.at(0, None, "main;work;malloc 100 1\n")])
}

fn send(server: &Server, bytes: &[u8]) {
    let answer = Server::try_send(&server.url, bytes).expect("an answer");
    assert_eq!(answer["accepted"], 1, "{answer}");
}

#[test]
#[ignore = "needs moto, which `cargo xtask test` installs"]
fn a_bucket_keeps_what_servers_acknowledged() {
    let scratch = Scratch::new("bucket");
    let data = scratch.path();
    let mut bucket = Bucket::start();
    let entries = simulated();
    let server = bucket.serve(data);
    let answer = Server::try_send(&server.url, &batch(&entries)).expect("an answer");
    assert_eq!(answer["accepted"].as_u64(), Some(entries.len() as u64), "{answer}");
    // Killed before or after its flush.
    server.kill();
    let server = bucket.serve(data);
    server.wait_for_profiles(entries.len() as u64);
    let growth = server.get("/v1/ask/growth");
    assert!(growth.contains("cache_insert"), "{growth}");
    server.kill();

    assert_eq!(bucket.one(data, "SELECT count(DISTINCT profile_id) AS n FROM profiles"), 121);
    let growth = output(bucket.fleet(data).args(["growth"]));
    assert!(growth.lines().nth(1).is_some_and(|line| line.starts_with("cache_insert")), "{growth}");
    let listed = output(bucket.fleet(data).args(["files", "samples"]));
    assert!(
        listed.lines().all(|line| line.starts_with("s3://profiles/fleet/samples/2026-11-16/")),
        "{listed}"
    );
    let compared = bucket.compare();
    assert_eq!((&compared["missing"], &compared["strays"]), (&0.into(), &0.into()));
}

/// A second server takes the store over; the first one ends, and its log keeps what it
/// acknowledged for its next start.
#[test]
#[ignore = "needs moto, which `cargo xtask test` installs"]
fn one_server_writes_to_a_bucket() {
    let scratch = Scratch::new("two-servers");
    let (one, two) = (scratch.path().join("one"), scratch.path().join("two"));
    let mut bucket = Bucket::start();
    let first = bucket.serve(&one);
    send(&first, &process(1));
    first.wait_for_profiles(1);
    let second = bucket.serve(&two);
    send(&second, &process(2));
    // The first server has the manifest of before: its next flush must not replace the newer one.
    send(&first, &process(3));
    assert_eq!(first.wait_for_end(), Some(2));
    second.wait_for_profiles(2);
    second.kill();
    let third = bucket.serve(&one);
    third.wait_for_profiles(3);
    third.kill();
    assert_eq!(bucket.one(&one, "SELECT count(DISTINCT pid) AS n FROM profiles"), 3);
    assert_eq!(bucket.one(&one, "SELECT sum(inuse_bytes) AS n FROM samples"), 300);
    let compared = bucket.compare();
    assert_eq!((&compared["missing"], &compared["strays"]), (&0.into(), &0.into()));
}
