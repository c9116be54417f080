//! A response: status, type, body, and the headers every response of this server carries.

use std::fmt::Write as _;
use std::io::{self, Write};
use std::sync::Arc;

/// The statuses this server uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Status {
    Ok,
    Found,
    BadRequest,
    Unauthorized,
    Forbidden,
    NotFound,
    MethodNotAllowed,
    RequestTimeout,
    PayloadTooLarge,
    HeadTooLarge,
    Internal,
    Unavailable,
}

impl Status {
    /// Code and reason phrase.
    pub(crate) fn line(self) -> &'static str {
        match self {
            Status::Ok => "200 OK",
            Status::Found => "302 Found",
            Status::BadRequest => "400 Bad Request",
            Status::Unauthorized => "401 Unauthorized",
            Status::Forbidden => "403 Forbidden",
            Status::NotFound => "404 Not Found",
            Status::MethodNotAllowed => "405 Method Not Allowed",
            Status::RequestTimeout => "408 Request Timeout",
            Status::PayloadTooLarge => "413 Content Too Large",
            Status::HeadTooLarge => "431 Request Header Fields Too Large",
            Status::Internal => "500 Internal Server Error",
            Status::Unavailable => "503 Service Unavailable",
        }
    }
}

/// What goes back. The body is shared, so a cached render is sent to many without copies.
#[derive(Debug, Clone)]
pub(crate) struct Response {
    pub status: Status,
    pub content_type: &'static str,
    pub body: Arc<[u8]>,
    pub headers: Vec<(&'static str, String)>,
}

impl Response {
    /// A response of any type.
    pub(crate) fn new(status: Status, content_type: &'static str, body: impl Into<Vec<u8>>) -> Self {
        Self { status, content_type, body: body.into().into(), headers: Vec::new() }
    }

    /// Plain text, as tools and terminals expect it.
    pub(crate) fn text(body: impl Into<Vec<u8>>) -> Self {
        Self::new(Status::Ok, "text/plain; charset=utf-8", body)
    }

    /// JSON.
    pub(crate) fn json(body: impl Into<Vec<u8>>) -> Self {
        Self::new(Status::Ok, "application/json", body)
    }

    /// An interactive SVG.
    pub(crate) fn picture(body: impl Into<Vec<u8>>) -> Self {
        Self::new(Status::Ok, "image/svg+xml", body).with("Content-Security-Policy", PICTURE_POLICY)
    }

    /// One line of text saying what was wrong and what to do.
    pub(crate) fn error(status: Status, message: &str) -> Self {
        Self::new(status, "text/plain; charset=utf-8", format!("{message}\n"))
    }

    /// Sends the client elsewhere on this server.
    pub(crate) fn redirect(location: String) -> Self {
        Self::text("").with_status(Status::Found).with("Location", location)
    }

    /// The same with another status.
    pub(crate) fn with_status(mut self, status: Status) -> Self {
        self.status = status;
        self
    }

    /// The same with one more header. Values come from this program or are checked: a line break
    /// would split the response, so such a header is left out.
    pub(crate) fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        let value = value.into();
        if !value.contains(['\r', '\n']) {
            self.headers.push((name, value));
        }
        self
    }

    /// Writes head and, unless it answers HEAD, body.
    pub(crate) fn write(&self, out: &mut impl Write, head_only: bool, keep: bool) -> io::Result<()> {
        let mut head = format!("HTTP/1.1 {}\r\n", self.status.line());
        let _ =
            write!(head, "Content-Type: {}\r\nContent-Length: {}\r\n", self.content_type, self.body.len());
        for (name, value) in &self.headers {
            let _ = write!(head, "{name}: {value}\r\n");
        }
        for (name, default) in DEFAULTS {
            if !self.headers.iter().any(|(own, _)| *own == name) {
                let _ = write!(head, "{name}: {default}\r\n");
            }
        }
        head.push_str(if keep { "Connection: keep-alive\r\n\r\n" } else { "Connection: close\r\n\r\n" });
        out.write_all(head.as_bytes())?;
        if !head_only {
            out.write_all(&self.body)?;
        }
        out.flush()
    }
}

/// Headers of a response that does not say otherwise. Nothing from elsewhere is loaded, nothing here
/// is framed, types are as stated. Inline styles are for the SVG call graph; scripts come only from
/// this server.
const DEFAULTS: [(&str, &str); 5] = [
    ("Cache-Control", "no-store"),
    (
        "Content-Security-Policy",
        "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; frame-ancestors 'none'; \
         base-uri 'none'; form-action 'self'",
    ),
    ("X-Content-Type-Options", "nosniff"),
    ("X-Frame-Options", "DENY"),
    ("Referrer-Policy", "no-referrer"),
];

/// A picture that brings its own script may run it, apart from this server's pages and token.
const PICTURE_POLICY: &str =
    "sandbox allow-scripts; default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'";
