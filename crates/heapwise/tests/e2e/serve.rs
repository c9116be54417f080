//! The server, used by the tools that know its addresses.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::harness::Scratch;

/// A running server.
pub struct Server {
    pub child: Child,
    /// `127.0.0.1:PORT`.
    pub address: String,
    pub token: String,
}

impl Server {
    pub fn start(scratch: &Scratch, targets: &[&str]) -> Self {
        let mut child = scratch
            .heapwise(&["serve", "--nice", "0", "--port", "0", "--profile-dir", "kept"])
            .args(targets)
            .stderr(Stdio::piped())
            .spawn()
            .expect("heapwise starts");
        let mut lines = BufReader::new(child.stderr.take().expect("piped")).lines();
        let mut after = |words: &str| {
            let line =
                lines.by_ref().map_while(Result::ok).find(|line| line.contains(words)).expect("announced");
            line.rsplit(' ').next().expect("a word").to_owned()
        };
        let address = after("serving at").trim_start_matches("http://").trim_end_matches('/').to_owned();
        let token = after("token for changes");
        Self { child, address, token }
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Sends these bytes; the whole response.
    pub fn send(&self, bytes: &[u8]) -> String {
        let mut stream = TcpStream::connect(&self.address).expect("listening");
        stream.set_read_timeout(Some(Duration::from_secs(120))).expect("settable");
        let _ = stream.write_all(bytes);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8_lossy(&answer).into_owned()
    }

    pub fn get(&self, path: &str) -> String {
        self.send(
            format!("GET {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", self.address).as_bytes(),
        )
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn run(command: &mut Command) -> String {
    let output = command.output().expect("the witness is installed");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {stderr}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// `leaky` with 3000 rounds holds 3000 nodes of 112 bytes in `w_hold` and about as much in
/// `w_lose`.
fn served() -> (Scratch, Server) {
    let scratch = Scratch::new();
    let capture = scratch.capture(&["--exact"], "leaky", &["3000"]);
    let profile = capture.profile.to_str().expect("UTF-8").to_owned();
    let server = Server::start(&scratch, &[&profile]);
    (scratch, server)
}

#[test]
#[ignore = "needs jeprof"]
fn jeprof_fetches_profile_and_symbols() {
    let (scratch, server) = served();
    let home = scratch.path("");
    let text = run(Command::new("jeprof")
        .args(["--text", "--show_bytes", &server.url("/pprof/heap")])
        .env("HOME", &home));
    assert!(text.contains("w_hold") && text.contains("main"), "{text}");
    let collapsed = run(Command::new("jeprof")
        .args(["--collapsed", &server.url("/p/leaky.heap/pprof/heap")])
        .env("HOME", &home));
    let held = collapsed.lines().find(|line| line.contains("w_hold")).expect("the site is there");
    assert!(held.ends_with(" 336000"), "{held}");
}

#[test]
#[ignore = "needs google-pprof"]
fn google_pprof_fetches_both_profiles() {
    let (scratch, server) = served();
    for address in ["/pprof/heap", "/pprof/growth", "/gperftools/pprof/heap"] {
        let text = run(Command::new("google-pprof")
            .args(["--text", "--show_bytes", "--cum", &server.url(address)])
            .env("HOME", scratch.path("")));
        let held = text.lines().find(|line| line.ends_with("w_hold")).expect("the site is there");
        assert!(held.contains(" 336000 "), "{address}: {text}");
    }
}

#[test]
#[ignore = "needs go"]
fn go_tool_pprof_reads_both_profiles() {
    let (scratch, server) = served();
    let pprof = |path: &str, more: &[&str]| {
        let mut command = Command::new("go");
        command.args(["tool", "pprof", "-top", "-unit=B"]).args(more).arg(server.url(path));
        run(command.env("PPROF_TMPDIR", scratch.path("")))
    };
    // brpc's addresses serve the form that Go's client reads, too.
    for address in ["/debug/pprof/heap", "/pprof/heap", "/pprof/growth"] {
        let heap = pprof(address, &["-cum"]);
        let held = heap.lines().find(|line| line.contains(" w_hold")).expect(&heap);
        assert!(heap.contains("space") && held.contains(" 336000B "), "{address}: {heap}");
    }
    let allocs = pprof("/debug/pprof/allocs", &[]);
    assert!(allocs.contains("Type: alloc_space"), "{allocs}");
}

#[test]
fn brpc_displays_and_options_work() {
    let (_scratch, server) = served();
    let text = server.get("/pprof/heap?display=text&extra_options=show_bytes,inuse_objects");
    assert!(text.contains("Total: ") && text.contains(" objects"), "{text}");
    assert!(server.get("/pprof/heap?display=svg").contains("<svg"));
    assert!(server.get("/pprof/heap?display=flamegraph").contains("image/svg+xml"));
    let wrong = server.get("/pprof/heap?display=nonsense");
    assert!(wrong.starts_with("HTTP/1.1 400") && wrong.contains("display:nonsense invalid"), "{wrong}");
    assert!(server.get("/pprof/growth?display=text").contains("Total: "));
    let dot = server.get("/hotspots/heap_non_responsive?console=1");
    assert!(dot.contains("leaky.heap[addToProfEnd]digraph"), "{dot}");
    let page = server.send(
        format!("GET /hotspots/heap?display_type=flame HTTP/1.1\r\nHost: {}\r\nUser-Agent: Mozilla/5.0\r\nConnection: close\r\n\r\n", server.address)
            .as_bytes(),
    );
    assert!(page.contains("Location: /s/leaky.heap/flame"), "{page}");
}

#[test]
fn changes_need_post_and_token_and_foreign_pages_get_nothing() {
    let (_scratch, server) = served();
    let post = |extra: &str| {
        server.send(
            format!(
                "POST /api/v1/sources/leaky.heap/control HTTP/1.1\r\nHost: {}\r\n{extra}Content-Length: 11\r\nConnection: close\r\n\r\naction=stop",
                server.address
            )
            .as_bytes(),
        )
    };
    assert!(post("").starts_with("HTTP/1.1 403"));
    let token = format!("X-Heapwise-Token: {}\r\n", server.token);
    // A file cannot be controlled, but the request got that far.
    assert!(post(&token).starts_with("HTTP/1.1 400"));
    assert!(post(&format!("{token}Origin: http://evil.example\r\n")).starts_with("HTTP/1.1 403"));
    let rebound = server.send(b"GET / HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n");
    assert!(rebound.starts_with("HTTP/1.1 403") && !rebound.contains(&server.token), "{rebound}");
}

#[test]
#[ignore = "needs curl"]
fn answers_are_packed_and_sent_again_only_when_changed() {
    let (scratch, server) = served();
    let url = server.url("/p/leaky.heap/pprof/heap?display=svg");
    let plain = run(Command::new("curl").args(["-sf", &url]));
    let packed = run(Command::new("curl").args(["-sf", "--compressed", "-D", "-", &url]));
    assert!(packed.to_lowercase().contains("content-encoding: gzip") && packed.ends_with(&plain), "{packed}");
    let tag = scratch.path("tag").display().to_string();
    let status = |option: &str| {
        run(Command::new("curl").args([
            "-s",
            "-o",
            "-",
            "-w",
            "%{http_code} %{size_download}",
            option,
            &tag,
            &url,
        ]))
    };
    assert!(status("--etag-save").ends_with(&format!("200 {}", plain.len())));
    assert_eq!(status("--etag-compare"), "304 0");
}
