//! One entry a reader: any bytes in, nothing may go wrong.
//!
//! The same functions are called by libFuzzer (`fuzz_targets/`) and, with a fixed seed and count,
//! by `crates/heapwise/tests/fuzz.rs` on stable Rust.

pub use heapwise::fuzz::jeprof;
use heapwise_capture::recording::moment as moments;
use heapwise_format::recording::{Codec, FRAME_HEADER_BYTES, FrameHeader, FrameKind, preamble};
use heapwise_format::segment::SegmentSource;
use heapwise_profile::query::{Granularity, Query};
use heapwise_profile::recording::{MarkAt, Point, PointInTime, Recording, RecordingSource, Tables, Timeline};
use heapwise_profile::snapshot::Snapshot;
use heapwise_profile::view::top;
use heapwise_profile::{CallTree, Profile, compact as compact_file, quantity, read as read_profile};
pub use heapwise_serve::fuzz::{http, request_target};

/// Reads a profile; what is read can be looked at, and survives its own file.
fn profile(bytes: &[u8]) {
    match read_profile(bytes) {
        Ok(profile) => look(&profile),
        Err(error) => {
            let text = error.to_string();
            assert!(!text.contains('\n') && !text.is_empty(), "an error of one line: {text}");
        }
    }
}

fn look(profile: &Profile) {
    for granularity in [Granularity::Functions, Granularity::Addresses] {
        let query = Query { granularity, ..Query::default() };
        let _ = top::top(&CallTree::new(profile, &query), &query);
    }
    let written = compact_file::encode(profile);
    let again = read_profile(&written).expect("our own file");
    assert_eq!(again.samples.len(), profile.samples.len());
}

/// A format that is known by its first bytes: they are put in front, so that every input gets past.
fn profile_after(magic: &[u8], bytes: &[u8]) {
    profile(&[magic, bytes].concat());
}

/// heapwise's own profile, of this and the older version.
pub fn compact(bytes: &[u8]) {
    profile_after(compact_file::MAGIC, bytes);
    profile_after(compact_file::MAGIC_1, bytes);
}

/// jemalloc's dumps.
pub fn heap_v2(bytes: &[u8]) {
    profile_after(b"heap_v2/", bytes);
}

/// tcmalloc's dumps.
pub fn gperftools(bytes: &[u8]) {
    profile_after(b"heap profile:", bytes);
}

/// `jeprof --raw`.
pub fn symbolized(bytes: &[u8]) {
    profile_after(b"--- symbol\n", bytes);
}

/// `profile.proto`, not packed.
pub fn pprof(bytes: &[u8]) {
    profile(bytes);
}

/// skynet-mprof's `.pro`.
pub fn skynet(bytes: &[u8]) {
    profile_after(&u32::try_from(bytes.len()).unwrap_or(0).to_be_bytes(), bytes);
}

/// heaptrack's events.
pub fn heaptrack(bytes: &[u8]) {
    profile_after(b"v 10400 3\n", bytes);
}

/// Folded stacks, or whatever else text may be taken for.
pub fn folded(bytes: &[u8]) {
    profile(bytes);
}

/// DHAT's JSON.
pub fn dhat(bytes: &[u8]) {
    profile_after(b"{\"dhatFileVersion\":2,", bytes);
}

/// gzip and zstd.
pub fn packed(bytes: &[u8]) {
    profile(bytes);
}

/// A segment as the pieces of it that are not zero: offset (u64), length (u16), bytes.
struct Pieces<'a>(Vec<(u64, &'a [u8])>);

impl<'a> Pieces<'a> {
    fn new(mut bytes: &'a [u8]) -> Self {
        let mut pieces = Vec::new();
        while let Some((head, rest)) = bytes.split_first_chunk::<10>() {
            let (offset, length) = head.split_at(8);
            let offset = u64::from_le_bytes(offset.try_into().unwrap_or_default()) % SEGMENT_BYTES;
            let length = usize::from(u16::from_le_bytes([length[0], length[1]])).min(rest.len());
            pieces.push((offset, &rest[..length]));
            bytes = &rest[length..];
        }
        Self(pieces)
    }
}

/// The largest segments end before.
const SEGMENT_BYTES: u64 = 64 << 30;

