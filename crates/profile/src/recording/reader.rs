//! A recording opened for reading: the list of its frames, found by the index or by walking.

use heapwise_format::recording::{
    CallRow, Codec, FRAME_HEADER_BYTES, FrameHeader, FrameKind, INDEX_ROW_BYTES, IndexRow, LedgerRow,
    PREAMBLE_BYTES, PreambleError, TRAILER_BYTES, TimelineRow, TimelineState, Trailer, check_preamble,
    checksum, version3,
};

use super::Progress;
use crate::ledger::LedgerHistory;
use crate::model::{Cut, CutReason, Position};

/// Positioned reads of a recording file, and the unpacking of payloads.
pub trait RecordingSource {
    /// Bytes in the file.
    fn len(&self) -> u64;

    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Fills as much of `buffer` as there is at `offset`; returns the number of bytes read.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> usize;

    /// Unpacks a payload of `raw_bytes`; `None` when it cannot.
    fn unpack(&self, codec: Codec, stored: Vec<u8>, raw_bytes: usize) -> Option<Vec<u8>>;
}

/// Why a file could not be opened at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenError {
    /// It does not begin like a recording.
    Preamble(PreambleError),
    /// It holds nothing that could be shown.
    Empty,
}

/// Where a recording stops making sense. Everything before it is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Damage {
    /// Which of the files.
    pub part: usize,
    /// Byte offset in it.
    pub offset: u64,
    /// Kind of the damage.
    pub kind: DamageKind,
    frame: usize,
}

/// Kind of damage at a place of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DamageKind {
    /// The file ends within a frame: its recorder was stopped, or the file was cut.
    Cut,
    /// Bytes that are not a frame header.
    Header,
    /// A payload that does not match its checksum or cannot be unpacked or decoded.
    Payload,
}

impl Damage {
    /// The damage as a fact of a profile.
    #[must_use]
    pub fn cut(&self) -> Cut {
        let reason = match self.kind {
            DamageKind::Cut => CutReason::EndsEarly,
            DamageKind::Header => CutReason::Damaged("bytes that are no frame".into()),
            DamageKind::Payload => CutReason::Damaged("a damaged frame".into()),
        };
        Cut { at: Position::Byte(self.offset), reason, share: None }
    }
}

impl std::fmt::Display for Damage {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let what = match self.kind {
            DamageKind::Cut => "the file ends within a frame",
            DamageKind::Header => "bytes that are no frame",
            DamageKind::Payload => "a damaged frame",
        };
        write!(out, "{what} at byte {}; what comes before it is shown", self.offset)
    }
}

/// A frame and where it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Placed {
    pub part: usize,
    pub offset: u64,
    pub header: FrameHeader,
}

/// One recording: a file, or the files of a rotated one, oldest first.
#[derive(Debug)]
pub struct Recording<S> {
    parts: Vec<S>,
    /// Version of each part.
    versions: Vec<u32>,
    frames: Vec<Placed>,
    damage: Option<Damage>,
    ended: bool,
    progress: Option<Progress>,
}

impl<S: RecordingSource> Recording<S> {
    /// Opens the files of a recording.
    ///
    /// # Errors
    /// When one of them is not a recording, or all are empty.
    pub fn open(parts: Vec<S>) -> Result<Self, OpenError> {
        let versions = Vec::with_capacity(parts.len());
        let mut recording =
            Self { parts, versions, frames: Vec::new(), damage: None, ended: false, progress: None };
        for part in 0..recording.parts.len() {
            recording.open_part(part)?;
            if recording.damage.is_some_and(|damage| damage.kind != DamageKind::Cut) {
                break;
            }
        }
        if recording.frames.iter().all(|frame| frame.header.kind != FrameKind::Process) {
            return Err(OpenError::Empty);
        }
        Ok(recording)
    }

