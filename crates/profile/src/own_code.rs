//! The program's own code: which frame of a stack a reader wants to see first.
//!
//! A stack ends in the allocator, in a wrapper of it (`xmalloc`, `zmalloc_usable`) or in a
//! container of the standard library. The first frame behind those is where the program
//! allocates. Wrappers are recognized by name, and by shape: most blocks come through them, from
//! many callers. Patterns of the user decide first ([`OwnRule`]).

mod rule;
mod wrappers;

pub use rule::OwnRule;

use std::collections::{HashMap, HashSet};

use crate::allocator::{is_allocator, is_allocator_module};
use crate::{Function, Location, Profile, StackId, name, script};

/// Namespaces of standard libraries.
const STANDARD: [&str; 6] = ["std::", "core::", "alloc::", "__gnu_cxx::", "hashbrown::", "<alloc::"];
/// Traits and types of Rust's standard library, in names of their generic code.
const GENERIC: [&str; 4] = ["<T as ", "<[T] as ", "<core::", "<std::"];
/// Folders of the sources of standard libraries.
const STANDARD_FILES: [&str; 4] = ["/rustc/", "/rustlib/src/rust/library/", "/include/c++/", "/rust/deps/"];
/// Functions of the executable that come before `main`.
const STARTUP: &str = "_start";
/// Libraries of the system.
const SYSTEM_MODULES: [&str; 6] = ["libc.", "libc-", "libstdc++", "libc++", "ld-linux", "libgcc_s"];
/// Ends of the names of wrappers, without case, digits and underscores.
const WRAPPER_ENDS: [&str; 5] = ["alloc", "allocate", "strdup", "memdup", "operator new"];
/// Parts of the names of wrappers: `zmalloc_usable`.
const WRAPPER_PARTS: [&str; 3] = ["malloc", "calloc", "realloc"];

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
    is_wrapper: bool,
    /// Whether a pattern of the user says that it is the program's own.
    is_declared: bool,
    /// A line of a script.
    is_script: bool,
    /// The same number for frames of the same label.
    pub(crate) function: usize,
}

/// The frames of every location of a profile, computed once.
#[derive(Debug)]
pub struct CodeFrames {
    by_location: Vec<Vec<CodeFrame>>,
    /// Stacks with lines of a script have no other frames.
    is_native_folded: bool,
}

/// Frames behind one that is looked at, in which a wrapper by name makes it a part of the wrapper.
const WRAPPER_REACH: usize = 2;

impl CodeFrames {
    /// The frames of `profile`, which has symbols and samples, by the rule of a user.
    #[must_use]
    pub fn new(profile: &Profile, rule: &OwnRule) -> Self {
        let weights = profile.samples.iter().map(|sample| (sample.stack, sample.values.alloc_objects));
        Self::weighted(profile, rule, weights)
    }

    /// The frames of `profile`, whose wrappers are those of stacks with other weights than the
    /// samples'.
    #[must_use]
    pub fn weighted(
        profile: &Profile,
        rule: &OwnRule,
        weights: impl Iterator<Item = (StackId, f64)>,
    ) -> Self {
        let scripts = script::functions(profile);
        let of_location = |location| of_location(profile, location, &scripts, rule);
        let mut by_location: Vec<Vec<CodeFrame>> = profile.locations.iter().map(of_location).collect();
        let mut numbers: HashMap<String, usize> = HashMap::new();
        for frame in by_location.iter_mut().flatten() {
            let next = numbers.len();
            frame.function = *numbers.entry(frame.label.clone()).or_insert(next);
        }
        let mut frames = Self { by_location, is_native_folded: script::is_followed(profile) };
        wrappers::mark(&mut frames, profile, weights);
        frames
    }

    /// At most `most` frames of a stack, from the innermost one of the program's own code on;
    /// without one, from the first behind the allocator's, or from the innermost.
    #[must_use]
    pub fn from_own_code(&self, profile: &Profile, stack: StackId, most: usize) -> Vec<&CodeFrame> {
        let first = self.first_of_own_code(profile, stack);
        self.frames(profile, stack).skip(first).take(most).collect()
    }

    /// The innermost frame of a stack that is the program's own code.
    pub(crate) fn own(&self, profile: &Profile, stack: StackId) -> Option<&CodeFrame> {
        let first = self.first_of_own_code(profile, stack);
        self.frames(profile, stack).nth(first).filter(|frame| frame.is_own)
    }

