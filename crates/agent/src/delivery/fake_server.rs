//! A server for tests that follows a script, request by request.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};
use std::thread;

/// What the server does with a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reply {
    /// It answers with this status.
    Status(u16),
    /// It closes the connection without an answer.
    Close,
    /// It keeps the connection and says nothing.
    Stall,
}

/// A request that the server has read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) line: String,
    pub(super) body: Vec<u8>,
}

/// The server; its requests arrive at `seen`.
pub(super) struct FakeServer {
    pub(super) address: SocketAddr,
    pub(super) seen: Receiver<Seen>,
}

impl FakeServer {
    /// Replies by the script; the last reply is repeated for ever.
    pub(super) fn start(script: &[Reply]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (sender, seen) = channel();
        let script = script.to_vec();
        thread::spawn(move || {
            let mut stalled = Vec::new();
            for (number, stream) in listener.incoming().enumerate() {
                let reply = script[number.min(script.len() - 1)];
                let mut stream = stream.unwrap();
                let Some(request) = read(&stream) else { continue };
                if sender.send(request).is_err() {
                    return;
                }
                match reply {
                    Reply::Status(status) => {
                        let answer = format!(
                            "HTTP/1.1 {status} x\r\nContent-Length: 3\r\nConnection: close\r\n\r\nwhy"
                        );
                        let _ = stream.write_all(answer.as_bytes());
                    }
                    Reply::Close => {}
                    Reply::Stall => stalled.push(stream),
                }
            }
        });
        Self { address, seen }
    }
}

fn read(stream: &TcpStream) -> Option<Seen> {
    let mut input = BufReader::new(stream);
    let (mut line, mut length) = (String::new(), 0);
    input.read_line(&mut line).ok()?;
    loop {
        let mut header = String::new();
        input.read_line(&mut header).ok()?;
        if header.trim().is_empty() {
            break;
        }
        if let Some(value) = header.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
    }
    let mut body = vec![0; length];
    input.read_exact(&mut body).ok()?;
    Some(Seen { line: line.trim_end().to_owned(), body })
}
