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

/// The Lua in a binary.
pub(super) fn find(image: &Image) -> Option<Lua> {
    let object = image.link_map()?;
    let find = |name: &CStr| symbols::find_in(object, name);
    let new_state = find(c"lua_newstate")?;
    let version = version(find(c"lua_ident")?.address.cast())?;
    let is_skynet = find(c"lua_clonefunction").is_some();
    let code = image.code_segment(new_state.address as u64)?;
    let layout = Layout::of(version, is_skynet);
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

fn version(ident: *const c_char) -> Option<Version> {
    // SAFETY: a string of static storage in each version of Lua.
    Version::parse(unsafe { CStr::from_ptr(ident) }.to_bytes())
}
