//! The page, as the build bundled it into the executable.

use std::sync::LazyLock;

use super::http::{Response, Status};
use super::security::Guard;

const INDEX: &str = include_str!(concat!(env!("OUT_DIR"), "/web/index.html"));
const SCRIPT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/web/app.js"));
const STYLE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/web/app.css"));

/// Assets are addressed with this, so a browser may keep them until the next version.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The page, with the token its own requests need. No other site can read it: Host and Origin are
/// checked before.
pub(crate) fn page(guard: &Guard) -> Response {
    let page = INDEX.replace("{{token}}", guard.token()).replace("{{version}}", &FINGERPRINT);
    // It holds the token, so no cache keeps it.
    let response =
        Response::new(Status::Ok, "text/html; charset=utf-8", page).with("Cache-Control", "no-store");
    if !guard.token_for_reading() {
        return response;
    }
    // Later requests of the page need no token in their address.
    response
        .with("Set-Cookie", format!("heapwise_token={}; Path=/; HttpOnly; SameSite=Strict", guard.token()))
}

/// A script or style sheet, packed once for all.
pub(crate) fn asset(name: &str) -> Option<Response> {
    static FILES: LazyLock<[Response; 2]> = LazyLock::new(|| {
        [("text/javascript; charset=utf-8", SCRIPT), ("text/css; charset=utf-8", STYLE)].map(
            |(kind, bytes)| {
                Response::new(Status::Ok, kind, bytes).with("Cache-Control", "max-age=31536000, immutable")
            },
        )
    });
    let at = ["app.js", "app.css"].iter().position(|known| *known == name)?;
    Some(FILES[at].clone())
}

/// Changes whenever the assets do.
static FINGERPRINT: LazyLock<String> = LazyLock::new(|| {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for byte in SCRIPT.iter().chain(STYLE) {
        hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }
    format!("{VERSION}-{hash:016x}")
});
