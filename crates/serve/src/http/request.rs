//! A request as endpoints see it: method, decoded path, query, the few headers that matter, body.

use super::Status;

/// The methods that any endpoint answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// Reads.
    Get,
    /// Reads the headers of what `GET` would answer.
    Head,
    /// Changes something, or sends a query that is too long for an address.
    Post,
}

impl Method {
    /// Parses the method of a request line.
    pub(crate) fn parse(name: &str) -> Result<Self, Status> {
        match name {
            "GET" => Ok(Method::Get),
            "HEAD" => Ok(Method::Head),
            "POST" => Ok(Method::Post),
            _ => Err(Status::MethodNotAllowed),
        }
    }
}

/// One request.
#[derive(Debug, Clone)]
pub struct Request {
    /// What is to be done.
    pub method: Method,
    /// Percent-decoded path; always starts with `/`, holds no NUL.
    pub path: String,
    /// Decoded pairs after the `?`.
    pub query: QueryString,
    /// Header names in lower case.
    pub headers: Vec<(String, String)>,
    /// The whole body.
    pub body: Vec<u8>,
}

impl Request {
    /// Splits and decodes a request target (`/path?query`; absolute form is reduced to its path).
    pub(crate) fn new(method: Method, target: &str) -> Result<Self, Status> {
        let target = match target.strip_prefix("http://") {
            Some(rest) => &rest[rest.find('/').ok_or(Status::BadRequest)?..],
            None => target,
        };
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let path = decode(path, false).ok_or(Status::BadRequest)?;
        if !path.starts_with('/') || path.contains('\0') {
            return Err(Status::BadRequest);
        }
        Ok(Self { method, path, query: QueryString::parse(query)?, headers: Vec::new(), body: Vec::new() })
    }

    /// The first header of this (lower-case) name.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// Whether the client insists on an answer that was made for it.
    pub(crate) fn wants_new(&self) -> bool {
        self.header("cache-control").is_some_and(|value| value.to_ascii_lowercase().contains("no-cache"))
    }

    /// Whether the client is a person's browser and not a tool. brpc's rule: a page unless
    /// `console=<non-zero>` requests text, or, without `console`, the agent is absent or curl.
    pub(crate) fn wants_page(&self) -> bool {
        match self.query.get("console") {
            Some(value) => matches!(value, "" | "0"),
            None => self.header("user-agent").is_some_and(|agent| !agent.contains("curl/")),
        }
    }
}

/// The decoded `key=value` pairs of a query string or form, in order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct QueryString(Vec<(String, String)>);

impl QueryString {
    /// Parses `a=1&b=2`.
    pub(crate) fn parse(text: &str) -> Result<Self, Status> {
        let pair = |piece: &str| {
            let (key, value) = piece.split_once('=').unwrap_or((piece, ""));
            Some((decode(key, true)?, decode(value, true)?))
        };
        let pairs = text.split('&').filter(|piece| !piece.is_empty()).map(pair).collect::<Option<Vec<_>>>();
        pairs.map(Self).ok_or(Status::BadRequest)
    }

    /// The first value of a key, possibly empty.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&str> {
        self.0.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str())
    }

    /// The first value of a key that is not empty.
    #[must_use]
    pub fn given(&self, key: &str) -> Option<&str> {
        self.get(key).filter(|value| !value.is_empty())
    }
}

/// Percent-decodes UTF-8; `+` is a blank in queries. `None` for a bad escape or bad UTF-8.
fn decode(text: &str, plus_is_blank: bool) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, tail)) = rest.split_first() {
        rest = tail;
        bytes.push(match byte {
            b'%' => {
                let (digits, tail) = rest.split_at_checked(2)?;
                rest = tail;
                let digits = std::str::from_utf8(digits).ok()?;
                if !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
                    return None;
                }
                u8::from_str_radix(digits, 16).ok()?
            }
            b'+' if plus_is_blank => b' ',
            other => other,
        });
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_split_and_decoded() {
        let request = Request::new(Method::Get, "/p/1/pprof/heap?focus=a%2Bb&x=1+2&flag").unwrap();
        assert_eq!(request.path, "/p/1/pprof/heap");
        assert_eq!(request.query.get("focus"), Some("a+b"));
        assert_eq!(request.query.get("x"), Some("1 2"));
        assert_eq!(request.query.get("flag"), Some(""));
        assert_eq!(Request::new(Method::Get, "http://h:1/a").unwrap().path, "/a");
    }

    #[test]
    fn bad_targets_are_refused() {
        for target in ["", "x", "/%", "/%2", "/%zz", "/%00", "/%ff", "/?a=%+1", "http://host"] {
            assert!(Request::new(Method::Get, target).is_err(), "{target}");
        }
    }

    #[test]
    fn tools_get_text_and_browsers_get_pages() {
        let page = |target: &str, agent: Option<&str>| {
            let mut request = Request::new(Method::Get, target).unwrap();
            request.headers.extend(agent.map(|agent| ("user-agent".to_owned(), agent.to_owned())));
            request.wants_page()
        };
        assert!(page("/", Some("Mozilla/5.0")));
        assert!(page("/?console=0", Some("curl/7.88")));
        assert!(!page("/", Some("curl/7.88")));
        assert!(!page("/", None));
        assert!(!page("/?console=1", Some("Mozilla/5.0")));
    }
}
