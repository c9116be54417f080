//! Rounds of attach and detach on programs that nobody here wrote. `--nocapture` prints how long
//! their threads were stopped.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::attach::{Running, attach, detach};
use crate::harness::Scratch;

/// Milliseconds that the threads of a process were stopped, as `attach` says.
fn stop_of(said: &str) -> f64 {
    let time = said.split("stopped for ").nth(1).and_then(|rest| rest.split(' ').next());
    time.and_then(|time| time.parse().ok()).expect("a time")
}

fn report(program: &str, mut stops: Vec<f64>) {
    stops.sort_by(f64::total_cmp);
    let part = |share: usize| stops[(stops.len() - 1) * share / 100];
    println!(
        "{program}: {} rounds, stopped for {} ms (median), {} (9 of 10), {} (worst)",
        stops.len(),
        part(50),
        part(90),
        part(100)
    );
}

/// Rounds on a program that does what `allocates_when_told` does: it works attached and detached,
/// and its code is what it was.
fn rounds_on(program: &str, command: &mut Command, scratch: &Scratch, count: usize) {
    let mut told = Running::of(command);
    told.allocate(10);
    let (pid, before) = (told.pid(), told.code());
    let mut stops = Vec::new();
    for _ in 0..count {
        stops.push(stop_of(&attach(scratch, &pid)));
        told.allocate(50);
        detach(scratch, &pid);
        told.allocate(5);
    }
    assert!(told.code() == before, "every byte is restored");
    report(program, stops);
    told.end();
}

const PYTHON: &str = "import sys\nfor line in sys.stdin:\n    l = [bytearray(2000) for _ in range(int(line))]\n    \
                      print('allocated', line.strip(), flush=True)\n";

#[test]
#[ignore = "200 rounds"]
fn two_hundred_rounds_on_python() {
    let scratch = Scratch::new();
    let mut python = scratch.command("/usr/bin/python3");
    rounds_on("python3", python.args(["-c", PYTHON]), &scratch, 200);
}

const NODE: &str = "require('readline').createInterface({input: process.stdin}).on('line', line => { \
                    const l = []; for (let i = 0; i < +line; i++) l.push(Buffer.allocUnsafeSlow(2000)); \
                    console.log('allocated ' + line); });";

#[test]
#[ignore = "200 rounds"]
fn two_hundred_rounds_on_node() {
    let scratch = Scratch::new();
    rounds_on("node", scratch.command("/usr/bin/node").args(["-e", NODE]), &scratch, 200);
}

const JAVA: &str = "import java.io.*; import java.nio.ByteBuffer; import java.util.*; \
    public class Told { public static void main(String[] a) throws IOException { \
    BufferedReader in = new BufferedReader(new InputStreamReader(System.in)); String line; \
    while ((line = in.readLine()) != null) { List<ByteBuffer> l = new ArrayList<>(); \
    for (int i = 0; i < Integer.parseInt(line); i++) l.add(ByteBuffer.allocateDirect(2000)); \
    System.out.println(\"allocated \" + line); System.out.flush(); } } }";

#[test]
#[ignore = "200 rounds"]
fn two_hundred_rounds_on_java() {
    let scratch = Scratch::new();
    std::fs::write(scratch.path("Told.java"), JAVA).expect("written");
    let mut java = scratch.command("/usr/bin/java");
    rounds_on("java", java.args(["-Xmx64m", "Told.java"]), &scratch, 200);
}