    /// Names of the functions that are the program's own code, and the files of those of scripts:
    /// every module of Python has a function `<module>`.
    pub(crate) fn own_functions(&self) -> HashSet<(&str, &str)> {
        let frames = self.by_location.iter().flatten().filter(|frame| frame.is_own);
        frames.map(|frame| (frame.label.as_str(), if frame.is_script { &*frame.file } else { "" })).collect()
    }

    fn frames<'a, 'b>(
        &'a self,
        profile: &'b Profile,
        stack: StackId,
    ) -> impl Iterator<Item = &'a CodeFrame> + use<'a, 'b> {
        let all = move || {
            let nodes = profile.stacks.leaf_to_root(stack);
            nodes.flat_map(|node| &self.by_location[profile.stacks.location(node).index()])
        };
        let is_folded = self.is_native_folded && all().any(|frame| frame.is_script);
        all().filter(move |frame| !is_folded || frame.is_script)
    }

    fn first_of_own_code(&self, profile: &Profile, stack: StackId) -> usize {
        let mut from = 0;
        loop {
            let found = self.frames(profile, stack).enumerate().skip(from).find(|(_, frame)| frame.is_own);
            let Some((own, frame)) = found else { break };
            if frame.is_declared {
                return own;
            }
            let outer = self.frames(profile, stack).skip(own + 1).take(WRAPPER_REACH);
            match outer.enumerate().filter(|(_, frame)| frame.is_wrapper).last() {
                Some((wrapper, _)) => from = own + 2 + wrapper,
                None => return own,
            }
        }
        let frames = || self.frames(profile, stack);
        frames()
            .position(|frame| frame.is_own)
            .or_else(|| frames().position(|f| !f.is_allocator))
            .unwrap_or(0)
    }
}

fn of_location(
    profile: &Profile,
    location: &Location,
    script_functions: &[bool],
    rule: &OwnRule,
) -> Vec<CodeFrame> {
    let module = location.module.and_then(|id| profile.modules.get(id.index()));
    let module_name = module.map_or("", |module| module.name());
    let path = module.map_or("", |module| &module.path);
    let in_system = SYSTEM_MODULES.iter().any(|prefix| module_name.starts_with(prefix));
    let language = script::language(profile);
    let is_program = |function: &str| {
        let is_interpreter = language
            .zip(module)
            .is_some_and(|(language, module)| script::is_native_library(language, module, function));
        !in_system && !is_allocator_module(module_name) && !is_interpreter
    };
    if location.lines.is_empty() {
        let label = match module {
            Some(module) => format!("{module_name}+0x{:x}", module.file_offset_of(location.address)),
            None => format!("0x{:x}", location.address),
        };
        let decided = rule.decide(&[&label, path]);
        return vec![CodeFrame::new(label, is_program("")).decided(decided)];
    }
    let frame = |line: &crate::Line| {
        let function = profile.functions.get(line.function.index())?;
        let is_script = script_functions[line.function.index()];
        let label = if is_script { function.name.clone() } else { name::short(&function.name) };
        let decided = rule.decide(&[&label, &function.name, &function.file, path]);
        let is_allocator = !is_script && is_allocator(&function.name);
        let is_wrapper = !is_script && is_wrapper_name(&label);
        let is_own = match is_script {
            true => !script::is_library(&function.file),
            false => is_program(&label) && !is_allocator && !is_wrapper && !is_standard(function, &label),
        };
        let (file, line) = (function.file.clone(), line.line);
        let frame = CodeFrame::new(label, is_own);
        Some(CodeFrame { file, line, is_allocator, is_wrapper, is_script, ..frame }.decided(decided))
    };
    location.lines.iter().filter_map(frame).collect()
}

impl CodeFrame {
    fn new(label: String, is_own: bool) -> Self {
        let (file, line) = (String::new(), 0);
        let (is_allocator, is_wrapper, is_declared, is_script) = (false, false, false, false);
        Self { label, file, line, is_own, is_allocator, is_wrapper, is_declared, is_script, function: 0 }
    }

    /// The frame as the patterns of the user decide.
    fn decided(self, decision: Option<bool>) -> Self {
        match decision {
            Some(true) => Self { is_own: true, is_declared: true, is_wrapper: false, ..self },
            Some(false) => Self { is_own: false, ..self },
            None => self,
        }
    }
}

