//! Reading on several threads: sums over frames may be read in shares, in any order.

use std::ops::Range;

use super::{Damage, Recording, RecordingSource};

/// Called for every events frame that is read, with its bytes in the file.
pub struct Progress(Box<dyn Fn(u64) + Send + Sync>);

impl Progress {
    /// Calls `report` from any thread.
    pub fn new(report: impl Fn(u64) + Send + Sync + 'static) -> Self {
        Self(Box::new(report))
    }

    pub(super) fn report(&self, bytes: u64) {
        (self.0)(bytes);
    }
}

impl std::fmt::Debug for Progress {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("Progress")
    }
}

impl<S: RecordingSource> Recording<S> {
    /// Ranges of about equal size that make up `frames`, for `jobs` readers.
    #[must_use]
    pub(super) fn shares(&self, frames: Range<usize>, jobs: usize) -> Vec<Range<usize>> {
        let bytes_of = |number: usize| u64::from(self.frames()[number].header.stored_bytes);
        let total: u64 = frames.clone().map(bytes_of).sum();
        let share = total / jobs.max(1) as u64 + 1;
        let (mut shares, mut start, mut bytes) = (Vec::new(), frames.start, 0);
        for number in frames.clone() {
            bytes += bytes_of(number);
            if bytes >= share || number + 1 == frames.end {
                shares.push(start..number + 1);
                (start, bytes) = (number + 1, 0);
            }
        }
        shares
    }
}

/// Reads each share on a thread of its own; the results in the order of the shares, or the first
/// damage.
pub(super) fn read_shares<T: Send>(
    shares: Vec<Range<usize>>,
    read: impl Fn(Range<usize>) -> Result<T, Damage> + Sync,
) -> Result<Vec<T>, Damage> {
    if shares.len() <= 1 {
        return shares.into_iter().map(read).collect();
    }
    let read = &read;
    std::thread::scope(|scope| {
        let readers: Vec<_> = shares.into_iter().map(|share| scope.spawn(move || read(share))).collect();
        readers
            .into_iter()
            .map(|reader| reader.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    })
}
