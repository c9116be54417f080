//! Unary gRPC calls over HTTP/2 without TLS.
//!
//! Written by hand because the maintained HTTP/2 crates bring an async runtime. A call needs one
//! stream of one connection: frames ([`frame`]), header blocks ([`hpack`]) and flow control.

pub(crate) mod frame;
pub(crate) mod hpack;

use std::io::{self, BufReader};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

use frame::{Frame, MOST_PAYLOAD, PREFACE, flag, kind, setting};

/// The only stream of a connection.
const STREAM: u32 = 1;
/// Window of a stream and of a connection until SETTINGS or WINDOW_UPDATE change it.
const FIRST_WINDOW: i64 = 65_535;
/// Largest response that is read. Responses of receivers are empty or one line of text.
const MOST_RESPONSE: usize = 1 << 20;

/// The answer of a server: a gRPC status and, for an error, its message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Status {
    pub(crate) code: u32,
    pub(crate) message: String,
    /// The response; empty unless `code` is 0.
    pub(crate) response: Vec<u8>,
}

/// A method of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Method {
    /// `HOST:PORT`.
    pub(crate) authority: String,
    /// `/package.Service/Method`.
    pub(crate) path: &'static str,
    /// Further headers, in lower case.
    pub(crate) headers: Vec<(String, String)>,
}

impl Method {
    /// Calls the method; errors are those of the network and of the protocol.
    pub(crate) fn call(&self, request: &[u8], limit: Duration) -> io::Result<Status> {
        let deadline = Instant::now() + limit;
        let stream = connect(&self.authority, limit)?;
        let mut connection = Connection {
            input: BufReader::new(stream),
            deadline,
            windows: Windows { connection: FIRST_WINDOW, stream: FIRST_WINDOW, initial: FIRST_WINDOW },
            answer: Answer::default(),
        };
        connection.send_head(self)?;
        connection.send_message(request)?;
        while !connection.answer.is_complete {
            connection.receive()?;
        }
        connection.answer.status()
    }
}