fn is_standard(function: &Function, short: &str) -> bool {
    let full = &function.name;
    STANDARD.iter().any(|prefix| full.starts_with(prefix) || short.starts_with(prefix))
        || GENERIC.iter().any(|prefix| full.starts_with(prefix))
        || STANDARD_FILES.iter().any(|folder| function.file.contains(folder))
        || short == STARTUP
}

fn is_wrapper_name(short: &str) -> bool {
    let last = short.rsplit("::").next().unwrap_or(short).to_ascii_lowercase();
    let last = last.trim_end_matches(|c: char| c.is_ascii_digit() || c == '_');
    WRAPPER_ENDS.iter().any(|end| last.ends_with(end)) || WRAPPER_PARTS.iter().any(|part| last.contains(part))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::profile;

    fn own(text: &str) -> String {
        let program = profile(text);
        let code = CodeFrames::new(&program, &OwnRule::default());
        let frames = code.from_own_code(&program, program.samples[0].stack, 9);
        frames.iter().map(|frame| frame.label.as_str()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn wrappers_and_containers_are_skipped() {
        assert_eq!(own("main;parse;xmalloc;malloc 1 1"), "parse main");
        assert_eq!(own("main;load;std::vector::push_back;malloc 1 1"), "load main");
        assert_eq!(own("main;dictAdd;zmalloc;je_malloc 1 1"), "dictAdd main");
        assert_eq!(own("main;dictAdd;ztrymalloc_usable_internal;malloc 1 1"), "dictAdd main");
        assert_eq!(own("main;serve/Cache::get;std::map::insert;malloc 1 1"), "Cache::get serve main");
    }

    #[test]
    fn generic_code_of_standard_libraries_is_not_the_programs() {
        let is_standard = |name: &str, file: &str| {
            let (short, file) = (name::short(name), file.to_owned());
            is_standard(&Function { name: name.to_owned(), file, ..Function::default() }, &short)
        };
        assert!(is_standard("<T as alloc::slice::hack::ConvertVec>::to_vec", ""));
        assert!(is_standard("grow", "/rustc/5980/library/alloc/src/raw_vec.rs"));
        assert!(is_standard("__gnu::allocate", "/usr/include/c++/12/bits/new_allocator.h"));
        assert!(!is_standard("<app::Row as core::fmt::Display>::fmt", "src/row.rs"));
        assert!(!is_standard("main", "/home/me/rust/main.rs"));
    }

    #[test]
    fn patterns_of_the_user_decide_first() {
        let first = |stack: &str, own: &str, library: &str| {
            let program = profile(&format!("{stack} 1 1"));
            let list = |text: &str| -> Vec<String> { text.split_whitespace().map(str::to_owned).collect() };
            let rule = OwnRule::new(&list(own), &list(library)).unwrap();
            let code = CodeFrames::new(&program, &rule);
            code.from_own_code(&program, program.samples[0].stack, 1)[0].label.clone()
        };
        assert_eq!(first("main;parse;xmalloc;malloc", "", ""), "parse");
        assert_eq!(first("main;parse;xmalloc;malloc", "^xmalloc$", ""), "xmalloc");
        assert_eq!(first("main;parse;xmalloc;malloc", "", "^parse$"), "main");
        assert_eq!(first("main;parse;xmalloc;grow;malloc", "", ""), "parse");
        assert_eq!(first("main;parse;xmalloc;grow;malloc", "grow", ""), "grow", "inside a wrapper");
    }

    #[test]
    fn frames_inside_a_wrapper_are_part_of_it() {
        assert_eq!(own("main;parse;sqlite3Malloc;memMethod;malloc 1 1"), "parse main");
        assert_eq!(own("main;alloc_table;fill;grow;put;malloc 1 1"), "put grow fill alloc_table main");
    }

    #[test]
    fn without_own_code_the_rest_stays() {
        assert_eq!(own("std::thread::start;std::vec::grow;malloc 1 1"), "std::vec::grow std::thread::start");
        assert_eq!(own("_start;std::vec::grow;malloc 1 1"), "std::vec::grow _start");
        assert_eq!(own("malloc 1 1"), "malloc");
    }
}
