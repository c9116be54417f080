//! Page 0: the process of this segment, the version that wrote it, and its section table.

use super::{Layout, PAGE_BYTES, Section, SectionKind};
use crate::bytes::{array_at, text, u32_at, u64_at};
use crate::paths::ProcessId;

/// First eight bytes of a segment.
pub const MAGIC: u64 = u64::from_le_bytes(*b"HEAPWISE");
/// Layout version. A reader and a probe of different versions refuse each other.
pub const VERSION: u32 = 13;

/// State of the probe of this segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u64)]
pub enum State {
    /// Being set up.
    Starting = 0,
    /// In use.
    Ready = 1,
    /// The program ended by `exit`; nothing more will be written.
    Exited = 2,
    /// The probe is inactive; [`super::Counter::Errno`] holds the reason.
    StoodAside = 3,
    /// The program replaced itself by `exec`.
    Replaced = 4,
}

impl State {
    /// Anything unknown is [`State::Starting`].
    #[must_use]
    pub fn from_word(word: u64) -> Self {
        match word {
            1 => State::Ready,
            2 => State::Exited,
            3 => State::StoodAside,
            4 => State::Replaced,
            _ => State::Starting,
        }
    }
}

/// The allocator underneath.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum AllocatorKind {
    /// Not recognised.
    Other = 0,
    /// glibc.
    Glibc = 1,
    /// jemalloc.
    Jemalloc = 2,
    /// tcmalloc (gperftools or google/tcmalloc).
    Tcmalloc = 3,
    /// mimalloc.
    Mimalloc = 4,
    /// musl.
    Musl = 5,
}

impl AllocatorKind {
    fn from_word(word: u32) -> Self {
        match word {
            1 => Self::Glibc,
            2 => Self::Jemalloc,
            3 => Self::Tcmalloc,
            4 => Self::Mimalloc,
            5 => Self::Musl,
            _ => Self::Other,
        }
    }

    /// The name in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Other => "other",
            Self::Glibc => "glibc",
            Self::Jemalloc => "jemalloc",
            Self::Tcmalloc => "tcmalloc",
            Self::Mimalloc => "mimalloc",
            Self::Musl => "musl",
        }
    }
}

/// Instruction set of the program: its ELF machine number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Architecture {
    /// x86-64.
    X86_64 = 62,
    /// aarch64.
    Aarch64 = 183,
}

/// Page 0, decoded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// The process.
    pub process: ProcessId,
    /// Parent's pid at start.
    pub parent_pid: u32,
    /// Effective user id.
    pub uid: u32,
    /// Instruction set.
    pub architecture: Architecture,
    /// Allocator underneath.
    pub allocator: AllocatorKind,
    /// `CLOCK_MONOTONIC` nanoseconds at start of the probe.
    pub start_monotonic_ns: u64,
    /// `CLOCK_REALTIME` nanoseconds at the same moment.
    pub start_realtime_ns: u64,
    /// Where the sections are.
    pub layout: Layout,
    /// Path of the executable, NUL-padded.
    pub exe: [u8; Self::EXE_BYTES],
    /// Command line as `/proc/self/cmdline` has it (NUL between arguments), cut to fit.
    pub cmdline: [u8; Self::CMDLINE_BYTES],
}

/// Why bytes are not a usable segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeaderError {
    /// Shorter than a header.
    Short,
    /// Not a segment at all.
    Magic,
    /// A segment of another version.
    Version(u32),
    /// An impossible field, at this byte offset.
    Field(usize),
}

