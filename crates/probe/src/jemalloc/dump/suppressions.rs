//! Known leaks (`prof_leak_suppressions`): a file's patterns, turned once into ranges of code.
//!
//! Names are those of the binaries' own symbol tables, read from their files: the probe has no
//! other names.
#![allow(unsafe_code)]

use core::ffi::CStr;

use heapwise_format::bytes::text;
use heapwise_format::segment::{Counter, Module, NodePlace, SectionKind};
use heapwise_format::suppression::{Line, is_found, line};

use super::functions::each_function;
use super::plain_name::plain;
use super::text::places;
use crate::atomics::Ordering;
use crate::config::say;
use crate::jemalloc::options::options;
use crate::session::Session;
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
    pub(super) fn of_options(session: &Session) -> Option<Self> {
        let path = options().leak_suppressions.as_c_str().filter(|path| !path.is_empty())?;
        let mut patterns = Mapping::new(FILE_BYTES)?;
        let Ok(file) = File::open_plain(path) else {
            say(&[b"failed to open \"", path.to_bytes(), b"\""]);
            return None;
        };
        let patterns = file.read_up_to(patterns.bytes_mut());
        let mut found = Self { ranges: Mapping::new(MOST_RANGES * size_of::<Range>())?, count: 0 };
        let capacity = session.segment.section(SectionKind::Modules).capacity;
        let modules = session.segment.counter(Counter::Modules).load(Ordering::Acquire).min(capacity);
        for module in
            (0..modules).filter_map(|index| session.segment.read::<Module>(SectionKind::Modules, index))
        {
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
        each_function(&file, |symbol, start, len| {
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
    pub(super) fn cover(&self, session: &Session, leaf: u32) -> bool {
        // SAFETY: so many were written by `push`.
        let ranges = unsafe { core::slice::from_raw_parts(self.ranges.start().cast::<Range>(), self.count) };
        places(session, leaf).any(|place| match place {
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
