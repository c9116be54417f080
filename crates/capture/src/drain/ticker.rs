//! The clock of a recording: a thread that writes the time into the segment every millisecond,
//! which is also the drainer's sign of life.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use heapwise_format::segment::{self, CONTROL_OFFSET, ControlWord, SegmentSink};

use crate::clock::Clock;
use crate::segments::SegmentFile;

/// A running clock.
#[derive(Debug)]
pub(super) struct Ticker {
    clock: Clock,
    origin_ns: u64,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Ticker {
    /// Starts a clock that is 0 at `origin_ns` of the program's `clock`.
    pub(super) fn start(segment: SegmentFile, clock: Clock, origin_ns: u64) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        tick(&segment, clock, origin_ns);
        let thread = std::thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                tick(&segment, clock, origin_ns);
                std::thread::sleep(Duration::from_millis(1));
            }
            let heartbeat = (CONTROL_OFFSET + ControlWord::DrainHeartbeat as usize * 8) as u64;
            let _ = segment.write_at(heartbeat, &0u64.to_le_bytes());
        });
        Self { clock, origin_ns, stop, thread: Some(thread) }
    }

    /// Milliseconds since the origin.
    pub(super) fn now_ms(&self) -> u64 {
        milliseconds(self.clock.now_ns(), self.origin_ns)
    }

    /// `CLOCK_MONOTONIC` at a millisecond of this clock.
    pub(super) fn monotonic_ns_at(&self, ms: u64) -> u64 {
        self.origin_ns.saturating_add(ms.saturating_mul(1_000_000))
    }

    /// Stops the clock: no thread waits for this drainer any more.
    pub(super) fn stop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        self.stop();
    }
}

fn milliseconds(now_ns: u64, origin_ns: u64) -> u64 {
    now_ns.saturating_sub(origin_ns) / 1_000_000
}

/// A segment that can no longer be written gets no ticks; the probe continues with its own clock.
fn tick(segment: &SegmentFile, clock: Clock, origin_ns: u64) {
    let now_ns = clock.now_ns();
    let _ = segment::tick(segment, milliseconds(now_ns, origin_ns), now_ns);
}
