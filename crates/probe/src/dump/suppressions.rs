//! Known leaks (`prof_leak_suppressions`): a file's patterns, turned once into ranges of code.
//!
//! Names are those of the binaries' own symbol tables, read from their files: no other names are at hand here.
#![allow(unsafe_code)]

use core::ffi::CStr;
use core::sync::atomic::Ordering;

use heapwise_format::bytes::{text, u16_at, u32_at, u64_at};
use heapwise_format::segment::{Counter, Module, NodePlace, SectionKind};
use heapwise_format::suppression::{Line, is_found, line};

use super::plain_name::plain;
use super::text::places;
use crate::conf::{options, say};
use crate::segment;
use crate::sys::{File, Mapping};

/// Largest file of patterns that is read.
const FILE_BYTES: usize = 64 * 1024;
/// Most ranges of code; what matches beyond them is not suppressed.
const MOST_RANGES: usize = 8192;

/// First address of a piece of code and one past its last.
type Range = (u64, u64);

/// The code that suppressed stacks go through.
pub(super) struct Suppressions {
    ranges: Mapping,
    count: usize,
}

impl Suppressions {
    /// Those of the option; `None` when there are none, or no memory for them.
    pub(super) fn of_options() -> Option<Self> {
        let path = options().leak_suppressions.as_c_str().filter(|path| !path.is_empty())?;
        let mut patterns = Mapping::new(FILE_BYTES)?;
        let Ok(file) = File::open_plain(path) else {
            say(&[b"failed to open \"", path.to_bytes(), b"\""]);
            return None;
        };
        let patterns = file.read_up_to(patterns.bytes_mut());
        let mut found = Self { ranges: Mapping::new(MOST_RANGES * size_of::<Range>())?, count: 0 };
        let capacity = segment::section(SectionKind::Modules).capacity;
        let modules = segment::counter(Counter::Modules).load(Ordering::Acquire).min(capacity);
        for module in (0..modules).filter_map(|index| segment::read::<Module>(SectionKind::Modules, index)) {
            found.look_in(&module, patterns);
        }
        Some(found)
    }

    fn look_in(&mut self, module: &Module, patterns: &[u8]) {
        if each(patterns).any(|pattern| is_found(pattern, text(&module.path))) {
            return self.push((module.start, module.end));
        }
        let path = CStr::from_bytes_until_nul(&module.path).ok();
        let Some(file) = path.and_then(|path| File::open_plain(path).ok()) else { return };
        let Some(image) = file.map_private() else { return };
        each_function(image.bytes(), |symbol, start, len| {
            let plain = plain(symbol);
            let plain = plain.as_ref().map_or(&b""[..], |name| name.as_bytes());
            let named = |pattern| is_found(pattern, symbol) || !plain.is_empty() && is_found(pattern, plain);
            if each(patterns).any(named) {
                let start = start.wrapping_add(module.bias);
                self.push((start, start.wrapping_add(len)));
            }
        });
    }

    fn push(&mut self, range: Range) {
        if self.count < MOST_RANGES {
            // SAFETY: inside the mapping, which is ours alone and aligned to a page.
            unsafe { self.ranges.start().cast::<Range>().add(self.count).write(range) };
            self.count += 1;
        }
    }

    /// Whether a stack goes through known code.
    pub(super) fn cover(&self, leaf: u32) -> bool {
        // SAFETY: so many were written by `push`.
        let ranges = unsafe { core::slice::from_raw_parts(self.ranges.start().cast::<Range>(), self.count) };
        places(leaf).any(|place| match place {
            // Inside the call: what follows a call that does not return is another function.
            NodePlace::Return(address) => holds(ranges, address.wrapping_sub(1)),
            NodePlace::Interrupted(address) => holds(ranges, address),
            NodePlace::Declared { .. } => false,
        })
    }
}

fn holds(ranges: &[Range], address: u64) -> bool {
    ranges.iter().any(|(start, end)| (*start..*end).contains(&address))
}

fn each(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|byte| *byte == b'\n').filter_map(|text| match line(text) {
        Line::Leak(pattern) => Some(pattern),
        Line::Nothing | Line::Other => None,
    })
}

/// Calls `with` for name, address and length of each function in the larger symbol table of an ELF file.
fn each_function(file: &[u8], mut with: impl FnMut(&[u8], u64, u64)) {
    const FULL: u32 = 2;
    const DYNAMIC: u32 = 11;
    let table = find_table(file, FULL).or_else(|| find_table(file, DYNAMIC));
    let Some((symbols, names)) = table else { return };
    for symbol in symbols.chunks_exact(24) {
        let is_function = symbol.get(4).is_some_and(|info| matches!(info & 0xf, 2 | 10));
        let (Some(name), Some(section)) = (u32_at(symbol, 0), u16_at(symbol, 6)) else { continue };
        let (Some(start), Some(len)) = (u64_at(symbol, 8), u64_at(symbol, 16)) else { continue };
        let name = names.get(name as usize..).and_then(|rest| rest.split(|byte| *byte == 0).next());
        if let Some(name) = name.filter(|_| is_function && section != 0 && len != 0) {
            with(name, start, len);
        }
    }
}

/// The symbols and the names of the first section of a kind.
fn find_table(file: &[u8], kind: u32) -> Option<(&[u8], &[u8])> {
    let headers = u64_at(file, 0x28)? as usize;
    let count = usize::from(u16_at(file, 0x3c)?);
    let header = |index: usize| file.get(headers.checked_add(index.checked_mul(64)?)?..)?.get(..64);
    let bytes = |header: &[u8]| {
        let (start, len) = (u64_at(header, 0x18)? as usize, u64_at(header, 0x20)? as usize);
        file.get(start..start.checked_add(len)?)
    };
    let section = (0..count).filter_map(header).find(|header| u32_at(header, 4) == Some(kind))?;
    Some((bytes(section)?, bytes(header(u32_at(section, 0x28)? as usize)?)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_of_this_program_are_found() {
        let file = std::fs::read(std::env::current_exe().expect("a path")).expect("readable");
        let mut found = Vec::new();
        each_function(&file, |name, start, len| {
            if name == b"main" {
                found.push((start, len));
            }
        });
        assert!(matches!(found.as_slice(), [(1.., 1..)]), "{found:?}");
        for cut in [0, 10, 64, 4096, file.len() / 2] {
            each_function(&file[..cut], |_, _, _| {});
        }
    }
}
