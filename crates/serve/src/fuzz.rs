//! Entry points of the fuzzers: what this crate reads that others wrote.

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use heapwise_profile::view::top;
use heapwise_profile::{CallTree, read};

use crate::http::{Limits, Method, Request, Response, connection};
use crate::query_params::query_spec;

/// Longest input of [`http`]: the capacity of a socket without a reader.
const SOCKET_BYTES: usize = 32 << 10;

/// A client of the server.
pub fn http(bytes: &[u8]) {
    let Ok((mut client, mut connection)) = UnixStream::pair() else { return };
    let _ = client.write_all(&bytes[..bytes.len().min(SOCKET_BYTES)]);
    let _ = client.shutdown(std::net::Shutdown::Write);
    let limits = Limits { io_wait: Duration::from_millis(100), ..Limits::default() };
    connection::serve(&mut connection, &limits, &|request| {
        Response::text(format!("{} {}", request.path, request.query.get("a").unwrap_or_default()))
    });
}

/// The target of a request, `/path?query`, and its query of a profile.
pub fn request_target(bytes: &[u8]) {
    let target = String::from_utf8_lossy(bytes);
    let Ok(request) = Request::new(Method::Get, &target) else { return };
    assert!(request.path.starts_with('/') && !request.path.contains('\0'), "{target:?}");
    let profile = read(b"main;handle request;grow 64\nmain;[unknown] 1\n").expect("a small profile");
    let Ok(spec) = query_spec(&request.query) else { return };
    if let Ok(query) = spec.resolve(&profile) {
        let tree = CallTree::new(&profile, &query);
        let rows = top::top(&tree, &query).rows.len();
        assert!(query.limit.is_none_or(|limit| rows <= limit), "{rows} rows for {target:?}");
    }
}
