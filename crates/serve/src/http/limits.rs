//! What a client may cost: sizes, numbers and waits.

use std::time::Duration;

/// Bounds of the server. The defaults are generous for people and tools, and small for a machine.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Request line and headers together, bytes.
    pub head_bytes: usize,
    /// Request body, bytes: `POST /pprof/symbol` sends 19 bytes an address, so room for 400 000.
    pub body_bytes: usize,
    /// Headers of one request.
    pub headers: usize,
    /// Connections served at a time; the next one is answered 503 and closed.
    pub connections: usize,
    /// Longest wait for the next bytes of a request or for the client to take ours.
    pub io_wait: Duration,
    /// Longest time from the first byte of a request to its last.
    pub request_time: Duration,
    /// How long an idle connection is kept.
    pub idle: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            head_bytes: 16 << 10,
            body_bytes: 8 << 20,
            headers: 64,
            connections: 256,
            io_wait: Duration::from_secs(10),
            request_time: Duration::from_secs(30),
            idle: Duration::from_secs(15),
        }
    }
}
