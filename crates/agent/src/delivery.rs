//! Deliveries: a thread per receiver takes batches from the spool and sends them until each is
//! accepted or rejected.

mod backoff;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use backoff::Backoff;

use crate::batch::{self, Entry};
use crate::receiver::Encode;
use crate::request::{Answer, Request};
use crate::spool::{Cursor, Spool};

/// Counts of one receiver since the agent started.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DeliveryCounts {
    /// Profiles accepted.
    pub sent: u64,
    /// Profiles that the receiver will never take.
    pub rejected: u64,
    /// Profiles that could not be read, or were torn.
    pub unreadable: u64,
    /// Requests that failed and were or will be sent again.
    pub failures: u64,
    /// Why the last failed request failed; `None` after a success.
    pub problem: Option<String>,
}

/// The delivery to one receiver.
pub(crate) struct Delivery {
    pub(crate) receiver: &'static str,
    pub(crate) encoder: Box<dyn Encode>,
    pub(crate) spool: Arc<Spool>,
    pub(crate) counts: Arc<Mutex<DeliveryCounts>>,
    /// Spreads the retries of hosts that lost the same server.
    pub(crate) seed: u64,
    /// Time for a request.
    pub(crate) limit: Duration,
}

impl Delivery {
    /// Sends until the spool is closed.
    pub(crate) fn run(mut self) {
        const LONGEST_WAIT: Duration = Duration::from_secs(60);
        let mut backoff = Backoff::new(self.seed);
        while !self.spool.wait_closed(Duration::ZERO) {
            let Some((cursor, bytes)) = self.spool.next(self.receiver, LONGEST_WAIT) else { continue };
            if self.send_batch(cursor, &bytes, &mut backoff).is_none() {
                return;
            }
        }
    }

    fn count(&self, change: impl FnOnce(&mut DeliveryCounts)) {
        change(&mut self.counts.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Sends the entries of a batch that the receiver does not have; `None` when the spool was
    /// closed meanwhile.
    fn send_batch(&mut self, mut cursor: Cursor, bytes: &[u8], backoff: &mut Backoff) -> Option<()> {
        let read: Vec<_> = batch::read(bytes).collect();
        let is_torn = read.last().is_some_and(Result::is_err);
        let entries: Vec<Entry> = read.into_iter().filter_map(Result::ok).collect();
        if is_torn {
            self.count(|counts| counts.unreadable += 1);
        }
        while (cursor.entries as usize) < entries.len() {
            let rest = &entries[cursor.entries as usize..];
            let now = if self.encoder.takes_batches() { rest } else { &rest[..1] };
            match self.encoder.encode(now) {
                Some(request) => self.send(&request, now.len() as u64, cursor.batch, backoff)?,
                None => self.count(|counts| counts.unreadable += now.len() as u64),
            }
            cursor.entries += now.len() as u64;
            if !self.spool.has(cursor.batch) {
                break;
            }
            if (cursor.entries as usize) < entries.len() {
                self.spool.advance(self.receiver, cursor);
            }
        }
        self.spool.advance(self.receiver, Cursor { batch: cursor.batch + 1, entries: 0 });
        Some(())
    }

    /// Sends a request until it is accepted or rejected, or the spool has dropped its batch.
    fn send(&self, request: &Request, profiles: u64, batch: u64, backoff: &mut Backoff) -> Option<()> {
        loop {
            let problem = match request.send(self.limit) {
                Answer::Accepted => {
                    backoff.reset();
                    self.count(|counts| (counts.sent, counts.problem) = (counts.sent + profiles, None));
                    return Some(());
                }
                Answer::Rejected(problem) => {
                    backoff.reset();
                    self.count(|counts| {
                        (counts.rejected, counts.problem) = (counts.rejected + profiles, Some(problem));
                    });
                    return Some(());
                }
                Answer::Retry(problem) => problem,
            };
            self.count(|counts| (counts.failures, counts.problem) = (counts.failures + 1, Some(problem)));
            if self.spool.wait_closed(backoff.next()) {
                return None;
            }
            if !self.spool.has(batch) {
                return Some(());
            }
        }
    }
}

#[cfg(test)]
mod fake_server;
#[cfg(test)]
mod tests;
