//! Names of declared frames, each once in the segment.
#![allow(unsafe_code)]

use heapwise_format::segment::{Counter, SectionKind};

use super::hash_table::{Hash, HashTable};
use crate::atomics::{AtomicU64, Ordering};
use crate::session::Session;

/// Longest part of a name that is kept.
const LONGEST: usize = 1024;

/// Names of sites and labels that found no room, the first strings of every segment.
const RESERVED: [&[u8]; 3] =
    [b"[out of table space: labels]", b"[out of table space: stacks]", b"[out of table space: sites]"];
/// Index of a reserved name.
pub(super) const OUT_OF_STACKS: usize = 1;
/// Index of a reserved name.
pub(super) const OUT_OF_SITES: usize = 2;
/// The name of labels that found no room.
pub(crate) const OUT_OF_LABELS: u32 = 0;

/// The names of a session. Zeroed memory is valid: none.
pub(crate) struct Strings {
    /// Bytes handed out. Private: the segment may be overwritten by others.
    used: AtomicU64,
    /// From a name to its offset plus 1; the section has 4 MiB.
    known: HashTable,
}

impl Strings {
    /// Unmaps what finds the names. No thread may use it afterwards.
    pub(crate) fn release(&self) {
        self.known.release();
    }
}

/// Starts with the reserved names.
pub(crate) fn describe(session: &Session) {
    for name in RESERVED {
        intern(session, name, b"");
    }
}

/// Offset of a reserved name.
pub(super) fn reserved(name: usize) -> u32 {
    // A length of two bytes, the name, and the end of the name.
    RESERVED.iter().take(name).map(|name| name.len() as u32 + 3).sum()
}

/// Offset of `function\0file`; `None` when there is no room for another.
pub(crate) fn intern(session: &Session, function: &[u8], file: &[u8]) -> Option<u32> {
    let function = function.get(..LONGEST).unwrap_or(function);
    let file = file.get(..LONGEST).unwrap_or(file);
    let store = || store(session, function, file).map(|offset| offset + 1);
    let known = session.strings.known.find_or_insert(&session.segment, hash(function, file), store);
    known.map(|number| number - 1)
}

/// FNV-1a, finished so that its upper bits are as good as the lower.
fn hash(function: &[u8], file: &[u8]) -> Hash {
    let bytes = function.iter().chain(&[0]).chain(file);
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3)
    });
    let mixed = (hash ^ hash >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    Hash(mixed ^ mixed >> 29)
}

/// Longest `function\0file`.
pub(crate) const NAME_BYTES: usize = 2 * LONGEST + 1;

/// Copies the `function\0file` at `offset`; the part of `into` that it takes.
pub(crate) fn copy<'a>(session: &Session, offset: u32, into: &'a mut [u8]) -> &'a [u8] {
    let byte = |at: u64| session.segment.read::<u8>(SectionKind::Strings, u64::from(offset) + at);
    let len = byte(0).zip(byte(1)).map_or(0, |(low, high)| usize::from(u16::from_le_bytes([low, high])));
    let len = len.min(into.len());
    for (at, slot) in (2..).zip(into.iter_mut().take(len)) {
        *slot = byte(at).unwrap_or(0);
    }
    into.get(..len).unwrap_or(&[])
}

fn store(session: &Session, function: &[u8], file: &[u8]) -> Option<u32> {
    let segment = &session.segment;
    let len = function.len() + 1 + file.len();
    let bytes = len as u64 + 2;
    let capacity = segment.section(SectionKind::Strings).capacity;
    let claim = |used: u64| (used + bytes <= capacity).then_some(used + bytes);
    let offset = session.strings.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, claim).ok()?;
    let text = (len as u16).to_le_bytes().into_iter().chain(function.iter().copied()).chain([0]);
    for (at, byte) in (offset..).zip(text.chain(file.iter().copied())) {
        segment.write(SectionKind::Strings, at, byte);
    }
    segment.counter(Counter::Strings).fetch_max(offset + bytes, Ordering::Release);
    Some(offset as u32)
}
