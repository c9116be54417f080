//! Answers of earlier runs, one file per build-id, so that a second look opens no binary.
//!
//! A cache file is only a copy of data from the binaries: one that is damaged, of another version,
//! or in a directory others can write to is ignored, and failing to write one is not an error.

mod codec;

use std::{
    collections::BTreeMap,
    fs,
    io::Write,
    path::{Path, PathBuf},
};

use heapwise_profile::{BuildId, Function, Line};

use crate::{Detail, FileOffset, Symbols, image::ImageIdentity, private_file};

/// Larger files are ignored and replaced: 256 MiB are some millions of addresses of one binary.
const MAX_FILE_BYTES: u64 = 256 << 20;

/// All that is remembered of one binary.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Remembered {
    /// How much the binary contained when it was read.
    pub(crate) detail: Detail,
    /// The file that was read: two binaries may have the same build-id, and a stripped file may be
    /// replaced by the whole one.
    pub(crate) image: ImageIdentity,
    pub(crate) functions: Vec<Function>,
    /// By file offset; an empty list is an address known to be unresolvable.
    pub(crate) places: BTreeMap<FileOffset, Vec<Line>>,
}

impl Remembered {
    /// Adds answers for `offsets`.
    pub(crate) fn extend(&mut self, offsets: &[FileOffset], answers: Symbols) {
        let base = self.functions.len();
        self.functions.extend(answers.functions);
        for (offset, mut lines) in offsets.iter().zip(answers.places) {
            for line in &mut lines {
                line.function = heapwise_profile::FunctionId::new(base + line.function.index());
            }
            self.places.insert(*offset, lines);
        }
    }
}

/// Symbols that an earlier run stored for a build-id.
pub(crate) fn load(directory: &Path, build_id: &BuildId) -> Option<Remembered> {
    if build_id.is_empty() || !private_file::is_ours(directory) {
        return None;
    }
    let path = file_of(directory, build_id);
    if fs::metadata(&path).ok()?.len() > MAX_FILE_BYTES {
        return None;
    }
    codec::decode(&fs::read(&path).ok()?, build_id)
}

/// Stores everything known of a build-id, replacing what was there.
pub(crate) fn store(directory: &Path, build_id: &BuildId, known: &Remembered) {
    if build_id.is_empty() {
        return;
    }
    let bytes = codec::encode(known, build_id);
    let path = file_of(directory, build_id);
    // A cache that cannot be written only costs the next run its time.
    let _ = private_file::write(&path, |file| file.write_all(&bytes));
}

fn file_of(directory: &Path, build_id: &BuildId) -> PathBuf {
    directory.join(format!("{build_id}.symbols"))
}
