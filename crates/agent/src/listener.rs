//! A small HTTP listener for `/metrics`.
//!
//! One thread, one request per connection, bounded in time and size: its clients are a Prometheus
//! server and people with curl.

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::metrics;
use crate::status::Status;

/// Most that is read of a request; its head is all that matters.
const MOST_REQUEST: usize = 8 << 10;
/// Time for a request and its answer.
const LIMIT: Duration = Duration::from_secs(5);

/// Binds the address and answers in a thread until the process ends; the address with its port.
///
/// # Errors
/// Those of binding.
pub(crate) fn start(address: SocketAddr, status: Arc<Mutex<Status>>) -> io::Result<SocketAddr> {
    let listener = TcpListener::bind(address)?;
    let bound = listener.local_addr()?;
    thread::Builder::new().name("metrics".into()).spawn(move || {
        for stream in listener.incoming() {
            match stream {
                // A client that is gone needs no answer.
                Ok(stream) => drop(answer(stream, &status)),
                // Out of descriptors, for a time.
                Err(_) => thread::sleep(Duration::from_millis(50)),
            }
        }
    })?;
    Ok(bound)
}

fn answer(mut stream: TcpStream, status: &Mutex<Status>) -> io::Result<()> {
    let deadline = Instant::now() + LIMIT;
    let mut request = Vec::new();
    while !request.windows(4).any(|end| end == b"\r\n\r\n") && request.len() < MOST_REQUEST {
        let left = deadline.saturating_duration_since(Instant::now());
        stream.set_read_timeout(Some(left.max(Duration::from_millis(1))))?;
        let mut chunk = [0; 1024];
        match stream.read(&mut chunk)? {
            0 => return Ok(()),
            length => request.extend_from_slice(&chunk[..length]),
        }
        if left.is_zero() {
            return Ok(());
        }
    }
    stream.set_write_timeout(Some(LIMIT))?;
    stream.write_all(&respond(&request, status))
}

fn respond(request: &[u8], status: &Mutex<Status>) -> Vec<u8> {
    let line = request.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let line = String::from_utf8_lossy(line).into_owned();
    let mut words = line.split(' ');
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let path = path.split('?').next().unwrap_or_default();
    let mut status = status.lock().unwrap_or_else(PoisonError::into_inner);
    status.scrapes += u64::from(path == "/metrics");
    let status = status.clone();
    let (code, kind, body) = match (method, path) {
        ("GET" | "HEAD", "/metrics") => ("200 OK", metrics::CONTENT_TYPE, metrics::page(&status)),
        ("GET" | "HEAD", "/status") => ("200 OK", "application/json", format!("{:#}\n", status.json())),
        ("GET" | "HEAD", _) => ("404 Not Found", "text/plain", "see /metrics and /status\n".to_owned()),
        _ => ("405 Method Not Allowed", "text/plain", "only GET\n".to_owned()),
    };
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {code}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
    );
    let body = if method == "HEAD" { String::new() } else { body };
    (head + &body).into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(address: SocketAddr, request: &[u8]) -> String {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(request).unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    }

    #[test]
    fn metrics_and_status_are_served() {
        let status = Arc::new(Mutex::new(crate::metrics::tests::sample_status()));
        let address = start(SocketAddr::from(([127, 0, 0, 1], 0)), status).unwrap();
        let page = ask(address, b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n");
        assert!(page.starts_with("HTTP/1.1 200 OK\r\n") && page.contains("\nheapwise_agent_processes 2\n"));
        let json = ask(address, b"GET /status?x HTTP/1.1\r\n\r\n");
        let (_, body) = json.split_once("\r\n\r\n").unwrap();
        let json: serde_json::Value = serde_json::from_str(body).unwrap();
        assert_eq!(json["processes"].as_array().map(Vec::len), Some(2));
        assert!(ask(address, b"GET / HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404"));
        assert!(ask(address, b"POST /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 405"));
        let head = ask(address, b"HEAD /metrics HTTP/1.1\r\n\r\n");
        assert!(head.ends_with("\r\n\r\n"), "{head}");
        assert!(ask(address, &[b'a'; MOST_REQUEST]).starts_with("HTTP/1.1 405"));
    }
}
