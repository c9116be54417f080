//! The page, as the build bundled it into the executable.

use super::http::{Response, Status};
use super::security::Guard;

const INDEX: &str = include_str!(concat!(env!("OUT_DIR"), "/web/index.html"));
const SCRIPT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/web/app.js"));
const STYLE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/web/app.css"));

/// Assets are addressed with this, so a browser may keep them until the next version.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The page, with the token its own requests need. Nobody else can read it: Host and Origin are
/// checked before.
pub(crate) fn page(guard: &Guard) -> Response {
    let page = INDEX.replace("{{token}}", guard.token()).replace("{{version}}", &fingerprint());
    let response = Response::new(Status::Ok, "text/html; charset=utf-8", page);
    if !guard.token_for_reading() {
        return response;
    }
    // Later requests of the page need no token in their address.
    response
        .with("Set-Cookie", format!("heapwise_token={}; Path=/; HttpOnly; SameSite=Strict", guard.token()))
}

/// A script or style sheet.
pub(crate) fn asset(name: &str) -> Option<Response> {
    let (kind, bytes) = match name {
        "app.js" => ("text/javascript; charset=utf-8", SCRIPT),
        "app.css" => ("text/css; charset=utf-8", STYLE),
        _ => return None,
    };
    Some(Response::new(Status::Ok, kind, bytes).with("Cache-Control", "max-age=31536000, immutable"))
}

/// Changes whenever the assets do.
fn fingerprint() -> String {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for byte in SCRIPT.iter().chain(STYLE) {
        hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }
    format!("{VERSION}-{hash:016x}")
}