// Byte offsets of the fields.
const AT_VERSION: usize = 8;
const AT_ARCHITECTURE: usize = 12;
const AT_PID: usize = 16;
const AT_PARENT_PID: usize = 20;
const AT_STARTTIME: usize = 24;
const AT_UID: usize = 32;
const AT_ALLOCATOR: usize = 36;
const AT_START_MONOTONIC: usize = 40;
const AT_START_REALTIME: usize = 48;
const AT_FILE_BYTES: usize = 56;
const AT_SECTIONS: usize = 64;
const AT_EXE: usize = 1024;
const AT_CMDLINE: usize = 2048;
const SECTION_BYTES: usize = 24;
const _: () = assert!(AT_SECTIONS + SectionKind::ALL.len() * SECTION_BYTES <= AT_EXE);
const _: () = assert!(AT_CMDLINE + Header::CMDLINE_BYTES <= PAGE_BYTES);

impl Header {
    /// Room for the executable's path.
    pub const EXE_BYTES: usize = 1024;
    /// Room for the command line.
    pub const CMDLINE_BYTES: usize = 2048;

    /// Bytes that [`Header::beginning`] reads.
    pub const PREFIX_BYTES: usize = AT_FILE_BYTES;

    /// `start_monotonic_ns` from the first bytes of a segment, of any version; `None` when they are
    /// of something else.
    #[must_use]
    pub fn beginning(prefix: &[u8; Self::PREFIX_BYTES]) -> Option<u64> {
        u64_at(prefix, 0).filter(|magic| *magic == MAGIC)?;
        u64_at(prefix, AT_START_MONOTONIC)
    }

    /// Path of the executable.
    #[must_use]
    pub fn exe(&self) -> &[u8] {
        text(&self.exe)
    }

    /// Writes page 0.
    pub fn encode(&self, page: &mut [u8; PAGE_BYTES]) {
        let mut put = |at: usize, bytes: &[u8]| {
            if let Some(target) = page.get_mut(at..at + bytes.len()) {
                target.copy_from_slice(bytes);
            }
        };
        put(0, &MAGIC.to_le_bytes());
        put(AT_VERSION, &VERSION.to_le_bytes());
        put(AT_ARCHITECTURE, &(self.architecture as u32).to_le_bytes());
        put(AT_PID, &self.process.pid.to_le_bytes());
        put(AT_PARENT_PID, &self.parent_pid.to_le_bytes());
        put(AT_STARTTIME, &self.process.starttime.to_le_bytes());
        put(AT_UID, &self.uid.to_le_bytes());
        put(AT_ALLOCATOR, &(self.allocator as u32).to_le_bytes());
        put(AT_START_MONOTONIC, &self.start_monotonic_ns.to_le_bytes());
        put(AT_START_REALTIME, &self.start_realtime_ns.to_le_bytes());
        put(AT_FILE_BYTES, &self.layout.file_bytes().to_le_bytes());
        for (row, section) in self.layout.sections().iter().enumerate() {
            let at = AT_SECTIONS + row * SECTION_BYTES;
            put(at, &section.offset.to_le_bytes());
            put(at + 8, &section.capacity.to_le_bytes());
            put(at + 16, &section.record_bytes.to_le_bytes());
        }
        put(AT_EXE, &self.exe);
        put(AT_CMDLINE, &self.cmdline);
    }

    /// Reads and checks page 0.
    ///
    /// # Errors
    /// When the bytes are not a segment of this version, or a field is invalid.
    pub fn decode(page: &[u8]) -> Result<Self, HeaderError> {
        if page.len() < PAGE_BYTES {
            return Err(HeaderError::Short);
        }
        let word = |at| u32_at(page, at).ok_or(HeaderError::Short);
        let long = |at| u64_at(page, at).ok_or(HeaderError::Short);
        if long(0)? != MAGIC {
            return Err(HeaderError::Magic);
        }
        if word(AT_VERSION)? != VERSION {
            return Err(HeaderError::Version(word(AT_VERSION)?));
        }
        let mut sections = [Section::default(); SectionKind::ALL.len()];
        for (row, section) in sections.iter_mut().enumerate() {
            let at = AT_SECTIONS + row * SECTION_BYTES;
            *section = Section { offset: long(at)?, capacity: long(at + 8)?, record_bytes: long(at + 16)? };
        }
        let layout =
            Layout::from_sections(sections, long(AT_FILE_BYTES)?).ok_or(HeaderError::Field(AT_SECTIONS))?;
        Self::decode_process(page, layout)
    }

