//! The program's own code: which frame of a stack a reader wants to see first.
//!
//! A stack ends in the allocator, in a wrapper of it (`xmalloc`, `zmalloc_usable`) or in a
//! container of the standard library. The first frame behind those is where the program
//! allocates.

use crate::allocator::{is_allocator, is_allocator_module};
use crate::{Location, Profile, StackId, name};

/// Namespaces of standard libraries.
const STANDARD: [&str; 6] = ["std::", "core::", "alloc::", "__gnu_cxx::", "hashbrown::", "<alloc::"];
/// Libraries of the system.
const SYSTEM_MODULES: [&str; 6] = ["libc.", "libc-", "libstdc++", "libc++", "ld-linux", "libgcc_s"];
/// Ends of the names of wrappers, without case, digits and underscores.
const WRAPPER_ENDS: [&str; 5] = ["alloc", "allocate", "strdup", "memdup", "operator new"];

/// A frame of a stack, inlined ones included.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CodeFrame {
    /// The short name of the function, or `module+0xoffset`.
    pub label: String,
    /// Source file, or empty.
    pub file: String,
    /// Source line; 0 when unknown.
    pub line: u32,
    /// Whether it is code of the program itself, by the rule of this module.
    pub is_own: bool,
    is_allocator: bool,
}

/// The frames of every location of a profile, computed once.
#[derive(Debug)]
pub struct CodeFrames(Vec<Vec<CodeFrame>>);

impl CodeFrames {
    /// The frames of `profile`, which has symbols.
    #[must_use]
    pub fn new(profile: &Profile) -> Self {
        Self(profile.locations.iter().map(|location| of_location(profile, location)).collect())
    }

    /// At most `most` frames of a stack, from the innermost one of the program's own code on;
    /// without one, from the first behind the allocator's, or from the innermost.
    #[must_use]
    pub fn from_own_code(&self, profile: &Profile, stack: StackId, most: usize) -> Vec<&CodeFrame> {
        let frames = || {
            let nodes = profile.stacks.leaf_to_root(stack);
            nodes.flat_map(|node| &self.0[profile.stacks.location(node).index()])
        };
        let own = frames().position(|frame| frame.is_own);
        let behind_allocator = || frames().position(|frame| !frame.is_allocator);
        let first = own.or_else(behind_allocator).unwrap_or(0);
        frames().skip(first).take(most).collect()
    }
}

fn of_location(profile: &Profile, location: &Location) -> Vec<CodeFrame> {
    let module = location.module.and_then(|id| profile.modules.get(id.index()));
    let module_name = module.map_or("", |module| module.name());
    let in_system = SYSTEM_MODULES.iter().any(|prefix| module_name.starts_with(prefix));
    let is_program_module = !in_system && !is_allocator_module(module_name);
    if location.lines.is_empty() {
        let label = match module {
            Some(module) => format!("{module_name}+0x{:x}", module.file_offset_of(location.address)),
            None => format!("0x{:x}", location.address),
        };
        return vec![CodeFrame { label, file: String::new(), line: 0, is_own: false, is_allocator: false }];
    }
    let frame = |line: &crate::Line| {
        let function = profile.functions.get(line.function.index())?;
        let label = name::short(&function.name);
        let is_own = is_program_module && is_own_name(&function.name, &label);
        let is_allocator = is_allocator(&function.name);
        Some(CodeFrame { label, file: function.file.clone(), line: line.line, is_own, is_allocator })
    };
    location.lines.iter().filter_map(frame).collect()
}

fn is_own_name(full: &str, short: &str) -> bool {
    let is_standard = STANDARD.iter().any(|prefix| full.starts_with(prefix) || short.starts_with(prefix));
    let last = short.rsplit("::").next().unwrap_or(short).to_ascii_lowercase();
    let last = last.trim_end_matches(|c: char| c.is_ascii_digit() || c == '_');
    let is_wrapper = WRAPPER_ENDS.iter().any(|end| last.ends_with(end));
    !is_standard && !is_wrapper && !is_allocator(full)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::profile;

    fn own(text: &str) -> String {
        let program = profile(text);
        let code = CodeFrames::new(&program);
        let frames = code.from_own_code(&program, program.samples[0].stack, 9);
        frames.iter().map(|frame| frame.label.as_str()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn wrappers_and_containers_are_skipped() {
        assert_eq!(own("main;parse;xmalloc;malloc 1 1"), "parse main");
        assert_eq!(own("main;load;std::vector::push_back;malloc 1 1"), "load main");
        assert_eq!(own("main;dictAdd;zmalloc;je_malloc 1 1"), "dictAdd main");
        assert_eq!(own("main;serve/Cache::get;std::map::insert;malloc 1 1"), "Cache::get serve main");
    }

    #[test]
    fn without_own_code_the_rest_stays() {
        assert_eq!(own("std::thread::start;std::vec::grow;malloc 1 1"), "std::vec::grow std::thread::start");
        assert_eq!(own("malloc 1 1"), "malloc");
    }
}
