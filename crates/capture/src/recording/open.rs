//! Opening recordings by name: one file, or the numbered files of a rotated one.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use heapwise_format::recording::{
    Codec, MAGIC, PREAMBLE_BYTES, PreambleError, TIMELINE_ROW_MS, VERSION, version3,
};
use heapwise_profile::recording::{OpenError, Recording, RecordingSource, Tables, TimeRange, Timeline};

use super::moment::{self, Moment, Times};
use super::packing;
use super::read_options::ReadOptions;
use super::rotation::numbered;
use crate::failure::{Failure, Outcome};
use crate::positioned_read;
use heapwise_profile::calendar::Utc;
use heapwise_profile::quantity;

/// A recording file.
#[derive(Debug)]
pub struct RecordingFile {
    file: File,
    bytes: u64,
}

impl RecordingSource for RecordingFile {
    fn len(&self) -> u64 {
        self.bytes
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> usize {
        positioned_read::read_at(&self.file, offset, buffer)
    }

    fn unpack(&self, codec: Codec, stored: Vec<u8>, raw_bytes: usize) -> Option<Vec<u8>> {
        packing::unpack(codec, stored, raw_bytes)
    }
}

/// An open recording with its tables.
#[derive(Debug)]
pub struct Opened {
    /// The events.
    pub recording: Recording<RecordingFile>,
    /// The tables.
    pub tables: Tables,
    /// Its path.
    pub path: PathBuf,
    /// Threads that read it.
    pub jobs: usize,
    /// Whether blocks of different sizes are counted separately.
    pub by_size: bool,
    /// What is wrong with it, one line each.
    pub warnings: Vec<String>,
}

impl Opened {
    /// The moment that `text` names.
    pub fn moment(&mut self, text: &str, step_ms: u64) -> Outcome<Moment> {
        // The timeline is read only for words that may refer to it.
        let peak = text.contains("peak").then(|| self.peak_row()).flatten();
        moment::parse(text, Times { span_ms: self.span_ms(), marks: &self.tables.marks, peak }, step_ms)
    }

    /// The row of the timeline with most live bytes.
    fn peak_row(&mut self) -> Option<TimeRange> {
        let rows = self.recording.read(|recording| Timeline::read(recording, TIMELINE_ROW_MS))?;
        let from_ms = rows.peak()?.start_ms;
        Some(TimeRange { from_ms, to_ms: from_ms.saturating_add(rows.step_ms) })
    }

    /// First and last millisecond. A killed recorder may leave marks later than its last event.
    fn span_ms(&self) -> (u64, u64) {
        let (first, end) = self.recording.span_ms();
        (first, self.tables.marks.iter().map(|mark| mark.ms).fold(end, u64::max))
    }

    /// Its length and start: `7.34 s from 2026-11-18 05:14:03 UTC`.
    pub fn time_span(&self) -> String {
        let (first, end) = self.span_ms();
        let length = quantity::duration(Duration::from_millis(end - first));
        format!("{length} from {}", self.start(first))
    }

    /// The time of day at a millisecond.
    fn start(&self, first_ms: u64) -> Utc {
        let start_ns = self.tables.start_unix_ns.saturating_add(first_ms.saturating_mul(1_000_000));
        Utc::from_unix(start_ns / 1_000_000_000)
    }

    /// What it covers, in the gs driver's wording.
    pub fn contains(&self) -> String {
        let (first, end) = self.span_ms();
        let start = self.start(first);
        format!("profiler contains record for {} ms, start from {first} ms ({start})", end - first)
    }
}

/// Whether `path` names a recording: a file with its magic number, or numbered files of that name.
pub fn is_recording(path: &Path) -> bool {
    let begins = |path: &Path| {
        let mut magic = [0; 8];
        File::open(path).and_then(|file| file.read_exact_at(&mut magic, 0)).is_ok()
            && u64::from_le_bytes(magic) == MAGIC
    };
    if path.is_file() {
        begins(path)
    } else {
        files(path).is_ok_and(|files| files.last().is_some_and(|path| begins(path)))
    }
}

/// Opens a recording. Of a rotated one, the newest files without a gap between them.
pub fn open(path: &Path, options: &ReadOptions) -> Outcome<Opened> {
    let mut parts = Vec::new();
    let files = files(path)?;
    let is_cut = !path.is_file() && numbered(path).last().map(|(_, last)| last) != files.last();
    for file in files {
        let open = File::open(&file).map_err(|error| Failure::file(&file, error))?;
        let bytes = open.metadata().map_err(|error| Failure::file(&file, error))?.len();
        parts.push(RecordingFile { file: open, bytes });
    }
    let mut recording = Recording::open(parts).map_err(|error| Failure::file(path, describe(error)))?;
    let tables = recording
        .read(Tables::read)
        .ok_or_else(|| Failure::file(path, "is damaged from its beginning; nothing can be read"))?;
    let mut warnings = Vec::new();
    if let Some(damage) = recording.damage() {
        warnings.push(format!("{}: {damage}", path.display()));
    } else if !recording.is_ended() || is_cut {
        warnings.push(format!(
            "{}: not ended: its recorder still runs or was killed; shown up to its last flush",
            path.display()
        ));
    }
    recording.set_progress(options.progress(recording.event_bytes()));
    let ReadOptions { jobs, by_size, .. } = *options;
    Ok(Opened { recording, tables, path: path.to_owned(), jobs, by_size, warnings })
}

/// The files of a recording, oldest first: the newest ones without a gap between them. A file that
/// a killed recorder had only just created is passed over.
pub fn files(path: &Path) -> Outcome<Vec<PathBuf>> {
    if path.is_file() {
        return Ok(vec![path.to_owned()]);
    }
    let mut run: Vec<PathBuf> = Vec::new();
    let mut expected = None;
    for (number, file) in numbered(path).into_iter().rev().skip_while(|(_, file)| is_short(file)) {
        if expected.is_some_and(|expected| expected != number) {
            break;
        }
        expected = number.checked_sub(1);
        run.insert(0, file);
    }
    if run.is_empty() { Err(Failure::file(path, "no such file")) } else { Ok(run) }
}

/// Whether a file ends before its first frame.
fn is_short(file: &Path) -> bool {
    file.metadata().is_ok_and(|data| data.len() <= PREAMBLE_BYTES as u64)
}

/// Said of a file of which a moment is wanted.
pub(crate) const NOT_A_RECORDING: &str = "is not a recording, so it has one moment only; of a profile, \
                                          `--sample_index peak_space` shows the peak";

fn describe(error: OpenError) -> String {
    match error {
        OpenError::Preamble(PreambleError::Version(found)) => format!(
            "is a recording of version {found}, this heapwise reads versions {} to {VERSION}; \
             use the heapwise that wrote it",
            version3::VERSION
        ),
        OpenError::Preamble(_) => NOT_A_RECORDING.into(),
        OpenError::Empty => "holds nothing yet: its recorder was stopped before the first flush".into(),
    }
}
