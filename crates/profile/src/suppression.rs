//! Known leaks: LeakSanitizer's suppression files, and what the C and C++ runtimes keep for
//! themselves.

use std::fmt;

use heapwise_format::suppression::{Line, is_found, line};

use crate::allocator::is_allocator;
use crate::{LocationId, Profile, Sample, SizeHistogram, StackTable, Values};

/// The patterns of a file. A pattern is looked for in names of functions, source files and
/// binaries.
#[derive(Debug, Clone)]
pub struct Suppressions {
    patterns: Vec<Vec<u8>>,
}

/// A line that is not a suppression.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SuppressionError {
    /// Number of the line, from 1.
    pub line: usize,
    /// Its text.
    pub text: String,
}

impl fmt::Display for SuppressionError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "line {}: `{}` is not `leak:PATTERN`", self.line, self.text)
    }
}

impl Suppressions {
    /// Reads a file's text.
    ///
    /// # Errors
    /// For the first line that is neither empty, a comment, nor a suppression.
    pub fn parse(text: &str) -> Result<Self, SuppressionError> {
        let mut patterns = Vec::new();
        for (number, text) in text.lines().enumerate() {
            match line(text.as_bytes()) {
                Line::Nothing => {}
                Line::Leak(pattern) => patterns.push(pattern.to_vec()),
                Line::Other => {
                    return Err(SuppressionError { line: number + 1, text: text.trim().to_owned() });
                }
            }
        }
        Ok(Self { patterns })
    }

    /// Takes suppressed samples out of a profile with symbols; what they were.
    pub fn apply(&self, profile: &mut Profile) -> Values {
        let is_known = |name: &str| self.patterns.iter().any(|pattern| is_found(pattern, name.as_bytes()));
        let named: Vec<bool> = (0..profile.locations.len())
            .map(|index| names(profile, LocationId::new(index)).any(is_known))
            .collect();
        let mut suppressed = vec![false; profile.stacks.len()];
        // Callers come before callees.
        for stack in profile.stacks.ids() {
            suppressed[stack.index()] = named[profile.stacks.location(stack).index()]
                || profile.stacks.parent(stack).is_some_and(|parent| suppressed[parent.index()]);
        }
        let leaving: Vec<bool> =
            profile.samples.iter().map(|sample| suppressed[sample.stack.index()]).collect();
        take_out(profile, &leaving)
    }
}

/// Takes the samples out of a profile that leave; what they were.
fn take_out(profile: &mut Profile, leaving: &[bool]) -> Values {
    let mut sum = Values::default();
    for (sample, _) in profile.samples.iter().zip(leaving).filter(|(_, leaving)| **leaving) {
        sum += sample.values;
    }
    if leaving.contains(&true) {
        // The histogram also counts the samples that leave.
        profile.sizes = SizeHistogram::default();
    }
    let mut stays = leaving.iter().map(|leaving| !leaving);
    profile.samples.retain(|_| stays.next().unwrap_or(true));
    for column in &mut profile.extra {
        let mut stays = leaving.iter().map(|leaving| !leaving);
        column.values.retain(|_| stays.next().unwrap_or(true));
    }
    sum
}

/// Everything a location is called.
fn names(profile: &Profile, location: LocationId) -> impl Iterator<Item = &str> {
    let location = &profile.locations[location.index()];
    let functions = location.lines.iter().map(|line| &profile.functions[line.function.index()]);
    let module = location.module.map(|module| profile.modules[module.index()].path.as_str());
    functions.flat_map(|function| [function.name.as_str(), function.file.as_str()]).chain(module)
}

/// Takes out what the C and C++ runtimes allocate for themselves and keep as long as the process
/// lives: the buffers of streams, and libstdc++'s reserve for `bad_alloc`. What they allocate for
/// their caller (`strdup`, `fopen`) stays.
pub fn take_out_runtime(profile: &mut Profile) -> Values {
    let runtime = RuntimeBlocks::of(profile);
    let leaving: Vec<bool> =
        profile.samples.iter().map(|sample| runtime.contains(&profile.stacks, sample)).collect();
    take_out(profile, &leaving)
}

/// Which samples are blocks that a runtime allocated for itself, by facts about each location.
#[derive(Debug)]
pub(crate) struct RuntimeBlocks {
    locations: Vec<LocationFacts>,
}

#[derive(Debug)]
struct LocationFacts {
    in_allocator: bool,
    /// It allocates the buffer of a stream.
    makes_buffer: bool,
    in_libstdcxx: bool,
    in_loader: bool,
}

impl RuntimeBlocks {
    pub(crate) fn of(profile: &Profile) -> Self {
        let makes_buffer = |name: &str| name.trim_start_matches("__GI_") == "_IO_file_doallocate";
        let facts = |index: usize| {
            let module = profile.locations[index].module;
            let module = module.map_or("", |module| profile.modules[module.index()].name());
            let has = |test: &dyn Fn(&str) -> bool| names(profile, LocationId::new(index)).any(test);
            LocationFacts {
                in_allocator: has(&is_allocator),
                makes_buffer: has(&makes_buffer),
                in_libstdcxx: module.starts_with("libstdc++.so"),
                in_loader: module.starts_with("ld-"),
            }
        };
        Self { locations: (0..profile.locations.len()).map(facts).collect() }
    }

    /// Whether a runtime allocated the blocks of a sample for itself.
    pub(crate) fn contains(&self, stacks: &StackTable, sample: &Sample) -> bool {
        let locations =
            || stacks.leaf_to_root(sample.stack).map(|node| &self.locations[stacks.location(node).index()]);
        let Some(leaf) = locations().find(|location| !location.in_allocator) else { return false };
        leaf.makes_buffer || leaf.in_libstdcxx && locations().last().is_some_and(|root| root.in_loader)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::profile;

    const STACKS: &str =
        "main;load;cache_new 10 1\nmain;serve;pool::grow 20 2\nlibz.so.1!inflate;libz.so.1!zalloc 40 4";

    fn left(file: &str) -> (f64, f64) {
        let mut profile = profile(STACKS);
        let suppressed = Suppressions::parse(file).expect("patterns").apply(&mut profile);
        (suppressed.inuse_bytes, profile.total().inuse_bytes)
    }

    #[test]
    fn patterns_are_leak_sanitizers() {
        assert_eq!(left("# nothing\n\n"), (0.0, 70.0));
        assert_eq!(left("leak:cache_new"), (10.0, 60.0));
        assert_eq!(left("leak:cache"), (10.0, 60.0));
        assert_eq!(left("leak:^cache$"), (0.0, 70.0));
        assert_eq!(left("leak:^po*grow$"), (20.0, 50.0));
        assert_eq!(left("leak:libz.so\n# and\nleak:serve"), (60.0, 10.0));
        assert_eq!(left("leak:ma.n"), (0.0, 70.0));
        let wrong = Suppressions::parse("leak:a\nrace:b").expect_err("no leak");
        assert_eq!(wrong.to_string(), "line 2: `race:b` is not `leak:PATTERN`");
    }

    #[test]
    fn runtimes_own_blocks_are_known_by_their_stacks() {
        let text = "main;libc.so.6!printf;libc.so.6!_IO_file_doallocate;malloc 4096 1\n\
                    ld-linux-x86-64.so.2!call_init;libstdc++.so.6!? 73728 1\n\
                    main;libstdc++.so.6!? 5 1\nmain;libc.so.6!strdup 7 1";
        let mut profile = profile(text);
        let runtime = take_out_runtime(&mut profile);
        assert_eq!((runtime.inuse_bytes, profile.total().inuse_bytes), (77824.0, 12.0));
    }
}
