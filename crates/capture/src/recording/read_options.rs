//! How a recording is read: on how many threads, and who is told of the progress.

use std::fmt;
use std::sync::Arc;

use heapwise_profile::recording::Watcher;

/// Makes the watcher of one reading from the number of bytes to read.
type MakeWatcher = dyn Fn(u64) -> Watcher + Send + Sync;

/// How a recording is read.
#[derive(Clone)]
pub struct ReadOptions {
    /// Threads.
    pub jobs: usize,
    watcher: Option<Arc<MakeWatcher>>,
}

impl Default for ReadOptions {
    /// On every core, without progress.
    fn default() -> Self {
        let jobs = std::thread::available_parallelism().map_or(1, usize::from);
        Self { jobs, watcher: None }
    }
}

impl ReadOptions {
    /// The same, with progress reported to the watcher that `make` returns for a number of bytes.
    #[must_use]
    pub fn watched_by(self, make: impl Fn(u64) -> Watcher + Send + Sync + 'static) -> Self {
        Self { watcher: Some(Arc::new(make)), ..self }
    }

    /// The watcher of a reading of `total_bytes` of events.
    pub(crate) fn watcher(&self, total_bytes: u64) -> Option<Watcher> {
        self.watcher.as_deref().map(|make| make(total_bytes))
    }
}

impl fmt::Debug for ReadOptions {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("ReadOptions").field("jobs", &self.jobs).finish_non_exhaustive()
    }
}
