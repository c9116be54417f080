//! What a receiver has: a file of two numbers.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use heapwise_capture::own_files::{create_temporary, read};

/// The batch that a receiver gets next, and the entries of it that it has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Cursor {
    pub(crate) batch: u64,
    pub(crate) entries: u64,
}

impl Cursor {
    fn path(directory: &Path, receiver: &str) -> PathBuf {
        directory.join(format!("sent-{receiver}"))
    }

    /// The cursor of an earlier run; the beginning where there is none.
    pub(super) fn load(directory: &Path, receiver: &str) -> Self {
        let text = read(&Self::path(directory, receiver)).and_then(|bytes| String::from_utf8(bytes).ok());
        let numbers = text.and_then(|text| {
            let (batch, entries) = text.trim_end().split_once(' ')?;
            Some(Self { batch: batch.parse().ok()?, entries: entries.parse().ok()? })
        });
        numbers.unwrap_or_default()
    }

    /// Replaces the file. It is not synced: after a crash of the machine the receiver gets some
    /// entries twice, with the same ids.
    pub(super) fn save(self, directory: &Path, receiver: &str) -> io::Result<()> {
        let path = Self::path(directory, receiver);
        let temporary = path.with_extension("tmp");
        create_temporary(&temporary)?.write_all(format!("{} {}\n", self.batch, self.entries).as_bytes())?;
        fs::rename(&temporary, &path)
    }
}