/// A Java virtual machine that has touched all of its heap: the heap is a line of its own, although
/// it was mapped before the attach.
#[test]
#[ignore = "needs java"]
fn the_heap_of_java_is_a_line() {
    const HEAP_BYTES: i64 = 64 << 20;
    let scratch = Scratch::new();
    std::fs::write(scratch.path("Told.java"), JAVA).expect("written");
    let mut java = scratch.command("/usr/bin/java");
    // A shared archive would be a mapped file inside the heap.
    let options = ["-Xms64m", "-Xmx64m", "-XX:+AlwaysPreTouch", "-Xshare:off", "Told.java"];
    let mut java = Running::of(java.args(options));
    java.allocate(10);
    let pid = java.pid();
    attach(&scratch, &pid);
    let ledger = scratch.json_of(&["stats", "--json", &pid])[0]["ledger"].clone();
    let mut lines = ledger["lines"].as_array().expect("lines").iter();
    let heap = lines.find(|line| line["name"] == "JVM heap").expect("a line");
    assert_eq!(heap["bytes"].as_i64(), Some(HEAP_BYTES), "{ledger}");
    java.end();
}

#[test]
#[ignore = "200 rounds"]
fn two_hundred_rounds_on_nginx() {
    let scratch = Scratch::new();
    let folder = scratch.path("");
    let folder = folder.to_str().expect("UTF-8");
    let configuration = format!(
        "daemon off; master_process off; pid {folder}/pid; error_log stderr crit; events {{}} \
         http {{ access_log off; client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; \
         fastcgi_temp_path {folder}/fastcgi; uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi; \
         server {{ listen unix:{folder}/nginx.sock; return 200 served; }} }}"
    );
    std::fs::write(scratch.path("nginx.conf"), configuration).expect("written");
    let mut server = scratch.command("/usr/sbin/nginx");
    let mut server = Running::of(server.arg("-p").arg(folder).args(["-c", "nginx.conf"]));
    let mut request = || {
        let mut stream = loop {
            assert!(server.is_alive());
            if let Ok(stream) = UnixStream::connect(scratch.path("nginx.sock")) {
                break stream;
            }
        };
        stream.write_all(b"GET / HTTP/1.0\r\n\r\n").expect("sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        assert!(answer.ends_with("served"), "{answer}");
        server.pid()
    };
    let pid = request();
    let mut stops = Vec::new();
    for _ in 0..200 {
        stops.push(stop_of(&attach(&scratch, &pid)));
        request();
        detach(&scratch, &pid);
        request();
    }
    report("nginx", stops);
}

/// redis under load: no error, and the same answers.
fn redis_rounds(count: usize) {
    let scratch = Scratch::new();
    let socket = scratch.path("redis.sock");
    let mut server = scratch.command(Path::new("/usr/bin/redis-server"));
    server.args(["--port", "0", "--save", "", "--appendonly", "no", "--unixsocket"]).arg(&socket);
    let mut server = Running::of(&mut server);
    while !socket.exists() {
        assert!(server.is_alive());
        std::thread::yield_now();
    }
    let mut load = scratch.command(Path::new("/usr/bin/redis-benchmark"));
    load.arg("-s").arg(&socket).args([
        "-q",
        "-l",
        "-t",
        "set,get,lpush",
        "-d",
        "100",
        "-r",
        "10000",
        "-c",
        "20",
    ]);
    let mut load = load.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("a load");
    let (pid, before) = (server.pid(), server.code());
    let mut stops = Vec::new();
    for round in 0..count {
        stops.push(stop_of(&attach(&scratch, &pid)));
        detach(&scratch, &pid);
        assert!(server.is_alive() && load.try_wait().expect("waited").is_none(), "round {round}");
    }
    report("redis", stops);
    assert!(server.code() == before, "every byte is restored");
    let _ = load.kill();
    let _ = load.wait();
    let mut client = scratch.command(Path::new("/usr/bin/redis-cli"));
    let answer = client.arg("-s").arg(&socket).arg("ping").output().expect("redis-cli runs");
    assert_eq!(answer.stdout, b"PONG\n");
}

#[test]
#[ignore = "needs redis"]
fn redis_under_load_is_attached() {
    redis_rounds(5);
}

#[test]
#[ignore = "1000 rounds"]
fn a_thousand_rounds_on_redis() {
    redis_rounds(1000);
}
