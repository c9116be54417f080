//! One file of any format that heapwise reads.

use std::fs;
use std::path::PathBuf;
use std::time::UNIX_EPOCH;

use heapwise_profile::Profile;

use super::{Facts, Kind, Source, Stored};
use crate::trouble::{Answer, Trouble};
use heapwise_capture::recording::read_options::ReadOptions;

/// A served file. Its only stored profile is itself.
#[derive(Debug)]
pub(crate) struct FileSource {
    id: String,
    path: PathBuf,
}

impl FileSource {
    /// Serves `path` under `id`.
    pub(crate) fn new(id: String, path: PathBuf) -> Self {
        Self { id, path }
    }

    fn name(&self) -> String {
        self.path.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }
}

impl Source for FileSource {
    fn id(&self) -> &str {
        &self.id
    }

    fn facts(&self) -> Answer<Facts> {
        Ok(Facts {
            kind: Kind::File,
            title: self.name(),
            detail: self.path.display().to_string(),
            pid: None,
            mode: None,
            rate_bytes: None,
            live_bytes: None,
            started_unix_ms: None,
            has_timeline: false,
        })
    }

    fn stored(&self) -> Answer<Vec<Stored>> {
        let data = fs::metadata(&self.path).map_err(|why| Trouble::failed(format!("{}: {why}", self.id)))?;
        Ok(vec![stored(self.name(), &data)])
    }

    fn load(&self, _name: &str, _at: Option<&str>) -> Answer<Profile> {
        Ok(heapwise_capture::source::load(&self.path.to_string_lossy(), &ReadOptions::default())?)
    }

    fn current(&self) -> Answer<Profile> {
        self.load("", None)
    }
}

/// A file as a stored profile.
pub(super) fn stored(name: String, data: &fs::Metadata) -> Stored {
    let modified = data.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    let nanos = modified.map_or(0, |time| time.as_nanos() as u64);
    Stored {
        name,
        time_unix_ms: modified.map(|time| time.as_millis() as u64),
        bytes: data.len(),
        version: nanos ^ data.len(),
    }
}
