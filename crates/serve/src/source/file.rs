//! One file of any format that heapwise reads.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use heapwise_profile::Profile;

use super::{Facts, Kind, Source};
use crate::error::{HttpError, Result};
use crate::profile_store::Stored;
use heapwise_capture::failure::Outcome;
use heapwise_capture::recording::open;
use heapwise_capture::recording::read_options::ReadOptions;
use heapwise_capture::target::Target;

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

    fn facts(&self) -> Result<Facts> {
        Ok(Facts::of_file(Kind::File, &self.path, false))
    }

    fn stored(&self) -> Result<Vec<Stored>> {
        let data =
            fs::metadata(&self.path).map_err(|why| HttpError::failed(format!("{}: {why}", self.id)))?;
        Ok(vec![stored(self.name(), &data)])
    }

    fn load(&self, _name: &str, _at: Option<&str>) -> Result<Profile> {
        Ok(load_file(&self.path)?)
    }

    fn current(&self) -> Result<Profile> {
        self.load("", None)
    }
}

/// Reads a profile; of a recording its end.
pub(super) fn load_file(path: &Path) -> Outcome<Profile> {
    let target = match open::is_recording(path) {
        true => Target::recording(path),
        false => Target::File(path.to_owned()),
    };
    Ok(target.load(&ReadOptions::default())?.profile)
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
