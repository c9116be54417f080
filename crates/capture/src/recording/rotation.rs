//! Numbered files of limited size, each readable on its own, the oldest removed: `app-1.hwr`,
//! `app-2.hwr`, …
//!
//! The number of files to keep is in `app.keep` beside them, on one line. It is read again at every
//! rotation, so it can be changed during the recording.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use heapwise_profile::recording::RawFrame;

use super::sink::Opening;
use super::writer::Writer;
use crate::own_files::{self, create_output};

/// A rotating recording.
#[derive(Debug)]
pub struct Rotation {
    base: PathBuf,
    limit_bytes: u64,
    keep: usize,
    number: u64,
    writer: Writer,
    /// Its lock keeps other recordings of this name away.
    _keep_file: File,
}

impl Rotation {
    /// Begins with file 1. Numbered files of an earlier recording of this name go away, which only
    /// `-f` allows ([`existing`]): a run of files is read together, so two recordings must not mix.
    pub fn create(base: &Path, limit_bytes: u64, keep: usize) -> io::Result<Self> {
        let mut keep_file = create_output(&keep_file(base))?;
        keep_file.write_all(format!("{keep}\n").as_bytes())?;
        for (_, path) in numbered(base) {
            fs::remove_file(path)?;
        }
        let writer = Writer::create(&name(base, 1))?;
        Ok(Self { base: base.to_owned(), limit_bytes, keep, number: 1, writer, _keep_file: keep_file })
    }

    /// Writes a frame to the current file.
    pub fn put(&mut self, frame: &RawFrame) -> io::Result<()> {
        self.writer.put(frame)
    }

    /// Whether the current file has reached its size.
    pub fn is_full(&self) -> bool {
        self.writer.bytes() >= self.limit_bytes
    }

    /// Ends the current file, begins the next, removes the oldest.
    pub fn turn(&mut self, opening: &Opening) -> io::Result<()> {
        self.number += 1;
        let next = Writer::create(&name(&self.base, self.number))?;
        std::mem::replace(&mut self.writer, next).end()?;
        opening.write(&mut self.writer)?;
        if let Some(text) = own_files::read(&keep_file(&self.base)) {
            let text = String::from_utf8_lossy(&text);
            self.keep = text.trim().parse().unwrap_or(self.keep).max(1);
        }
        let files = numbered(&self.base);
        for (_, path) in files.iter().take(files.len().saturating_sub(self.keep)) {
            fs::remove_file(path)?;
        }
        Ok(())
    }

    /// Ends the last file; returns the name that covers all of them.
    pub fn end(self) -> io::Result<PathBuf> {
        self.writer.end()?;
        Ok(self.base)
    }
}

/// A file of an earlier recording of this name.
pub fn existing(base: &Path) -> Option<PathBuf> {
    numbered(base).into_iter().map(|(_, path)| path).next()
}

/// Name of the `number`-th file: `app.hwr` → `app-3.hwr`.
fn name(base: &Path, number: u64) -> PathBuf {
    let stem = base.file_stem().unwrap_or_default().to_string_lossy();
    let end = base.extension().map(|end| format!(".{}", end.to_string_lossy())).unwrap_or_default();
    base.with_file_name(format!("{stem}-{number}{end}"))
}

fn keep_file(base: &Path) -> PathBuf {
    base.with_extension("keep")
}

/// The numbered files of a recording, oldest first.
pub(super) fn numbered(base: &Path) -> Vec<(u64, PathBuf)> {
    let directory = base.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    let mut files: Vec<(u64, PathBuf)> = entries
        .filter_map(|entry| {
            let path = base.with_file_name(entry.ok()?.file_name());
            let stem = path.file_stem()?.to_str()?;
            let number: u64 = stem.rsplit_once('-')?.1.parse().ok()?;
            (name(base, number) == path).then_some((number, path))
        })
        .collect();
    files.sort();
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        assert_eq!(name(Path::new("d/app.hwr"), 12), Path::new("d/app-12.hwr"));
        assert_eq!(name(Path::new("app"), 1), Path::new("app-1"));
    }
}
