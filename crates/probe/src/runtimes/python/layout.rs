//! Where CPython keeps what a stack consists of: byte offsets by version.
//!
//! Up to 3.12 the offsets are a table, made from the headers of each version. From 3.13 on the
//! interpreter describes itself (`_Py_DebugOffsets` at the start of `_PyRuntime`); only the shape
//! of that description is known here.

/// Offsets of one version of CPython, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Layout {
    /// 8 for CPython 3.8.
    pub(super) minor: u8,
    /// In the thread state: the innermost frame, or (3.11, 3.12) the C frame that names it.
    pub(super) frame: u32,
    /// In the C frame: the innermost frame.
    pub(super) c_frame_frame: u32,
    /// In the thread state: the C frame of the running eval loop (3.10 to 3.12).
    pub(super) c_frame: u32,
    /// In the C frame: that of the eval loop outside.
    pub(super) c_frame_previous: u32,
    /// In the thread state: the thread's id.
    pub(super) thread_id: u32,
    /// In a frame: its caller.
    pub(super) previous: u32,
    /// In a frame: its code object.
    pub(super) code: u32,
    /// In a frame: the instruction (3.11 on: an address; before: an index).
    pub(super) instruction: u32,
    /// In a frame: its owner (3.12 on), or whether an eval loop begins with it (3.11).
    pub(super) owner: u32,
    pub(super) file_name: u32,
    pub(super) name: u32,
    pub(super) line_table: u32,
    pub(super) first_line: u32,
    /// In a code object: its first instruction (3.11 on).
    pub(super) instructions: u32,
    pub(super) string: StringLayout,
    /// In `_PyRuntime`: the thread state that finalizes the interpreter, or null.
    pub(super) finalizing: u32,
    /// In `_PyRuntime`: the thread state that has the lock (up to 3.11).
    pub(super) current: u32,
}

/// Offsets in objects of strings and bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct StringLayout {
    pub(super) length: u32,
    pub(super) state: u32,
    pub(super) ascii: u32,
    pub(super) compact: u32,
    pub(super) bytes_size: u32,
    pub(super) bytes_data: u32,
}

const OLD_STRINGS: StringLayout =
    StringLayout { length: 16, state: 32, ascii: 48, compact: 72, bytes_size: 16, bytes_data: 32 };
const STRINGS_3_12: StringLayout = StringLayout { ascii: 40, compact: 56, ..OLD_STRINGS };

const PYTHON_3_8: Layout = Layout {
    minor: 8,
    frame: 24,
    c_frame_frame: 0,
    c_frame: 0,
    c_frame_previous: 0,
    thread_id: 176,
    previous: 24,
    code: 32,
    instruction: 104,
    owner: 0,
    file_name: 104,
    name: 112,
    line_table: 120,
    first_line: 40,
    instructions: 0,
    string: OLD_STRINGS,
    finalizing: 16,
    current: 1368,
};
const PYTHON_3_9: Layout = Layout { minor: 9, current: 568, ..PYTHON_3_8 };
const PYTHON_3_10: Layout =
    Layout { minor: 10, instruction: 96, c_frame: 48, c_frame_previous: 8, ..PYTHON_3_9 };
pub(super) const PYTHON_3_11: Layout = Layout {
    minor: 11,
    frame: 56,
    c_frame_frame: 8,
    c_frame: 56,
    c_frame_previous: 16,
    thread_id: 152,
    previous: 48,
    code: 32,
    instruction: 56,
    owner: 68,
    file_name: 112,
    name: 128,
    line_table: 136,
    first_line: 72,
    instructions: 184,
    string: OLD_STRINGS,
    finalizing: 24,
    current: 576,
};
const PYTHON_3_12: Layout = Layout {
    minor: 12,
    c_frame_frame: 0,
    c_frame: 0,
    c_frame_previous: 0,
    thread_id: 136,
    previous: 8,
    code: 0,
    owner: 70,
    first_line: 68,
    instructions: 192,
    string: STRINGS_3_12,
    current: 0,
    ..PYTHON_3_11
};
const TABLE: [Layout; 5] = [PYTHON_3_8, PYTHON_3_9, PYTHON_3_10, PYTHON_3_11, PYTHON_3_12];

/// The newest version whose description of itself is known.
const NEWEST: u8 = 15;
/// The first version that describes itself.
const FIRST_SELF_DESCRIBED: u8 = 13;
const COOKIE: u64 = u64::from_le_bytes(*b"xdebugpy");
/// Offsets in `_PyRuntime` and in thread states are smaller.
const MOST_RUNTIME_OFFSET: u64 = 1 << 20;
/// Offsets in frames, code objects and strings are smaller.
const MOST_OBJECT_OFFSET: u64 = 1024;
/// Bytes between the data of an ASCII string and of another compact one, in every version so far.
const COMPACT_BEHIND_ASCII: u32 = 16;

