//! How a recording is read: on how many threads, and the progress callback.

use std::fmt;
use std::sync::Arc;

use heapwise_profile::read::Limit;
use heapwise_profile::recording::Progress;

/// Makes the progress of one reading from the number of bytes to read.
type MakeProgress = dyn Fn(u64) -> Progress + Send + Sync;

/// How a recording is read.
#[derive(Clone)]
pub struct ReadOptions {
    /// Threads.
    pub jobs: usize,
    /// Whether blocks of different sizes are counted separately: one sample per site and size, not
    /// one per site. All events are read then.
    pub by_size: bool,
    /// Limit of profile files.
    pub limit: Limit,
    progress: Option<Arc<MakeProgress>>,
}

impl Default for ReadOptions {
    /// On every core, without progress.
    fn default() -> Self {
        let jobs = std::thread::available_parallelism().map_or(1, usize::from);
        Self { jobs, by_size: false, limit: Limit::default(), progress: None }
    }
}

impl ReadOptions {
    /// The same, with progress reported to the progress that `make` returns for a number of bytes.
    #[must_use]
    pub fn with_progress(self, make: impl Fn(u64) -> Progress + Send + Sync + 'static) -> Self {
        Self { progress: Some(Arc::new(make)), ..self }
    }

    /// The progress of a reading of `total_bytes` of events.
    pub(crate) fn progress(&self, total_bytes: u64) -> Option<Progress> {
        self.progress.as_deref().map(|make| make(total_bytes))
    }
}

impl fmt::Debug for ReadOptions {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("ReadOptions").field("jobs", &self.jobs).finish_non_exhaustive()
    }
}
