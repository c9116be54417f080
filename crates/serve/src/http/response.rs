//! A response: status, type, body, and the headers every response of this server carries.

use std::fmt::Write as _;
use std::io::{self, Write};

use super::{Body, Negotiation};

/// The statuses this server uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// The answer follows.
    Ok,
    /// The answer is elsewhere.
    Found,
    /// The client has the answer.
    NotModified,
    /// The request is not understood.
    BadRequest,
    /// A token is needed.
    Unauthorized,
    /// Not for this client.
    Forbidden,
    /// Nothing is there.
    NotFound,
    /// Another method is needed.
    MethodNotAllowed,
    /// The request took too long to arrive.
    RequestTimeout,
    /// The body is too large.
    PayloadTooLarge,
    /// The headers are too large.
    HeadTooLarge,
    /// The server failed.
    Internal,
    /// Too busy; another try may succeed.
    Unavailable,
}

impl Status {
    /// Code and reason phrase.
    pub(crate) fn line(self) -> &'static str {
        match self {
            Status::Ok => "200 OK",
            Status::Found => "302 Found",
            Status::NotModified => "304 Not Modified",
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

/// What goes back. The body is shared, so a kept render is sent to many without copies.
#[derive(Debug, Clone)]
pub struct Response {
    /// Status.
    pub status: Status,
    /// Type of the body.
    pub content_type: &'static str,
    /// The body.
    pub body: Body,
    /// Further headers.
    pub headers: Vec<(&'static str, String)>,
}

impl Response {
    /// A response of any type.
    pub fn new(status: Status, content_type: &'static str, body: impl Into<Vec<u8>>) -> Self {
        Self { status, content_type, body: body.into().into(), headers: Vec::new() }
    }

    /// Plain text, as tools and terminals expect it.
    pub fn text(body: impl Into<Vec<u8>>) -> Self {
        Self::new(Status::Ok, "text/plain; charset=utf-8", body)
    }

    /// JSON.
    pub fn json(body: impl Into<Vec<u8>>) -> Self {
        Self::new(Status::Ok, "application/json", body)
    }

    /// An interactive SVG.
    pub(crate) fn picture(body: impl Into<Vec<u8>>) -> Self {
        Self::new(Status::Ok, "image/svg+xml", body).with("Content-Security-Policy", PICTURE_POLICY)
    }

    /// A picture in pixels.
    pub(crate) fn png(body: impl Into<Vec<u8>>) -> Self {
        Self::new(Status::Ok, "image/png", body)
    }

    /// One line of text saying what was wrong and what to do.
    pub fn error(status: Status, message: &str) -> Self {
        Self::new(status, "text/plain; charset=utf-8", format!("{message}\n"))
    }

    /// Sends the client elsewhere on this server.
    pub fn redirect(location: String) -> Self {
        Self::text("").with_status(Status::Found).with("Location", location)
    }

    /// This response with another status.
    pub fn with_status(mut self, status: Status) -> Self {
        self.status = status;
        self
    }

    /// This response with one more header. Values come from this program or are checked: a line
    /// break would split the response, so such a header is omitted.
    pub fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        let value = value.into();
        if !value.contains(['\r', '\n']) {
            self.headers.push((name, value));
        }
        self
    }

    /// Makes now what [`Self::write`] would make for such a client.
    pub(crate) fn prepare(&self, terms: &Negotiation) {
        if self.packs(terms) {
            self.body.packed();
        }
    }

    fn packs(&self, terms: &Negotiation) -> bool {
        terms.packed && self.status == Status::Ok && is_text(self.content_type)
    }

    /// Writes it in the form that was negotiated: in full, compressed, or only "not modified".
    pub(crate) fn write(&self, out: &mut impl Write, terms: &Negotiation) -> io::Result<()> {
        let tag = (self.status == Status::Ok).then(|| self.body.tag());
        let known = tag.is_some_and(|tag| terms.knows(tag));
        let packed = if self.packs(terms) && !known { self.body.packed() } else { None };
        let body = packed.unwrap_or(&self.body);

        let status = if known { Status::NotModified } else { self.status };
        let mut head = format!("HTTP/1.1 {}\r\n", status.line());
        if !known {
            let _ = write!(head, "Content-Type: {}\r\nContent-Length: {}\r\n", self.content_type, body.len());
        }
        if packed.is_some() {
            head.push_str("Content-Encoding: gzip\r\n");
        }
        if is_text(self.content_type) {
            head.push_str("Vary: Accept-Encoding\r\n");
        }
        if let Some(tag) = tag {
            let _ = write!(head, "ETag: {tag}\r\n");
        }
        self.write_headers(&mut head);
        let connection = if terms.keep { "keep-alive" } else { "close" };
        let _ = write!(head, "Connection: {connection}\r\n\r\n");
        out.write_all(head.as_bytes())?;
        if !terms.head_only && !known {
            out.write_all(body)?;
        }
        out.flush()
    }

    fn write_headers(&self, head: &mut String) {
        for (name, value) in &self.headers {
            let _ = write!(head, "{name}: {value}\r\n");
        }
        // Revalidated each time, and sent again only when it has changed; errors are of the
        // moment.
        let cache = if self.status == Status::Ok { "private, no-cache" } else { "no-store" };
        for (name, default) in [("Cache-Control", cache)].into_iter().chain(DEFAULTS) {
            if !self.headers.iter().any(|(own, _)| *own == name) {
                let _ = write!(head, "{name}: {default}\r\n");
            }
        }
    }
}

/// What gets smaller by packing: profiles of other tools are packed already.
fn is_text(content_type: &str) -> bool {
    content_type.starts_with("text/") || matches!(content_type, "application/json" | "image/svg+xml")
}

/// Default headers of a response. Nothing from elsewhere is loaded, nothing here is framed, types
/// are as stated. Inline styles are for the SVG call graph; scripts come only from this server.
const DEFAULTS: [(&str, &str); 4] = [
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

#[cfg(test)]
mod tests {
    use super::super::{Method, Request};
    use super::*;

    fn written(response: &Response, headers: &[(&str, &str)]) -> String {
        let mut request = Request::new(Method::Get, "/").unwrap();
        request.headers.extend(headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
        let mut out = Vec::new();
        response.write(&mut out, &Negotiation::of(&request, false)).unwrap();
        String::from_utf8_lossy(&out).into_owned()
    }

    #[test]
    fn text_is_packed_for_those_who_read_it() {
        let response = Response::json("[1,2,3]".repeat(1000));
        let (plain, packed) = (written(&response, &[]), written(&response, &[("accept-encoding", "gzip")]));
        assert!(plain.contains("Content-Length: 7000\r\n") && plain.contains("Vary: Accept-Encoding"));
        assert!(packed.contains("Content-Encoding: gzip\r\n") && packed.len() < 1000, "{packed}");
        let profile = Response::new(Status::Ok, "application/octet-stream", vec![0; 7000]);
        assert!(!written(&profile, &[("accept-encoding", "gzip")]).contains("gzip"));
    }

    #[test]
    fn what_the_client_has_is_not_sent_again() {
        let response = Response::text("the same").with("Age", "3");
        let first = written(&response, &[]);
        let tag = first.lines().find_map(|line| line.strip_prefix("ETag: ")).expect("tagged");
        let again = written(&response, &[("if-none-match", tag)]);
        assert!(again.starts_with("HTTP/1.1 304 ") && again.ends_with("\r\n\r\n"), "{again}");
        assert!(again.contains(tag) && again.contains("Age: 3") && !again.contains("Content-Length"));
        assert!(written(&Response::text("changed"), &[("if-none-match", tag)]).contains("200 OK"));
        let failed = Response::error(Status::Internal, "no");
        assert!(!written(&failed, &[("if-none-match", "*")]).contains("ETag"));
    }
}