/// Why the layout is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unsupported {
    /// Built without the global interpreter lock.
    FreeThreaded,
    /// The version is not known.
    Version,
}

impl Layout {
    /// The layout of CPython 3.`minor`; `word` reads a word of `_PyRuntime`.
    pub(super) fn of(minor: u8, word: impl Fn(usize) -> u64) -> Result<Layout, Unsupported> {
        if let Some(layout) = TABLE.into_iter().find(|layout| layout.minor == minor) {
            return Ok(layout);
        }
        if !(FIRST_SELF_DESCRIBED..=NEWEST).contains(&minor) || word(0) != COOKIE {
            return Err(Unsupported::Version);
        }
        if word(2) != 0 {
            return Err(Unsupported::FreeThreaded);
        }
        let words = DebugOffsets::of(minor);
        let runtime = |index| offset(word(index), MOST_RUNTIME_OFFSET);
        let object = |index| offset(word(index), MOST_OBJECT_OFFSET);
        let described = || {
            let ascii = object(words.string + 3)?;
            Some(Layout {
                minor,
                frame: runtime(words.thread_state + 4)?,
                thread_id: runtime(words.thread_id)?,
                previous: object(words.frame + 1)?,
                code: object(words.frame + 2)?,
                instruction: object(words.frame + 3)?,
                owner: object(words.frame + 5)?,
                file_name: object(words.code + 1)?,
                name: object(words.code + 3)?,
                line_table: object(words.code + 4)?,
                first_line: object(words.code + 5)?,
                instructions: object(words.code + 9)?,
                string: StringLayout {
                    state: object(words.string + 1)?,
                    length: object(words.string + 2)?,
                    ascii,
                    compact: ascii + COMPACT_BEHIND_ASCII,
                    bytes_size: object(words.bytes + 1)?,
                    bytes_data: object(words.bytes + 2)?,
                },
                finalizing: runtime(4)?,
                c_frame_frame: 0,
                c_frame: 0,
                c_frame_previous: 0,
                current: 0,
            })
        };
        described().ok_or(Unsupported::Version)
    }

    /// Whether the thread state names a C frame, which names the frame.
    pub(super) fn has_frame_in_c_frame(&self) -> bool {
        matches!(self.minor, 11 | 12)
    }

    /// Whether a thread's frames are named by the thread state that has the lock.
    pub(super) fn has_global_current(&self) -> bool {
        self.minor <= 11
    }

    /// Whether the instruction of a frame is an address.
    pub(super) fn has_instruction_address(&self) -> bool {
        self.minor >= 11
    }
}

/// First word of some parts of `_Py_DebugOffsets`.
struct DebugOffsets {
    thread_state: usize,
    thread_id: usize,
    frame: usize,
    code: usize,
    bytes: usize,
    string: usize,
}

impl DebugOffsets {
    fn of(minor: u8) -> DebugOffsets {
        let (thread_state, frame, code, bytes, string) = match minor {
            13 => (19, 28, 34, 64, 67),
            14 => (22, 31, 39, 74, 77),
            _ => (22, 39, 47, 86, 89),
        };
        // 3.15 has three more words before it.
        let thread_id = thread_state + if minor >= 15 { 8 } else { 5 };
        DebugOffsets { thread_state, thread_id, frame, code, bytes, string }
    }
}

fn offset(word: u64, limit: u64) -> Option<u32> {
    (word < limit).then_some(word as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_known_or_declined() {
        let silent = |_| 0;
        assert_eq!(Layout::of(8, silent), Ok(PYTHON_3_8));
        assert_eq!(Layout::of(12, silent).map(|layout| layout.owner), Ok(70));
        assert_eq!(Layout::of(7, silent), Err(Unsupported::Version));
        assert_eq!(Layout::of(13, silent), Err(Unsupported::Version));
        assert_eq!(Layout::of(16, |_| COOKIE), Err(Unsupported::Version));
        let free_threaded = |index| if index == 0 { COOKIE } else { 1 };
        assert_eq!(Layout::of(14, free_threaded), Err(Unsupported::FreeThreaded));
    }

    #[test]
    fn a_self_description_is_checked() {
        let described = |index| match index {
            0 => COOKIE,
            2 => 0,
            4 => 608,
            23 => 72,
            71 => 40,
            index => index as u64,
        };
        let layout = Layout::of(13, described).unwrap();
        assert_eq!((layout.finalizing, layout.frame, layout.string.compact), (608, 72, 86));
        let nonsense = |index| if index == 37 { u64::MAX } else { described(index) };
        assert_eq!(Layout::of(13, nonsense), Err(Unsupported::Version));
    }
}
