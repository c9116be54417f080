//! The address of a receiver: `http://HOST:PORT/PATH` or `grpc://HOST:PORT`.

use std::fmt;
use std::str::FromStr;

/// Where a receiver listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    is_grpc: bool,
    authority: String,
    /// Without a slash at its end.
    path: String,
}

/// Why a text is not an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AddressError {
    /// TLS is not built in.
    Tls,
    /// Neither `http://` nor `grpc://`.
    Scheme,
    /// No host, or characters that no address has.
    Malformed,
}

impl fmt::Display for AddressError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            AddressError::Tls => "TLS is not built in; send to a collector or proxy on this host",
            AddressError::Scheme => "start it with http:// or grpc://",
            AddressError::Malformed => "give a host, as in http://HOST:PORT",
        })
    }
}

impl std::error::Error for AddressError {}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let (scheme, rest) = text.split_once("://").ok_or(AddressError::Scheme)?;
        let is_grpc = match scheme {
            "http" => false,
            "grpc" => true,
            "https" | "grpcs" => return Err(AddressError::Tls),
            _ => return Err(AddressError::Scheme),
        };
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let is_plain = |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic());
        let is_malformed = authority.is_empty() || !is_plain(rest) || authority.contains('@');
        if is_malformed || (is_grpc && !has_port(authority)) {
            return Err(AddressError::Malformed);
        }
        let path = path.trim_end_matches('/');
        let path = if path.is_empty() { String::new() } else { format!("/{path}") };
        Ok(Self { is_grpc, authority: authority.to_owned(), path })
    }
}

fn has_port(authority: &str) -> bool {
    authority.rsplit_once(':').is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok())
}

impl Address {
    /// Whether it is one of gRPC.
    #[must_use]
    pub fn is_grpc(&self) -> bool {
        self.is_grpc
    }

    /// `HOST:PORT`.
    pub(crate) fn authority(&self) -> &str {
        &self.authority
    }

    /// The URL of a path below the address.
    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{}{path}", self.authority, self.path)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_grpc { "grpc" } else { "http" };
        write!(out, "{scheme}://{}{}", self.authority, self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_parsed() {
        let url = |text: &str| text.parse::<Address>().map(|address| address.url("/x"));
        assert_eq!(url("http://h:80"), Ok("http://h:80/x".into()));
        assert_eq!(url("http://h/base/"), Ok("http://h/base/x".into()));
        assert_eq!("grpc://h:7070".parse::<Address>().map(|address| address.is_grpc()), Ok(true));
        let error = |text: &str| text.parse::<Address>().unwrap_err();
        assert_eq!(error("https://h"), AddressError::Tls);
        assert_eq!(error("h:80"), AddressError::Scheme);
        assert_eq!(error("ftp://h"), AddressError::Scheme);
        assert_eq!(error("http:///x"), AddressError::Malformed);
        assert_eq!(error("http://a b"), AddressError::Malformed);
        assert_eq!(error("http://user@h"), AddressError::Malformed);
        assert_eq!(error("grpc://h"), AddressError::Malformed);
    }
}
