//! One person with a page open: a connection that is kept, a question a second, and the last
//! answer's tag, as a browser has them. Run in a process of its own, so that its cost is not
//! mistaken for the server's.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Between an answer and the next question.
const PAUSE: Duration = Duration::from_secs(1);
/// Who waits longer for an answer counts as an error.
const PATIENCE: Duration = Duration::from_secs(20);

/// What one client, or all of them, saw.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) answers: u64,
    /// Answers that only said that nothing has changed.
    pub(crate) unchanged: u64,
    pub(crate) body_bytes: u64,
    pub(crate) errors: u64,
    pub(crate) longest_ms: u64,
}

impl Seen {
    pub(crate) fn add(&mut self, other: &Self) {
        self.answers += other.answers;
        self.unchanged += other.unchanged;
        self.body_bytes += other.body_bytes;
        self.errors += other.errors;
        self.longest_ms = self.longest_ms.max(other.longest_ms);
    }

    /// As passed from one process to another.
    pub(crate) fn to_line(&self) -> String {
        let Self { answers, unchanged, body_bytes, errors, longest_ms } = self;
        format!("{answers} {unchanged} {body_bytes} {errors} {longest_ms}")
    }

    /// The other way round.
    pub(crate) fn from_line(line: &str) -> Option<Self> {
        let numbers: Vec<u64> = line.split_whitespace().map_while(|word| word.parse().ok()).collect();
        let [answers, unchanged, body_bytes, errors, longest_ms] = numbers[..] else { return None };
        Some(Self { answers, unchanged, body_bytes, errors, longest_ms })
    }
}

/// `count` clients, each of another of the `paths` in turn, until `stop`.
pub(crate) fn crowd(address: &str, paths: &[String], count: usize, stop: &AtomicBool) -> Seen {
    std::thread::scope(|scope| {
        let clients: Vec<_> = (0..count)
            .map(|at| {
                let path = &paths[at % paths.len()];
                scope.spawn(move || {
                    // They did not all open their page at the same time.
                    std::thread::sleep(PAUSE * at as u32 / count as u32);
                    client(address, path, stop)
                })
            })
            .collect();
        let mut all = Seen::default();
        for client in clients {
            all.add(&client.join().unwrap_or(Seen { errors: 1, ..Seen::default() }));
        }
        all
    })
}

fn client(address: &str, path: &str, stop: &AtomicBool) -> Seen {
    let (mut seen, mut line, mut tag) = (Seen::default(), None, String::new());
    while !stop.load(Ordering::Relaxed) {
        let asked = Instant::now();
        match ask(&mut line, address, path, &tag) {
            Ok(answer) => {
                seen.answers += 1;
                seen.unchanged += u64::from(answer.status == 304);
                seen.body_bytes += answer.body.len() as u64;
                seen.errors += u64::from(!answer.is_right());
                tag = answer.tag;
            }
            Err(_) => {
                seen.errors += 1;
                line = None;
            }
        }
        seen.longest_ms = seen.longest_ms.max(asked.elapsed().as_millis() as u64);
        std::thread::sleep(PAUSE);
    }
    seen
}

#[derive(Debug, Default)]
struct Answer {
    status: u16,
    tag: String,
    packed: bool,
    body: Vec<u8>,
}

impl Answer {
    fn is_right(&self) -> bool {
        match self.status {
            200 => !self.body.is_empty() && (!self.packed || self.body.starts_with(&[0x1f, 0x8b])),
            304 => self.body.is_empty(),
            _ => false,
        }
    }
}

fn ask(
    line: &mut Option<BufReader<TcpStream>>,
    address: &str,
    path: &str,
    tag: &str,
) -> std::io::Result<Answer> {
    if line.is_none() {
        let stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        *line = Some(BufReader::new(stream));
    }
    let Some(reader) = line else { return Err(std::io::ErrorKind::NotConnected.into()) };
    let known = if tag.is_empty() { String::new() } else { format!("If-None-Match: {tag}\r\n") };
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nAccept-Encoding: gzip\r\n{known}\r\n");
    reader.get_mut().write_all(request.as_bytes())?;
    read_answer(reader)
}

fn read_answer(reader: &mut impl BufRead) -> std::io::Result<Answer> {
    let (mut answer, mut length, mut text) = (Answer::default(), 0, String::new());
    while reader.read_line(&mut text)? > 0 && text.trim() != "" {
        let line = text.trim_end();
        match line.split_once(": ") {
            Some(("ETag", tag)) => tag.clone_into(&mut answer.tag),
            Some(("Content-Length", bytes)) => length = bytes.parse().unwrap_or(0),
            Some(("Content-Encoding", coding)) => answer.packed = coding == "gzip",
            Some(_) => {}
            None => answer.status = line.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0),
        }
        text.clear();
    }
    if answer.status == 0 {
        return Err(std::io::ErrorKind::UnexpectedEof.into());
    }
    reader.take(length).read_to_end(&mut answer.body)?;
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read_one_after_the_other() {
        let mut bytes: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nETag: W/\"a\"\r\n\r\nhiHTTP/1.1 304 Not Modified\r\nETag: W/\"a\"\r\n\r\nHTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n";
        let first = read_answer(&mut bytes).unwrap();
        assert!(first.is_right() && first.body == b"hi" && first.tag == "W/\"a\"");
        let second = read_answer(&mut bytes).unwrap();
        assert!(second.is_right() && second.status == 304);
        assert!(!read_answer(&mut bytes).unwrap().is_right());
        assert!(read_answer(&mut bytes).is_err());
    }

    #[test]
    fn what_was_seen_goes_through_a_pipe() {
        let seen = Seen { answers: 7, unchanged: 2, body_bytes: 900, errors: 1, longest_ms: 30 };
        assert_eq!(Seen::from_line(&seen.to_line()), Some(seen));
        assert_eq!(Seen::from_line("1 2 x"), None);
    }
}
