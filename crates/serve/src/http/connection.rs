//! One connection: requests in, responses out, until either side closes or a limit is reached.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use super::{Limits, Method, Negotiation, Request, Response, Status};

/// A byte stream with a time limit on each read and write.
pub(crate) trait Stream: Read + Write + Send {
    /// Limits the wait of every later read and write.
    fn limit(&self, wait: Duration) -> io::Result<()>;
}

impl Stream for TcpStream {
    fn limit(&self, wait: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(wait))?;
        self.set_write_timeout(Some(wait))
    }
}

impl Stream for UnixStream {
    fn limit(&self, wait: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(wait))?;
        self.set_write_timeout(Some(wait))
    }
}

/// Why no request came.
enum Stop {
    /// The client is gone or silent; nothing to answer.
    Closed,
    /// The request is not acceptable.
    Refused(Status),
}

/// Serves a connection until it ends. IO errors end it silently: the client is gone.
pub(crate) fn serve(stream: &mut dyn Stream, limits: &Limits, handle: &dyn Fn(&Request) -> Response) {
    let mut buffer = Vec::new();
    loop {
        match read_request(stream, &mut buffer, limits) {
            Ok((request, keep)) => {
                let response = handle(&request);
                let mut out = io::BufWriter::with_capacity(64 << 10, &mut *stream);
                if response.write(&mut out, &Negotiation::of(&request, keep)).is_err() || !keep {
                    return;
                }
            }
            Err(Stop::Closed) => return,
            Err(Stop::Refused(status)) => {
                let _ =
                    Response::error(status, status.line()).write(&mut &mut *stream, &Negotiation::default());
                return;
            }
        }
    }
}

/// Reads one request; `buffer` keeps what the client sent beyond it.
fn read_request(
    stream: &mut dyn Stream,
    buffer: &mut Vec<u8>,
    limits: &Limits,
) -> Result<(Request, bool), Stop> {
    let mut started = (!buffer.is_empty()).then(Instant::now);
    loop {
        if !buffer.is_empty()
            && let Some(head) = parse_head(buffer, limits)?
        {
            return read_body(stream, buffer, head, limits, started.unwrap_or_else(Instant::now));
        }
        if buffer.len() > limits.head_bytes {
            return Err(Stop::Refused(Status::HeadTooLarge));
        }
        stream
            .limit(if started.is_none() { limits.idle } else { limits.io_wait })
            .map_err(|_| Stop::Closed)?;
        fill(stream, buffer, started, limits)?;
        started.get_or_insert_with(Instant::now);
    }
}

struct Head {
    request: Request,
    /// Where the body starts in the buffer.
    body_at: usize,
    body_bytes: usize,
    keep: bool,
    expects_continue: bool,
}

fn parse_head(buffer: &[u8], limits: &Limits) -> Result<Option<Head>, Stop> {
    let refused = |status| Stop::Refused(status);
    let mut headers = vec![httparse::EMPTY_HEADER; limits.headers];
    let mut parsed = httparse::Request::new(&mut headers);
    let body_at = match parsed.parse(&buffer[..buffer.len().min(limits.head_bytes)]) {
        Ok(httparse::Status::Complete(length)) => length,
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(httparse::Error::TooManyHeaders) => return Err(refused(Status::HeadTooLarge)),
        Err(_) => return Err(refused(Status::BadRequest)),
    };
    let method = Method::parse(parsed.method.unwrap_or_default()).map_err(refused)?;
    let mut request = Request::new(method, parsed.path.unwrap_or_default()).map_err(refused)?;
    for header in parsed.headers.iter() {
        let value = String::from_utf8_lossy(header.value).trim().to_owned();
        request.headers.push((header.name.to_ascii_lowercase(), value));
    }
    let body_bytes = body_length(&request, limits).map_err(refused)?;
    let asked = request.header("connection").unwrap_or_default().to_ascii_lowercase();
    let keep =
        if parsed.version == Some(1) { !asked.contains("close") } else { asked.contains("keep-alive") };
    let expects_continue = request.header("expect").is_some();
    Ok(Some(Head { request, body_at, body_bytes, keep, expects_continue }))
}

/// The announced length of the body. Two different lengths, or a transfer coding, would let two
/// readers of one stream disagree about where the next request starts: refused.
fn body_length(request: &Request, limits: &Limits) -> Result<usize, Status> {
    if request.header("transfer-encoding").is_some() {
        return Err(Status::BadRequest);
    }
    let mut lengths = request.headers.iter().filter(|(name, _)| name == "content-length");
    let Some((_, length)) = lengths.next() else { return Ok(0) };
    if lengths.next().is_some() || !length.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(Status::BadRequest);
    }
    match length.parse::<usize>() {
        Ok(length) if length <= limits.body_bytes => Ok(length),
        _ => Err(Status::PayloadTooLarge),
    }
}

