//! Finds Lua in a binary by the symbols that it exports.
#![allow(unsafe_code)]

use core::ffi::{CStr, c_char};

use heapwise_format::segment::{Runtime, RuntimeLanguage, RuntimeSupport};

use super::Engine;
use super::layout::{Layout, Version};
use crate::modules::Image;
use crate::symbols;

/// A Lua, and whether its stacks can be read.
pub(super) struct Lua {
    pub(super) runtime: Runtime,
    pub(super) engine: Option<Engine>,
}

/// The Lua in a binary: one that exports its symbols, or one whose text is found.
pub(super) fn find(image: &Image) -> Option<Lua> {
    let object = image.link_map()?;
    let find = |name: &CStr| symbols::find_in(object, name);
    let (version, code) = match find(c"lua_newstate") {
        Some(new_state) => {
            (version(find(c"lua_ident")?.address.cast())?, image.code_segment(new_state.address as u64)?)
        }
        None if IMPORTS.iter().all(|name| symbols::imports(object, name)) => {
            (image.read_only().find_map(version_in)?, image.code()?)
        }
        None => return None,
    };
    let layout = Layout::of(version, find(c"lua_clonefunction").is_some());
    let support = match layout {
        Some(_) => RuntimeSupport::Followed,
        None => RuntimeSupport::UnknownVersion,
    };
    let Version { major, minor, .. } = version;
    Some(Lua {
        runtime: Runtime { language: RuntimeLanguage::Lua, major, minor, support },
        engine: layout.map(|layout| Engine { layout, code: code.start..code.end }),
    })
}

/// Functions that every Lua imports from the C library, and few others do: the text of a binary
/// without them is not searched, which would make all of it resident.
const IMPORTS: [&CStr; 3] = [c"localeconv", c"strcoll", c"strpbrk"];

/// The start of `lua_ident`.
const IDENT: &[u8] = b"$LuaVersion: Lua ";

fn version(ident: *const c_char) -> Option<Version> {
    // SAFETY: a string of static storage in each version of Lua.
    Version::parse(unsafe { CStr::from_ptr(ident) }.to_bytes())
}

/// The version in the constants of a binary.
fn version_in(bytes: &[u8]) -> Option<Version> {
    // One byte of `IDENT` is at a multiple of its length.
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        if IDENT.contains(byte) {
            let start = at.saturating_sub(IDENT.len() - 1);
            let near = bytes.get(start..(at + IDENT.len()).min(bytes.len()))?;
            if let Some(offset) = near.windows(IDENT.len()).position(|window| window == IDENT) {
                return Version::parse(bytes.get(start + offset..)?);
            }
        }
        at += IDENT.len();
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_found_in_constants() {
        for before in [0, 1, 15, 16, 17, 300, 1001] {
            let mut bytes = vec![b'L'; before];
            bytes.extend(b"$LuaVersion: Lua 5.4.6  Copyright (C) 1994-2023 Lua.org");
            let version = version_in(&bytes).map(|version| (version.major, version.minor, version.release));
            assert_eq!(version, Some((5, 4, 6)), "{before}");
        }
        assert_eq!(version_in(b"Lua 5.4"), None);
        assert_eq!(version_in(b""), None);
    }
}