    /// Reads the process fields of page 0, of any segment version, and replaces the segment's
    /// layout by `layout`: recordings contain the page and may be older than the reader.
    ///
    /// # Errors
    /// When the bytes are not a segment, or a field is invalid.
    pub fn decode_process(page: &[u8], layout: Layout) -> Result<Self, HeaderError> {
        let word = |at| u32_at(page, at).ok_or(HeaderError::Short);
        let long = |at| u64_at(page, at).ok_or(HeaderError::Short);
        if long(0)? != MAGIC {
            return Err(HeaderError::Magic);
        }
        let architecture = match word(AT_ARCHITECTURE)? {
            62 => Architecture::X86_64,
            183 => Architecture::Aarch64,
            _ => return Err(HeaderError::Field(AT_ARCHITECTURE)),
        };
        Ok(Self {
            process: ProcessId { pid: word(AT_PID)?, starttime: long(AT_STARTTIME)? },
            parent_pid: word(AT_PARENT_PID)?,
            uid: word(AT_UID)?,
            architecture,
            allocator: AllocatorKind::from_word(word(AT_ALLOCATOR)?),
            start_monotonic_ns: long(AT_START_MONOTONIC)?,
            start_realtime_ns: long(AT_START_REALTIME)?,
            layout,
            exe: array_at(page, AT_EXE).ok_or(HeaderError::Short)?,
            cmdline: array_at(page, AT_CMDLINE).ok_or(HeaderError::Short)?,
        })
    }

    /// A header for `process`, before further fields are known.
    #[must_use]
    pub fn new(process: ProcessId, architecture: Architecture, layout: Layout) -> Self {
        Self {
            process,
            parent_pid: 0,
            uid: 0,
            architecture,
            allocator: AllocatorKind::Other,
            start_monotonic_ns: 0,
            start_realtime_ns: 0,
            layout,
            exe: [0; Self::EXE_BYTES],
            cmdline: [0; Self::CMDLINE_BYTES],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bytes::set_text;
    use crate::segment::Tier;

    fn header() -> Header {
        let process = ProcessId { pid: 7, starttime: 9 };
        let mut header = Header::new(process, Architecture::X86_64, Layout::new(Tier::Full));
        set_text(&mut header.exe, b"/bin/true");
        header
    }

    #[test]
    fn round_trip() {
        let mut page = [0; PAGE_BYTES];
        header().encode(&mut page);
        assert_eq!(Header::decode(&page), Ok(header()));
    }

    #[test]
    fn the_beginning_is_told_of_any_version() {
        let mut page = [0; PAGE_BYTES];
        let beginning = |page: &[u8]| Header::beginning(page.first_chunk().expect("long enough"));
        assert_eq!(beginning(&page), None);
        Header { start_monotonic_ns: 77, ..header() }.encode(&mut page);
        page[AT_VERSION] = 99;
        assert_eq!(beginning(&page), Some(77));
    }

    #[test]
    fn other_versions_and_strangers_are_refused() {
        let mut page = [0; PAGE_BYTES];
        assert_eq!(Header::decode(&page), Err(HeaderError::Magic));
        assert_eq!(Header::decode(&page[..100]), Err(HeaderError::Short));
        header().encode(&mut page);
        page[AT_VERSION] = 99;
        assert_eq!(Header::decode(&page), Err(HeaderError::Version(99)));
    }

    #[test]
    fn no_corrupt_byte_makes_decoding_panic() {
        let mut page = [0; PAGE_BYTES];
        header().encode(&mut page);
        for at in 0..AT_EXE {
            for value in [0, 1, 0x7f, 0xff] {
                let mut bad = page;
                bad[at] = value;
                let _ = Header::decode(&bad);
            }
        }
    }
}