fn read_body(
    stream: &mut dyn Stream,
    buffer: &mut Vec<u8>,
    mut head: Head,
    limits: &Limits,
    started: Instant,
) -> Result<(Request, bool), Stop> {
    let end = head.body_at + head.body_bytes;
    if head.expects_continue && buffer.len() < end {
        stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").map_err(|_| Stop::Closed)?;
    }
    while buffer.len() < end {
        fill(stream, buffer, Some(started), limits)?;
    }
    head.request.body = buffer[head.body_at..end].to_vec();
    buffer.drain(..end);
    Ok((head.request, head.keep))
}

fn fill(
    stream: &mut dyn Stream,
    buffer: &mut Vec<u8>,
    started: Option<Instant>,
    limits: &Limits,
) -> Result<(), Stop> {
    if started.is_some_and(|started| started.elapsed() > limits.request_time) {
        return Err(Stop::Refused(Status::RequestTimeout));
    }
    let mut chunk = [0; 16 << 10];
    match stream.read(&mut chunk) {
        Ok(0) => Err(Stop::Closed),
        Ok(length) => {
            buffer.extend_from_slice(&chunk[..length]);
            Ok(())
        }
        Err(why) if why.kind() == io::ErrorKind::Interrupted => Ok(()),
        Err(_) if started.is_some() => Err(Stop::Refused(Status::RequestTimeout)),
        Err(_) => Err(Stop::Closed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a server that echoes `METHOD path body` answers to these bytes.
    fn answer(bytes: &[u8], limits: &Limits) -> String {
        let (mut client, mut server) = UnixStream::pair().unwrap();
        let echo = |request: &Request| {
            let body = String::from_utf8_lossy(&request.body).into_owned();
            Response::text(format!("{:?} {} {body}", request.method, request.path))
        };
        let bytes = bytes.to_vec();
        let writer = std::thread::spawn(move || {
            let _ = client.write_all(&bytes);
            let _ = client.shutdown(std::net::Shutdown::Write);
            let mut text = String::new();
            let _ = client.read_to_string(&mut text);
            text
        });
        serve(&mut server, limits, &echo);
        drop(server);
        writer.join().unwrap()
    }

    #[test]
    fn pipelined_requests_are_answered_in_order() {
        let text = answer(
            b"POST /a HTTP/1.1\r\nContent-Length: 3\r\n\r\nxyzGET /b HTTP/1.0\r\n\r\n",
            &Limits::default(),
        );
        let first = text.find("Post /a xyz").unwrap();
        assert!(text[first..].contains("Get /b"));
        assert!(text.contains("Connection: close"));
    }

    #[test]
    fn head_has_length_but_no_body() {
        let text = answer(b"HEAD /a HTTP/1.1\r\nConnection: close\r\n\r\n", &Limits::default());
        assert!(text.contains("Content-Length: 8\r\n") && text.ends_with("\r\n\r\n"), "{text}");
    }

    #[test]
    fn requests_beyond_a_limit_are_refused() {
        let limits = Limits { head_bytes: 256, body_bytes: 10, headers: 3, ..Limits::default() };
        for (bytes, status) in [
            (format!("GET /{} HTTP/1.1\r\n\r\n", "a".repeat(300)), "431"),
            ("GET / HTTP/1.1\r\na:1\r\nb:1\r\nc:1\r\nd:1\r\n\r\n".to_owned(), "431"),
            ("POST / HTTP/1.1\r\nContent-Length: 11\r\n\r\n".to_owned(), "413"),
            ("POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n".to_owned(), "400"),
            ("POST / HTTP/1.1\r\nContent-Length: +1\r\n\r\nx".to_owned(), "400"),
            ("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n".to_owned(), "400"),
            ("BREW / HTTP/1.1\r\n\r\n".to_owned(), "405"),
            ("\x16\x03\x01 not http\r\n\r\n".to_owned(), "400"),
        ] {
            let text = answer(bytes.as_bytes(), &limits);
            assert!(text.starts_with(&format!("HTTP/1.1 {status}")), "{bytes:?} gave {text}");
        }
    }

    #[test]
    fn a_slow_client_is_cut_off() {
        let limits = Limits { io_wait: Duration::from_millis(20), ..Limits::default() };
        let (mut client, mut server) = UnixStream::pair().unwrap();
        client.write_all(b"GET / HT").unwrap();
        serve(&mut server, &limits, &|_| Response::text("never"));
        drop(server);
        let mut text = String::new();
        client.read_to_string(&mut text).unwrap();
        assert!(text.starts_with("HTTP/1.1 408"), "{text}");
    }
}