    fn open_part(&mut self, part: usize) -> Result<(), OpenError> {
        let mut head = [0; PREAMBLE_BYTES];
        let got = self.parts[part].read_at(0, &mut head);
        let version = check_preamble(&head[..got.min(PREAMBLE_BYTES)]).map_err(OpenError::Preamble)?;
        self.versions.push(version);
        match self.read_index(part) {
            Some(frames) => {
                self.frames.extend(frames);
                self.ended = true;
            }
            None => {
                self.ended = false;
                self.walk(part);
            }
        }
        Ok(())
    }

    /// The frames by the index at the end of the file; `None` when there is none that can be
    /// trusted.
    fn read_index(&self, part: usize) -> Option<Vec<Placed>> {
        let source = &self.parts[part];
        let end = source.len().checked_sub(TRAILER_BYTES as u64)?;
        let mut trailer = [0; TRAILER_BYTES];
        source.read_at(end, &mut trailer);
        let offset = Trailer::decode(&trailer)?.index_offset;
        let header = self.header_at(part, offset).filter(|header| header.kind == FrameKind::Index)?;
        let payload = self.payload_at(part, offset, &header)?;
        payload
            .chunks_exact(INDEX_ROW_BYTES)
            .map(|row| {
                let row = IndexRow::decode(row)?;
                Some(Placed { part, offset: row.offset, header: row.header })
            })
            .collect()
    }

    /// Finds the frames one after another, up to the end or to damage.
    fn walk(&mut self, part: usize) {
        let mut offset = PREAMBLE_BYTES as u64;
        let end = self.parts[part].len();
        while offset < end {
            let header = self.header_at(part, offset);
            let next =
                header.map(|header| offset + (FRAME_HEADER_BYTES as u64) + u64::from(header.stored_bytes));
            match (header, next) {
                (Some(header), Some(next)) if next <= end => {
                    if header.kind != FrameKind::Index {
                        self.frames.push(Placed { part, offset, header });
                    }
                    offset = next;
                }
                (header, _) => {
                    let is_cut = header.is_some() || end - offset < FRAME_HEADER_BYTES as u64;
                    let kind = if is_cut { DamageKind::Cut } else { DamageKind::Header };
                    self.damage = Some(Damage { part, offset, kind, frame: self.frames.len() });
                    return;
                }
            }
        }
    }

    fn header_at(&self, part: usize, offset: u64) -> Option<FrameHeader> {
        let mut head = [0; FRAME_HEADER_BYTES];
        let got = self.parts[part].read_at(offset, &mut head);
        FrameHeader::decode(head.get(..got)?)
    }

    fn payload_at(&self, part: usize, offset: u64, header: &FrameHeader) -> Option<Vec<u8>> {
        let mut stored = vec![0; header.stored_bytes as usize];
        let got = self.parts[part].read_at(offset + FRAME_HEADER_BYTES as u64, &mut stored);
        if got < stored.len() || checksum(&stored) != header.checksum {
            return None;
        }
        let raw_bytes = header.raw_bytes as usize;
        self.parts[part].unpack(header.codec, stored, raw_bytes).filter(|raw| raw.len() == raw_bytes)
    }

    /// All frames in the order of time.
    pub(super) fn frames(&self) -> &[Placed] {
        &self.frames
    }

    /// The unpacked payload of a frame.
    pub(super) fn payload(&self, frame: usize) -> Result<Vec<u8>, Damage> {
        let placed = self.frames[frame];
        if let Some(progress) = self.progress.as_ref().filter(|_| placed.header.kind == FrameKind::Events) {
            progress.report(placed.header.stored_bytes.into());
        }
        self.payload_at(placed.part, placed.offset, &placed.header).ok_or_else(|| self.damaged(frame))
    }

    /// Whether a frame is of version 3.
    pub(super) fn is_version3(&self, frame: &Placed) -> bool {
        self.versions.get(frame.part) == Some(&version3::VERSION)
    }

    /// The damage that a frame with a wrong payload is.
    pub(super) fn damaged(&self, frame: usize) -> Damage {
        let placed = self.frames[frame];
        Damage { part: placed.part, offset: placed.offset, kind: DamageKind::Payload, frame }
    }

