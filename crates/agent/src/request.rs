//! One request to a receiver, and what its answer means for the spool.

mod address;

pub use address::{Address, AddressError};

use std::fs;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use heapwise_capture::own_files::create_temporary;
use prost::Message as _;

use crate::grpc::{self, Method};
use crate::wire::otlp::ExportResponse;

/// Usual time for a whole request.
pub(crate) const LIMIT: Duration = Duration::from_secs(30);
/// Bytes of an answer that are read.
const MOST_ANSWER: u64 = 64 << 10;

/// What an answer means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Answer {
    /// The receiver has the entries.
    Accepted,
    /// The receiver will never take the entries.
    Rejected(String),
    /// The same request may succeed later.
    Retry(String),
}

/// How an answer is judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The status of HTTP or gRPC decides.
    ByStatus,
    /// A success may state rejected profiles in its body.
    Otlp,
}

/// A request over HTTP/1.1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Http {
    pub(crate) url: String,
    pub(crate) content_type: &'static str,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    pub(crate) verdict: Verdict,
}

/// A gRPC call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Grpc {
    pub(crate) method: Method,
    pub(crate) body: Vec<u8>,
    pub(crate) verdict: Verdict,
}

/// A request to a receiver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Request {
    Http(Http),
    Grpc(Grpc),
    /// A file to write.
    File {
        path: PathBuf,
        content: Vec<u8>,
    },
}

impl Request {
    /// Sends the request and waits for its answer, at most for `limit`.
    pub(crate) fn send(&self, limit: Duration) -> Answer {
        match self {
            Request::Http(request) => request.send(limit),
            Request::Grpc(request) => request.send(limit),
            Request::File { path, content } => match write(path, content) {
                Ok(()) => Answer::Accepted,
                Err(error) => Answer::Retry(format!("{}: {error}", path.display())),
            },
        }
    }
}

impl Http {
    fn send(&self, limit: Duration) -> Answer {
        let agent: ureq::Agent = ureq::Agent::config_builder()
            .timeout_global(Some(limit))
            .http_status_as_error(false)
            .max_redirects(0)
            .build()
            .into();
        let mut request = agent.post(&self.url).header("content-type", self.content_type);
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        let answered = request.send(&self.body[..]).map_err(|error| error.to_string());
        let (status, body) = match answered {
            Ok(mut answer) => {
                let mut body = Vec::new();
                let read = answer.body_mut().as_reader().take(MOST_ANSWER).read_to_end(&mut body);
                match read {
                    Ok(_) => (answer.status().as_u16(), body),
                    Err(error) => return Answer::Retry(error.to_string()),
                }
            }
            Err(error) => return Answer::Retry(error),
        };
        of_http(status, &body, self.verdict)
    }
}

/// 4xx is final, except for a timeout (408) and too many requests (429).
fn of_http(status: u16, body: &[u8], verdict: Verdict) -> Answer {
    let text = || format!("HTTP {status}: {}", first_line(body));
    match status {
        200..300 => of_success(body, verdict),
        408 | 429 => Answer::Retry(text()),
        400..500 => Answer::Rejected(text()),
        _ => Answer::Retry(text()),
    }
}

fn of_success(body: &[u8], verdict: Verdict) -> Answer {
    let partial = match verdict {
        Verdict::ByStatus => None,
        Verdict::Otlp => ExportResponse::decode(body).ok().and_then(|response| response.partial_success),
    };
    match partial.filter(|partial| partial.rejected_profiles > 0) {
        None => Answer::Accepted,
        Some(partial) => Answer::Rejected(partial.error_message),
    }
}

impl Grpc {
    fn send(&self, limit: Duration) -> Answer {
        match self.method.call(&self.body, limit) {
            Ok(status) => of_grpc(&status, self.verdict),
            Err(error) => Answer::Retry(error.to_string()),
        }
    }
}

/// Codes that OTLP's specification calls retryable: cancelled, deadline exceeded, resource
/// exhausted, aborted, out of range, unavailable, data loss. `internal` and `unknown` are what
/// proxies answer for servers that restart.
fn of_grpc(status: &grpc::Status, verdict: Verdict) -> Answer {
    let text = || format!("gRPC status {}: {}", status.code, first_line(status.message.as_bytes()));
    match status.code {
        0 => of_success(&status.response, verdict),
        1 | 2 | 4 | 8 | 10 | 11 | 13 | 14 | 15 => Answer::Retry(text()),
        _ => Answer::Rejected(text()),
    }
}

/// The first line of an answer, cut to fit a message.
fn first_line(body: &[u8]) -> String {
    String::from_utf8_lossy(body).lines().next().unwrap_or_default().chars().take(200).collect()
}

/// Writes a file so that it is whole or absent.
fn write(path: &Path, content: &[u8]) -> io::Result<()> {
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory)?;
    }
    let temporary = path.with_extension("tmp");
    let written = create_temporary(&temporary)
        .and_then(|mut file| file.write_all(content))
        .and_then(|()| fs::rename(&temporary, path));
    if written.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_of_http() {
        let of = |status| of_http(status, b"why\nmore", Verdict::ByStatus);
        assert_eq!(of(200), Answer::Accepted);
        assert_eq!(of(204), Answer::Accepted);
        for status in [400, 401, 404, 413] {
            assert_eq!(of(status), Answer::Rejected(format!("HTTP {status}: why")));
        }
        for status in [302, 408, 429, 500, 503] {
            assert_eq!(of(status), Answer::Retry(format!("HTTP {status}: why")));
        }
    }

    #[test]
    fn statuses_of_grpc() {
        let of =
            |code| of_grpc(&grpc::Status { code, message: "m".into(), response: vec![] }, Verdict::ByStatus);
        assert_eq!(of(0), Answer::Accepted);
        assert_eq!(of(14), Answer::Retry("gRPC status 14: m".into()));
        assert_eq!(of(3), Answer::Rejected("gRPC status 3: m".into()));
        assert_eq!(of(12), Answer::Rejected("gRPC status 12: m".into()));
    }

    #[test]
    fn a_success_of_otlp_may_reject() {
        // partial_success { rejected_profiles: 4, error_message: "no" }
        let body = [0x0a, 0x06, 0x08, 0x04, 0x12, 0x02, b'n', b'o'];
        assert_eq!(of_http(200, &body, Verdict::Otlp), Answer::Rejected("no".into()));
        assert_eq!(of_http(200, &body, Verdict::ByStatus), Answer::Accepted);
        assert_eq!(of_http(200, b"", Verdict::Otlp), Answer::Accepted);
    }
}