fn connect(authority: &str, limit: Duration) -> io::Result<TcpStream> {
    let mut last = io::Error::other("the name has no address");
    for address in authority.to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, limit) {
            Ok(stream) => {
                stream.set_nodelay(true)?;
                return Ok(stream);
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Bytes of DATA that the server accepts at present.
struct Windows {
    connection: i64,
    stream: i64,
    /// What the server's SETTINGS gave to new streams.
    initial: i64,
}

/// What was received of the response.
#[derive(Default)]
struct Answer {
    /// A header block that continues in further frames.
    block: Vec<u8>,
    headers: Vec<hpack::Field>,
    body: Vec<u8>,
    /// The server sends nothing but the rest of a header block.
    is_ended: bool,
    is_complete: bool,
}

struct Connection {
    input: BufReader<TcpStream>,
    deadline: Instant,
    windows: Windows,
    answer: Answer,
}

impl Connection {
    /// Limits the next wait to the remaining time of the call.
    fn limit(&self) -> io::Result<()> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.input.get_ref().set_read_timeout(Some(left))?;
        self.input.get_ref().set_write_timeout(Some(left))
    }

    fn send(&mut self, frame: &Frame) -> io::Result<()> {
        self.limit()?;
        frame.write(self.input.get_mut())
    }

    fn send_head(&mut self, method: &Method) -> io::Result<()> {
        self.limit()?;
        io::Write::write_all(self.input.get_mut(), PREFACE)?;
        self.send(&Frame::settings(&[(setting::HEADER_TABLE_SIZE, 0), (setting::ENABLE_PUSH, 0)]))?;
        let mut block = Vec::new();
        let fixed = [
            (":method", "POST"),
            (":scheme", "http"),
            (":path", method.path),
            (":authority", &method.authority),
            ("content-type", "application/grpc"),
            ("te", "trailers"),
            ("user-agent", concat!("heapwise/", env!("CARGO_PKG_VERSION"))),
        ];
        fixed.iter().for_each(|(name, value)| hpack::encode(name, value, &mut block));
        method.headers.iter().for_each(|(name, value)| hpack::encode(name, value, &mut block));
        if block.len() > MOST_PAYLOAD {
            return Err(io::Error::other("the headers are too long"));
        }
        self.send(&Frame::new(kind::HEADERS, flag::END_HEADERS, STREAM, block))
    }

    /// Sends the message with its prefix of five bytes, as fast as the windows allow.
    fn send_message(&mut self, message: &[u8]) -> io::Result<()> {
        let length = u32::try_from(message.len()).map_err(|_| io::Error::other("the message is too long"))?;
        let message = [&[0][..], &length.to_be_bytes(), message].concat();
        let mut rest = &message[..];
        while !rest.is_empty() {
            // A server may answer before it has read everything.
            if self.answer.is_complete {
                return Ok(());
            }
            let window = self.windows.connection.min(self.windows.stream);
            if window <= 0 {
                self.receive()?;
                continue;
            }
            let (now, later) = rest.split_at(rest.len().min(MOST_PAYLOAD).min(window as usize));
            let flags = if later.is_empty() { flag::END_STREAM } else { 0 };
            self.send(&Frame::new(kind::DATA, flags, STREAM, now.to_vec()))?;
            self.windows.connection -= now.len() as i64;
            self.windows.stream -= now.len() as i64;
            rest = later;
        }
        Ok(())
    }

    /// Reads one frame and acts on it.
    fn receive(&mut self) -> io::Result<()> {
        self.limit()?;
        let frame = Frame::read(&mut self.input)?;
        match frame.kind {
            kind::SETTINGS if !frame.has(flag::ACK) => {
                self.apply(&frame);
                self.send(&Frame::new(kind::SETTINGS, flag::ACK, 0, Vec::new()))
            }
            kind::PING if !frame.has(flag::ACK) => {
                self.send(&Frame::new(kind::PING, flag::ACK, 0, frame.payload))
            }
            kind::WINDOW_UPDATE => {
                let window =
                    if frame.stream == 0 { &mut self.windows.connection } else { &mut self.windows.stream };
                *window += i64::from(frame.number() & 0x7fff_ffff);
                Ok(())
            }
            kind::RST_STREAM if frame.stream == STREAM && !self.answer.is_complete => {
                Err(io::Error::other(format!("the server reset the stream (error {})", frame.number())))
            }
            kind::GOAWAY => Err(io::Error::other("the server closes the connection")),
            kind::DATA | kind::HEADERS | kind::CONTINUATION if frame.stream == STREAM => {
                let read = frame.payload.len() as u32;
                self.answer.add(&frame)?;
                if frame.kind == kind::DATA && read > 0 && !self.answer.is_complete {
                    self.send(&Frame::window_update(0, read))?;
                    self.send(&Frame::window_update(STREAM, read))?;
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn apply(&mut self, settings: &Frame) {
        for (name, value) in settings.parameters() {
            // Our frames never exceed the smallest limit that a server may set.
            debug_assert!(name != setting::MAX_FRAME_SIZE || value as usize >= MOST_PAYLOAD);
            if name == setting::INITIAL_WINDOW_SIZE {
                self.windows.stream += i64::from(value) - self.windows.initial;
                self.windows.initial = i64::from(value);
            }
        }
    }
}

impl Answer {
    fn add(&mut self, frame: &Frame) -> io::Result<()> {
        if frame.kind == kind::DATA {
            self.body.extend_from_slice(frame.content()?);
        } else {
            let content = if frame.kind == kind::HEADERS { frame.content()? } else { &frame.payload };
            self.block.extend_from_slice(content);
        }
        if self.block.len() + self.body.len() > MOST_RESPONSE {
            return Err(io::Error::other("the response is too long"));
        }
        if frame.kind != kind::DATA && frame.has(flag::END_HEADERS) {
            let block = std::mem::take(&mut self.block);
            let fields = hpack::decode(&block).map_err(|_| io::Error::other("malformed headers"))?;
            self.headers.extend(fields);
        }
        self.is_ended |= frame.kind != kind::CONTINUATION && frame.has(flag::END_STREAM);
        self.is_complete = self.is_ended && (frame.kind == kind::DATA || frame.has(flag::END_HEADERS));
        Ok(())
    }

    /// The status: of the trailers, or of the headers of a response without a body.
    fn status(self) -> io::Result<Status> {
        let header =
            |name: &str| self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| &**value);
        let Some(code) = header("grpc-status").and_then(|code| code.parse().ok()) else {
            let http = header(":status").unwrap_or("no status");
            return Err(io::Error::other(format!("the answer is not gRPC's (HTTP {http})")));
        };
        let message = header("grpc-message").unwrap_or_default().to_owned();
        let response = self.body.get(5..).unwrap_or_default().to_vec();
        Ok(Status { code, message, response })
    }
}

#[cfg(test)]
mod tests;