    /// Where the recording stops making sense, if it does.
    #[must_use]
    pub fn damage(&self) -> Option<Damage> {
        self.damage
    }

    /// Whether the recorder ended properly and wrote its index.
    #[must_use]
    pub fn is_ended(&self) -> bool {
        self.ended && self.damage.is_none()
    }

    /// Drops everything from `damage` on, as found by a read that failed.
    pub(crate) fn cut_at(&mut self, damage: Damage) {
        self.frames.truncate(damage.frame);
        self.damage = Some(damage);
    }

    /// Runs a read; on damage cuts the recording there and runs it again, so that it always
    /// succeeds with what is before the damage.
    pub fn read<T>(&mut self, mut read: impl FnMut(&Self) -> Result<T, Damage>) -> Option<T> {
        loop {
            match read(self) {
                Ok(value) => return Some(value),
                Err(damage) if damage.frame < self.frames.len() => self.cut_at(damage),
                Err(_) => return None,
            }
        }
    }

    /// Reports every events frame that is read from now on, or none.
    pub fn set_progress(&mut self, progress: Option<Progress>) {
        self.progress = progress;
    }

    /// Bytes of all frames of events in the files.
    #[must_use]
    pub fn event_bytes(&self) -> u64 {
        let events = self.frames.iter().filter(|frame| frame.header.kind == FrameKind::Events);
        events.map(|frame| u64::from(frame.header.stored_bytes)).sum()
    }

    /// Number of files.
    #[must_use]
    pub fn parts(&self) -> usize {
        self.parts.len()
    }

    /// First and one past the last millisecond with events.
    #[must_use]
    pub fn span_ms(&self) -> (u64, u64) {
        let mut events = self.frames.iter().filter(|frame| frame.header.kind == FrameKind::Events);
        let first = events.clone().map(|frame| frame.header.first).min().unwrap_or(0);
        let last = events.by_ref().map(|frame| frame.header.last + 1).max().unwrap_or(0);
        (first, last)
    }

    /// The lines of the ledger over time.
    ///
    /// # Errors
    /// At the first damaged frame.
    pub fn ledger_history(&self) -> Result<LedgerHistory, Damage> {
        let mut history = LedgerHistory::default();
        for (number, frame) in self.frames.iter().enumerate() {
            if frame.header.kind == FrameKind::Ledger {
                let (payload, mut at) = (self.payload(number)?, 0);
                while at < payload.len() {
                    let row = LedgerRow::decode(&payload, &mut at).ok_or_else(|| self.damaged(number))?;
                    history.add(row.ms, &String::from_utf8_lossy(row.name), row.bytes);
                }
            }
        }
        Ok(history)
    }

    /// Calls that returned or created memory, in the order of their frames.
    ///
    /// # Errors
    /// At the first damaged frame.
    pub(super) fn call_rows(&self) -> Result<Vec<CallRow>, Damage> {
        let mut rows = Vec::new();
        for (number, frame) in self.frames.iter().enumerate() {
            if frame.header.kind == FrameKind::Calls {
                let (payload, mut at) = (self.payload(number)?, 0);
                while at < payload.len() {
                    rows.push(CallRow::decode(&payload, &mut at).ok_or_else(|| self.damaged(number))?);
                }
            }
        }
        Ok(rows)
    }

    /// The rows of the timeline in the order of time; several may have the same start.
    pub(super) fn timeline_rows(&self) -> Result<Vec<TimelineRow>, Damage> {
        let mut rows = Vec::new();
        for (number, frame) in self.frames.iter().enumerate() {
            if frame.header.kind == FrameKind::Timeline {
                let payload = self.payload(number)?;
                let (mut state, mut at) = (TimelineState::default(), 0);
                while at < payload.len() {
                    rows.push(state.decode(&payload, &mut at).ok_or_else(|| self.damaged(number))?);
                }
            }
        }
        Ok(rows)
    }
}