impl SegmentSource for Pieces<'_> {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> usize {
        let length = buffer.len().min(SEGMENT_BYTES.saturating_sub(offset) as usize);
        buffer[..length].fill(0);
        for (start, bytes) in &self.0 {
            let from = (*start).max(offset);
            let to = (start + bytes.len() as u64).min(offset + length as u64);
            if from < to {
                let piece = &bytes[(from - start) as usize..(to - start) as usize];
                buffer[(from - offset) as usize..(to - offset) as usize].copy_from_slice(piece);
            }
        }
        length
    }
}

/// The shared segment, as a hostile program may leave it.
pub fn segment(bytes: &[u8]) {
    let source = Pieces::new(bytes);
    if let Ok(snapshot) = Snapshot::open(&source) {
        look(&snapshot.profile());
    }
}

struct InMemory(Vec<u8>);

impl RecordingSource for InMemory {
    fn len(&self) -> u64 {
        self.0.len() as u64
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> usize {
        let rest = usize::try_from(offset).ok().and_then(|offset| self.0.get(offset..)).unwrap_or_default();
        let length = rest.len().min(buffer.len());
        buffer[..length].copy_from_slice(&rest[..length]);
        length
    }

    fn unpack(&self, codec: Codec, stored: Vec<u8>, raw_bytes: usize) -> Option<Vec<u8>> {
        match codec {
            Codec::None => Some(stored),
            Codec::Zstd => zstd::bulk::decompress(&stored, raw_bytes).ok(),
        }
    }
}

/// A recording: frames whose checksums are made right, or nothing behind them would ever be
/// reached. A frame is a header of [`FRAME_HEADER_BYTES`] as in a file, of which the length counts,
/// and its payload.
pub fn recording(bytes: &[u8]) {
    let mut file = preamble().to_vec();
    // Both versions that can be read.
    file[8] = if bytes.len().is_multiple_of(2) { 4 } else { 3 };
    let mut rest = bytes;
    while let Some((head, after)) = rest.split_first_chunk::<FRAME_HEADER_BYTES>() {
        let word = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let long = |at: usize| u64::from(word(at)) | u64::from(word(at + 4)) << 32;
        let length = (word(8) as usize).min(after.len());
        let (payload, next) = after.split_at(length);
        let kind = FrameKind::from_byte(head[4]).unwrap_or(FrameKind::Events);
        let header = FrameHeader {
            number: u16::from_le_bytes([head[6], head[7]]),
            first: long(16),
            last: long(24),
            count: word(32),
            thread: word(36),
            ..FrameHeader::new(kind)
        };
        file.extend(header.seal(Codec::None, length, payload).encode());
        file.extend(payload);
        rest = next;
    }
    replay(InMemory(file));
    replay(InMemory(bytes.to_vec()));
}

fn replay(file: InMemory) {
    let Ok(recording) = Recording::open(vec![file]) else { return };
    let Ok(tables) = Tables::read(&recording) else { return };
    let _ = Timeline::read(&recording, 100);
    for point in [PointInTime::Peak, PointInTime::End, PointInTime::At(Point::Mark(1))] {
        if let Ok((counts, _)) = recording.counts_at(&tables, point, 1) {
            look(&tables.profile(&counts));
        }
    }
    let _ = recording.counts_between(&tables, Point::Mark(1), Point::Mark(2), 1);
    if let Ok((sizes, _)) = recording.sizes_at(&tables, PointInTime::End, 1) {
        look(&tables.profile_by_size(&sizes));
    }
}

/// `HEAPWISE_CONF`, `MALLOC_CONF`, and the amounts of the command line.
pub fn options(bytes: &[u8]) {
    heapwise_probe::test_api::read_options(bytes);
    let text = String::from_utf8_lossy(bytes);
    let _ = quantity::parse_bytes(&text);
    let _ = quantity::parse_rate(&text);
    let _ = quantity::parse_duration(&text);
}

/// A moment of a recording, as `at` takes it.
pub fn moment(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let mark = |ms, name: &str, number| MarkAt { ms, name: name.into(), number };
    let marks = [mark(70, "loaded", 1), mark(u64::MAX, "1s..2s", 0)];
    for span_ms in [(0, 100), (50, u64::MAX)] {
        let times = moments::Times { span_ms, marks: &marks, peak: None };
        for step_ms in [0, 1, 100, u64::MAX] {
            match moments::parse(&text, times, step_ms) {
                Ok(moments::Moment::At(PointInTime::Highest(range))) => {
                    assert!(range.from_ms <= range.to_ms, "{text:?}: {range:?}");
                }
                Ok(_) => {}
                Err(error) => assert!(!error.to_string().is_empty()),
            }
        }
    }
}
