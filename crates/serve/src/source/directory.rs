//! A directory of dumps: each file a stored profile, all of them a series.

use std::fs;
use std::path::PathBuf;
use std::sync::Mutex;

use heapwise_profile::dump_name::DumpName;
use heapwise_profile::{Profile, Values};

use super::file::{load_file, stored};
use super::{Facts, Kind, Source, find_stored};
use crate::error::{HttpError, Result};
use crate::profile_store::Stored;
use crate::timeline::{Mark, Timeline};

/// Files listed of one directory; the newest are kept.
const MOST_FILES: usize = 256;

/// A served directory. Only its own regular files are served: no links, no subdirectories.
#[derive(Debug)]
pub(crate) struct DirectorySource {
    id: String,
    path: PathBuf,
    /// Totals already read for the timeline, by name and version.
    totals: Mutex<Vec<(Stored, Values)>>,
}

impl DirectorySource {
    /// Serves `path` under `id`.
    pub(crate) fn new(id: String, path: PathBuf) -> Self {
        Self { id, path, totals: Mutex::default() }
    }

    /// Live bytes of a dump. A dump that cannot be read is omitted from the curve.
    fn total(&self, stored: &Stored) -> Option<Values> {
        let known =
            |totals: &Vec<(Stored, Values)>| totals.iter().find(|(at, _)| at == stored).map(|(_, sum)| *sum);
        let lock = || self.totals.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(total) = known(&lock()) {
            return Some(total);
        }
        let total = self.load(&stored.name, None).ok()?.total();
        let mut totals = lock();
        totals.retain(|(at, _)| at.name != stored.name);
        totals.push((stored.clone(), total));
        Some(total)
    }
}

impl Source for DirectorySource {
    fn id(&self) -> &str {
        &self.id
    }

    fn facts(&self) -> Result<Facts> {
        Ok(Facts::new(
            Kind::Directory,
            self.path.file_name().unwrap_or(self.path.as_os_str()).to_string_lossy().into_owned(),
            format!("{} profiles in {}", self.stored()?.len(), self.path.display()),
            true,
        ))
    }

    fn stored(&self) -> Result<Vec<Stored>> {
        let entries =
            fs::read_dir(&self.path).map_err(|why| HttpError::failed(format!("{}: {why}", self.id)))?;
        let mut all: Vec<Stored> = entries
            .filter_map(|entry| {
                let entry = entry.ok()?;
                let data = fs::symlink_metadata(entry.path()).ok()?;
                let name = entry.file_name().into_string().ok()?;
                (data.is_file() && data.len() > 0 && !name.starts_with('.')).then(|| stored(name, &data))
            })
            .collect();
        // Allocators number their dumps; the clock of the file system is only the second witness.
        all.sort_by_cached_key(|stored| {
            let label = DumpName::parse(&stored.name);
            (label.prefix, label.pid, label.sequence, stored.time_unix_ms, stored.name.clone())
        });
        all.reverse();
        all.truncate(MOST_FILES);
        Ok(all)
    }

    fn load(&self, name: &str, _at: Option<&str>) -> Result<Profile> {
        // A name of the listing, never a path of the request.
        let stored = find_stored(self, name)?;
        Ok(load_file(&self.path.join(stored.name))?)
    }

    fn current(&self) -> Result<Profile> {
        let newest = self.stored()?.into_iter().next();
        let newest = newest.ok_or_else(|| HttpError::missing("the directory holds no profile yet"))?;
        self.load(&newest.name, None)
    }

    fn timeline(&self) -> Result<Timeline> {
        let mut all = self.stored()?;
        all.reverse();
        let start = all.iter().filter_map(|stored| stored.time_unix_ms).min();
        let mut timeline = Timeline { start_unix_ms: start, ..Timeline::default() };
        for (at, stored) in all.iter().enumerate() {
            let Some(total) = self.total(stored) else { continue };
            // Dumps written within one second would lie on each other: number them instead.
            let ms = match (start, all.last().and_then(|last| last.time_unix_ms)) {
                (Some(first), Some(last)) if last > first + 1000 => {
                    stored.time_unix_ms.unwrap_or(first).saturating_sub(first)
                }
                _ => at as u64 * 1000,
            };
            timeline.points.push((ms, total.inuse_bytes.max(0.0) as u64));
            timeline.marks.push(Mark { ms, name: stored.name.clone(), profile: Some(stored.name.clone()) });
        }
        timeline.peak =
            timeline.points.iter().max_by_key(|point| point.1).map(|(ms, bytes)| (Some(*ms), *bytes));
        Ok(timeline)
    }
}
