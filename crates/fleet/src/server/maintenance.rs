//! The thread that flushes and compacts.

use std::time::{Duration, Instant};

use heapwise_capture::failure::Failure;

use super::now_ns;
use crate::ingest::Ingest;

/// Time between compactions.
const COMPACTION: Duration = Duration::from_secs(60);

/// Flushes every `flush` and compacts every minute, until another server takes the store over. A
/// failure is reported and tried again: the log keeps what is not in segments.
pub(super) fn run(ingest: &Ingest, flush: Duration, report: impl Fn(&Failure)) -> Failure {
    let mut compacted = Instant::now();
    loop {
        std::thread::sleep(flush);
        let mut done = ingest.flush().map(drop);
        if compacted.elapsed() >= COMPACTION.min(10 * flush) {
            compacted = Instant::now();
            done = done.and(ingest.compact(now_ns()).map(drop));
        }
        match done {
            Err(failure) if ingest.is_replaced() => return failure,
            Err(failure) => report(&failure),
            Ok(()) => {}
        }
    }
}
