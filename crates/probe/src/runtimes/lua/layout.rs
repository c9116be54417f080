//! Where Lua keeps what is read, by version. Offsets are those of 64-bit machines.

/// A release of Lua.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Version {
    pub(super) major: u8,
    pub(super) minor: u8,
    pub(super) release: u8,
}

/// Offsets in Lua's structs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Layout {
    /// In `lua_State`: the C stack's innermost protected call; the value stack.
    pub(super) error_jump: u32,
    pub(super) stack: u32,
    /// Its status: a suspended coroutine has another than one that runs.
    pub(super) thread_status: u32,
    /// In `CallInfo`: the next instruction, and the bits of its state.
    pub(super) saved_pc: u32,
    pub(super) status: u32,
    /// The bit of a call of a C function, or of a Lua function, and which of them.
    pub(super) status_bit: u32,
    pub(super) bit_means_lua: bool,
    pub(super) proto: ProtoLayout,
    /// In a string: where the length of a long one is, and the text.
    pub(super) long_length: u32,
    pub(super) text: u32,
    /// The text of a long string is elsewhere; a pointer is in its place.
    pub(super) has_text_pointer: bool,
    /// Opcode of an instruction's extra argument; 0 where the next instruction is always saved.
    pub(super) extra_argument: u32,
}

/// Offsets in `Proto`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ProtoLayout {
    pub(super) line_defined: u32,
    pub(super) code: u32,
    pub(super) line_info: u32,
    /// 0 where every instruction has its line.
    pub(super) absolute_lines: u32,
    pub(super) source: u32,
}

/// Common to all versions.
pub(super) mod common {
    /// In every object: the type.
    pub(in super::super) const TYPE: u64 = 8;
    pub(in super::super) const THREAD: u8 = 8;
    pub(in super::super) const LUA_FUNCTION: u8 = 6;
    pub(in super::super) const SHORT_STRING: u8 = 4;
    pub(in super::super) const LONG_STRING: u8 = 0x14;
    /// Of a value on the stack that is a Lua function.
    pub(in super::super) const LUA_FUNCTION_VALUE: u8 = 0x46;
    /// In `lua_State`.
    pub(in super::super) const TOP: u64 = 16;
    pub(in super::super) const CALL: u64 = 32;
    /// In `CallInfo`.
    pub(in super::super) const FUNCTION: u64 = 0;
    pub(in super::super) const CALL_TOP: u64 = 8;
    pub(in super::super) const PREVIOUS: u64 = 16;
    /// In a closure.
    pub(in super::super) const PROTO: u64 = 24;
    /// In `Proto`.
    pub(in super::super) const CODE_LEN: u64 = 24;
    pub(in super::super) const LINES_LEN: u64 = 28;
    pub(in super::super) const ABSOLUTE_LINES_LEN: u64 = 40;
    /// In a string.
    pub(in super::super) const SHORT_LENGTH: u64 = 11;
    /// Bytes that are read, whatever the version.
    pub(in super::super) const STATE_BYTES: u64 = 128;
    pub(in super::super) const CALL_BYTES: u64 = 72;
    pub(in super::super) const PROTO_BYTES: u64 = 128;
    /// Of a value on the stack.
    pub(in super::super) const VALUE_BYTES: u64 = 16;
    /// Opcodes that allocate and do not save the next instruction.
    pub(in super::super) const NEW_TABLE: u32 = 19;
    pub(in super::super) const SET_LIST: u32 = 78;
}

const PROTO_5_3: ProtoLayout =
    ProtoLayout { line_defined: 40, code: 56, line_info: 72, absolute_lines: 0, source: 104 };
const PROTO_5_4: ProtoLayout =
    ProtoLayout { line_defined: 44, code: 64, line_info: 88, absolute_lines: 96, source: 112 };

impl Layout {
    /// The layout of a version; `None` when that is not known. skynet's Lua has another word in
    /// each string.
    pub(super) fn of(version: Version, is_skynet: bool) -> Option<Layout> {
        let Version { major: 5, minor, release } = version else { return None };
        let (error_jump, stack) = match (minor, release) {
            (3, 3..) | (4, 0 | 1) => (88, 56),
            (4, 2) => (80, 48),
            (4, 3..) | (5, _) => (88, 48),
            _ => return None,
        };
        let (saved_pc, status, status_bit, bit_means_lua) = match minor {
            3 => (40, 66, 1, true),
            4 => (32, 62, 1, false),
            _ => (32, 60, 15, false),
        };
        let thread_status = match minor {
            3 => 12,
            4 => 10,
            _ => 11,
        };
        let in_string = if is_skynet && minor >= 4 { 8 } else { 0 };
        Some(Layout {
            error_jump,
            stack,
            thread_status,
            saved_pc,
            status,
            status_bit,
            bit_means_lua,
            proto: if minor == 3 { PROTO_5_3 } else { PROTO_5_4 },
            long_length: 16 + in_string,
            text: 24 + in_string,
            has_text_pointer: minor >= 5,
            extra_argument: match minor {
                3 => 0,
                4 => 82,
                _ => 84,
            },
        })
    }
}

impl Version {
    /// The version in `lua_ident`, which begins with `$LuaVersion: Lua 5.4.4 `.
    pub(super) fn parse(text: &[u8]) -> Option<Version> {
        let name = b"Lua ";
        let start = text.windows(name.len()).position(|window| window == name)? + name.len();
        let version = text.get(start..)?.split(|byte| *byte == b' ').next()?;
        let mut numbers = version.split(|byte| *byte == b'.').map(|digits| {
            let number = core::str::from_utf8(digits).ok()?;
            number.parse::<u8>().ok()
        });
        let (major, minor) = (numbers.next()??, numbers.next()??);
        Some(Version { major, minor, release: numbers.next().flatten().unwrap_or(0) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_in_the_text() {
        let parse = |text: &str| Version::parse(text.as_bytes()).map(|v| (v.major, v.minor, v.release));
        assert_eq!(parse("$LuaVersion: Lua 5.4.4  Copyright (C) 1994"), Some((5, 4, 4)));
        assert_eq!(parse("$LuaVersion: Lua 5.5.0  Copyright"), Some((5, 5, 0)));
        assert_eq!(parse("$Lua: Lua 5.1.5 Copyright"), Some((5, 1, 5)));
        assert_eq!(parse("$LuaVersion: Lua five"), None);
        assert_eq!(parse(""), None);
    }

    #[test]
    fn unknown_versions_have_no_layout() {
        let of = |minor, release| Layout::of(Version { major: 5, minor, release }, false);
        assert!(of(1, 5).is_none() && of(2, 4).is_none() && of(3, 2).is_none() && of(6, 0).is_none());
        assert!(Layout::of(Version { major: 6, minor: 4, release: 4 }, false).is_none());
        assert!(of(3, 6).is_some() && of(4, 0).is_some() && of(5, 0).is_some());
        assert_ne!(of(4, 2), of(4, 3));
    }
}
