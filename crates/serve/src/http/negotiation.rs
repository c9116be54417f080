//! What a client accepts: body or head only, gzip, only if changed, keep-alive.

use super::{Method, Request};

/// The negotiated form of one response.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Negotiation {
    pub head_only: bool,
    /// The connection stays open.
    pub keep: bool,
    /// The client accepts gzip.
    pub packed: bool,
    /// `If-None-Match`: tags that the client has.
    known: Option<String>,
}

impl Negotiation {
    /// Negotiates the response to a request.
    pub(crate) fn of(request: &Request, keep: bool) -> Self {
        let known = request.header("if-none-match").filter(|_| request.method != Method::Post);
        Self {
            head_only: request.method == Method::Head,
            keep,
            packed: request.header("accept-encoding").is_some_and(accepts_gzip),
            known: known.map(str::to_owned),
        }
    }

    /// Whether the client has this tag. Tags are compared weakly, as caches do.
    pub(crate) fn knows(&self, tag: &str) -> bool {
        let bare = |tag: &str| tag.trim().trim_start_matches("W/").to_owned();
        self.known.as_ref().is_some_and(|known| known.split(',').any(|one| bare(one) == bare(tag)))
    }
}

/// `gzip` is listed, and not with a weight of zero.
fn accepts_gzip(list: &str) -> bool {
    list.split(',').any(|item| {
        let (name, weight) = item.split_once(';').unwrap_or((item, ""));
        let weight = weight.trim().strip_prefix("q=").map_or(Ok(1.0), str::parse::<f32>);
        name.trim().eq_ignore_ascii_case("gzip") && weight.is_ok_and(|weight| weight > 0.0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gzip_is_used_only_where_it_is_read() {
        for list in ["gzip", "gzip, deflate, br", "br;q=1.0, GZIP;q=0.8", "identity,gzip; q=0.1"] {
            assert!(accepts_gzip(list), "{list}");
        }
        for list in ["", "br", "gzip;q=0", "gzip;q=0.000", "gzip;q=x", "xgzip"] {
            assert!(!accepts_gzip(list), "{list}");
        }
    }

    #[test]
    fn a_known_tag_is_known_in_a_list_and_weakly() {
        let terms = |known: &str, method| {
            let mut request = Request::new(method, "/").unwrap();
            request.headers.push(("if-none-match".into(), known.into()));
            Negotiation::of(&request, true)
        };
        assert!(terms("\"x\", W/\"y\"", Method::Get).knows("W/\"y\""));
        assert!(terms("\"y\"", Method::Head).knows("W/\"y\""));
        assert!(!terms("\"x\"", Method::Get).knows("W/\"y\""));
        assert!(!terms("W/\"y\"", Method::Post).knows("W/\"y\""));
        assert!(!Negotiation::default().knows("W/\"y\""));
    }
}
