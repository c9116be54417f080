//! Access control: the token, and the Host and Origin checks that keep other web pages out.
//!
//! A page anywhere on the web can make a browser send requests to 127.0.0.1. It cannot read the
//! answers unless its own name resolves to 127.0.0.1 (DNS rebinding), which the Host check refuses,
//! and it cannot change anything, because changes need POST, an own Origin and the token.

use std::fs::File;
use std::io::{self, Read};
use std::net::IpAddr;

use super::error::HttpError;
use super::http::{Address, Method, Request, Status};

/// What a server that listens at some address lets through.
#[derive(Debug, Clone)]
pub(crate) struct Guard {
    token: String,
    /// Readers need the token too: the address can be reached from other machines.
    token_for_reading: bool,
    address: Address,
}

/// Why a request is refused, with the words the client sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Refusal(pub Status, pub &'static str);

impl From<Refusal> for HttpError {
    fn from(Refusal(status, message): Refusal) -> Self {
        Self { status, message: message.to_owned() }
    }
}

impl Guard {
    /// A guard with a given token, or a fresh one.
    pub(crate) fn new(address: &Address, token: Option<String>) -> io::Result<Self> {
        let token_for_reading = token.is_some() || !address.is_local();
        let token = match token {
            Some(token) => token,
            None => random_token()?,
        };
        Ok(Self { token, token_for_reading, address: address.clone() })
    }

    /// The token: printed once for the user, and written into the page for its own requests.
    pub(crate) fn token(&self) -> &str {
        &self.token
    }

    /// Whether reading needs the token.
    pub(crate) fn token_for_reading(&self) -> bool {
        self.token_for_reading
    }

    /// Checks a request before anything else looks at it, and takes a `/t/<token>` prefix off its
    /// path: the form that tools which only know URLs (`jeprof`, `go tool pprof`) can use.
    pub(crate) fn admit(&self, request: &mut Request) -> Result<(), Refusal> {
        self.check_host(request)?;
        check_embedding(request)?;
        check_origin(request)?;
        let in_path = self.take_path_token(request)?;
        let known = in_path || self.carries_token(request);
        if self.token_for_reading && !known {
            return Err(Refusal(
                Status::Unauthorized,
                "this address needs the token that `heapwise serve` printed: add ?token=…, a /t/<token> path prefix or \
                 an `Authorization: Bearer` header",
            ));
        }
        if request.method == Method::Post {
            self.admit_own(request)?;
        }
        Ok(())
    }

    /// Checks that a request may change something: called by the endpoints that do.
    pub(crate) fn admit_change(&self, request: &Request) -> Result<(), Refusal> {
        if self.carries_token(request) {
            return Ok(());
        }
        Err(Refusal(
            Status::Forbidden,
            "a change needs the token that `heapwise serve` printed: send it as ?token=…, X-Heapwise-Token or \
             `Authorization: Bearer`",
        ))
    }

    fn carries_token(&self, request: &Request) -> bool {
        let bearer = request.header("authorization").and_then(|value| value.strip_prefix("Bearer "));
        let cookie = request.header("cookie").and_then(|cookies| {
            cookies.split(';').find_map(|cookie| cookie.trim().strip_prefix("heapwise_token="))
        });
        // The cookie is SameSite=Strict, and still only good for reading and for POST with our
        // Origin.
        [request.query.get("token"), request.header("x-heapwise-token"), bearer, cookie]
            .into_iter()
            .flatten()
            .any(|given| equal(given, &self.token))
    }

    fn take_path_token(&self, request: &mut Request) -> Result<bool, Refusal> {
        let Some(rest) = request.path.strip_prefix("/t/") else { return Ok(false) };
        let (given, path) = rest.split_once('/').unwrap_or((rest, ""));
        if !equal(given, &self.token) {
            return Err(Refusal(Status::Unauthorized, "wrong token"));
        }
        request.path = format!("/{path}");
        request.headers.push(("x-heapwise-token".into(), self.token.clone()));
        Ok(true)
    }

    /// Refuses names that are not ours: a foreign name resolving to this machine is the attack.
    fn check_host(&self, request: &Request) -> Result<(), Refusal> {
        let Address::Tcp(address) = &self.address else { return Ok(()) };
        // HTTP/1.0 tools send none; browsers always do.
        let Some(host) = request.header("host") else { return Ok(()) };
        let name = host_name(host);
        let literal = name.trim_matches(['[', ']']).parse::<IpAddr>();
        let ours = match literal {
            Ok(ip) => ip.is_loopback() || !address.ip().is_loopback(),
            // Behind a token a foreign name learns nothing, and people do use host names there.
            Err(_) => name.eq_ignore_ascii_case("localhost") || self.token_for_reading,
        };
        if ours {
            Ok(())
        } else {
            Err(Refusal(Status::Forbidden, "this server does not answer to that host name"))
        }
    }

    /// Refuses what a browser sends on behalf of another site, which it names in these headers.
    pub(crate) fn admit_own(&self, request: &Request) -> Result<(), Refusal> {
        let foreign = Refusal(Status::Forbidden, "this server takes changes only from its own page");
        if request.header("sec-fetch-site").is_some_and(|site| !matches!(site, "same-origin" | "none")) {
            return Err(foreign);
        }
        Ok(())
    }
}

/// Refuses every request in whose name another site's script sent it.
fn check_origin(request: &Request) -> Result<(), Refusal> {
    let Some(origin) = request.header("origin") else { return Ok(()) };
    let own = request.header("host").is_some_and(|host| {
        ["http://", "https://"].iter().any(|scheme| origin.strip_prefix(scheme) == Some(host))
    });
    match own {
        true => Ok(()),
        false => Err(Refusal(Status::Forbidden, "this server answers only its own page and tools")),
    }
}

/// Other sites may link to a page here; they may not fetch or embed anything.
fn check_embedding(request: &Request) -> Result<(), Refusal> {
    let foreign = matches!(request.header("sec-fetch-site"), Some("cross-site" | "same-site"));
    if foreign && request.header("sec-fetch-mode") != Some("navigate") {
        return Err(Refusal(Status::Forbidden, "nothing here can be embedded in other pages"));
    }
    Ok(())
}

/// `host:port` without the port, `[v6]` kept in brackets.
fn host_name(host: &str) -> &str {
    if let Some(end) = host.find(']') {
        return &host[..=end];
    }
    host.split(':').next().unwrap_or(host)
}

/// Compares without telling by its time how much was right.
fn equal(given: &str, token: &str) -> bool {
    given.len() == token.len() && given.bytes().zip(token.bytes()).fold(0, |diff, (a, b)| diff | (a ^ b)) == 0
}

/// 128 bits from the kernel, in hex.
fn random_token() -> io::Result<String> {
    let mut bytes = [0_u8; 16];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guard(address: &str) -> Guard {
        Guard::new(&Address::parse(address).unwrap(), None).unwrap()
    }

    fn request(method: Method, target: &str, headers: &[(&str, &str)]) -> Request {
        let mut request = Request::new(method, target).unwrap();
        request.headers = headers.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
        request
    }

    fn admitted(guard: &Guard, method: Method, target: &str, headers: &[(&str, &str)]) -> bool {
        guard.admit(&mut request(method, target, headers)).is_ok()
    }

    #[test]
    fn foreign_host_names_are_refused_on_loopback() {
        let guard = guard("127.0.0.1:8090");
        for host in ["127.0.0.1:8090", "localhost:8090", "localhost", "[::1]:8090", "127.0.0.2"] {
            assert!(admitted(&guard, Method::Get, "/", &[("host", host)]), "{host}");
        }
        for host in ["evil.example:8090", "127.0.0.1.evil.example", "10.0.0.1:8090", "localhost.evil:1", ""] {
            assert!(!admitted(&guard, Method::Get, "/", &[("host", host)]), "{host}");
        }
    }

    #[test]
    fn posts_of_other_sites_are_refused() {
        let guard = guard("127.0.0.1:8090");
        let host = ("host", "127.0.0.1:8090");
        assert!(admitted(&guard, Method::Post, "/", &[host, ("origin", "http://127.0.0.1:8090")]));
        assert!(admitted(&guard, Method::Post, "/", &[host]));
        for origin in ["http://evil.example", "null", "http://127.0.0.1:9999", "http://127.0.0.1:8090.evil"] {
            assert!(!admitted(&guard, Method::Post, "/", &[host, ("origin", origin)]), "{origin}");
            assert!(!admitted(&guard, Method::Get, "/pprof/heap", &[host, ("origin", origin)]), "{origin}");
        }
        assert!(!admitted(&guard, Method::Post, "/", &[host, ("sec-fetch-site", "cross-site")]));
    }

    #[test]
    fn other_sites_may_link_but_not_embed() {
        let guard = guard("127.0.0.1:8090");
        let fetched = |site, mode| {
            let headers = [("host", "127.0.0.1:8090"), ("sec-fetch-site", site), ("sec-fetch-mode", mode)];
            admitted(&guard, Method::Get, "/pprof/heap", &headers)
        };
        assert!(
            fetched("same-origin", "cors")
                && fetched("none", "navigate")
                && fetched("cross-site", "navigate")
        );
        assert!(!fetched("cross-site", "no-cors") && !fetched("same-site", "cors"));
    }

    #[test]
    fn reading_from_elsewhere_needs_the_token_in_any_of_its_forms() {
        let guard = guard("0.0.0.0:8090");
        let token = guard.token().to_owned();
        assert!(!admitted(&guard, Method::Get, "/", &[]));
        assert!(!admitted(&guard, Method::Get, "/t/0123/", &[]));
        assert!(admitted(&guard, Method::Get, &format!("/?token={token}"), &[("host", "box.example:8090")]));
        assert!(admitted(&guard, Method::Get, "/", &[("authorization", &format!("Bearer {token}"))]));
        assert!(admitted(&guard, Method::Get, "/", &[("cookie", &format!("a=b; heapwise_token={token}"))]));
        let mut by_path = request(Method::Get, &format!("/t/{token}/pprof/heap"), &[]);
        assert!(guard.admit(&mut by_path).is_ok());
        assert_eq!(by_path.path, "/pprof/heap");
    }

    #[test]
    fn changes_need_the_token_even_on_loopback() {
        let guard = guard("127.0.0.1:8090");
        let token = guard.token().to_owned();
        assert_eq!(token.len(), 32);
        assert!(guard.admit_change(&request(Method::Post, "/", &[])).is_err());
        assert!(guard.admit_change(&request(Method::Post, "/?token=no", &[])).is_err());
        assert!(guard.admit_change(&request(Method::Post, "/", &[("x-heapwise-token", &token)])).is_ok());
    }
}
