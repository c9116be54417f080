//! Names of the frames of a stack, in formats with names.

use std::borrow::Cow;

use heapwise_profile::{Location, LocationId, Metric, Profile, StackId, annotation, coverage::Coverage};

use crate::{Language, coverage};

/// One function in a stack.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct NamedFrame<'a> {
    /// Function, or `module+0xoffset`, or the bare address.
    pub(super) name: Cow<'a, str>,
    /// Source file, or empty.
    pub(super) file: &'a str,
    /// Source line; 0 when unknown.
    pub(super) line: u32,
    /// Path of the binary, or empty.
    pub(super) module: &'a str,
}

/// The frames of one location, the innermost first.
pub(super) fn of_location<'a>(profile: &'a Profile, location: &'a Location) -> Vec<NamedFrame<'a>> {
    let module = location.module.map_or("", |id| profile.modules[id.index()].path.as_str());
    if location.lines.is_empty() {
        let name = Cow::Owned(nameless(profile, location));
        return vec![NamedFrame { name, file: "", line: 0, module }];
    }
    let frame = |line: &heapwise_profile::Line| {
        let function = &profile.functions[line.function.index()];
        NamedFrame { name: Cow::Borrowed(&function.name), file: &function.file, line: line.line, module }
    };
    location.lines.iter().map(frame).collect()
}

fn nameless(profile: &Profile, location: &Location) -> String {
    let address = location.lookup_address();
    match location.module.map(|id| &profile.modules[id.index()]) {
        Some(module) => format!("{}+0x{:x}", module.name(), module.file_offset_of(address)),
        None if address == 0 => "[unknown]".to_owned(),
        None => format!("0x{address:016x}"),
    }
}

/// The frames of all locations, made once.
pub(super) struct FrameList<'a> {
    profile: &'a Profile,
    frames: Vec<Vec<NamedFrame<'a>>>,
}

impl<'a> FrameList<'a> {
    pub(super) fn new(profile: &'a Profile) -> Self {
        let frames = profile.locations.iter().map(|location| of_location(profile, location)).collect();
        Self { profile, frames }
    }

    /// The frames of a location, the innermost first.
    pub(super) fn at(&self, location: LocationId) -> &[NamedFrame<'a>] {
        &self.frames[location.index()]
    }

    /// All frames of a stack, the leaf first.
    pub(super) fn leaf_to_root(&self, stack: StackId) -> impl Iterator<Item = &NamedFrame<'a>> {
        let stacks = &self.profile.stacks;
        stacks.leaf_to_root(stack).flat_map(|node| self.at(stacks.location(node)))
    }

    /// All frames of a stack, the root first.
    pub(super) fn root_to_leaf(&self, stack: StackId) -> Vec<&NamedFrame<'a>> {
        let mut frames: Vec<_> = self.leaf_to_root(stack).collect();
        frames.reverse();
        frames
    }
}

/// The address of a location in address-based formats, as a return address: one byte lower is
/// inside the call. Frames without an address get a unique one.
pub(super) fn return_address(profile: &Profile, id: LocationId) -> u64 {
    let location = &profile.locations[id.index()];
    match location.address {
        0 => annotation::NAMED_FRAMES + (id.index() as u64 + 1) * annotation::NAMED_FRAME_STRIDE,
        _ => location.lookup_address().saturating_add(1),
    }
}

/// Beginning of a comment with the coverage line.
pub(super) const COVERAGE_COMMENT: &str = "covers: ";

/// The coverage line, for formats that have comments.
pub(super) fn coverage_comment(profile: &Profile) -> String {
    format!("{COVERAGE_COMMENT}{}", coverage::line(&Coverage::of(profile), Language::English))
}

/// A value as formats of integers have it.
pub(super) fn whole(value: f64) -> i64 {
    value.round() as i64
}

/// The value for formats without negative numbers.
pub(super) fn natural(value: f64) -> u64 {
    value.round() as u64
}

/// The value of any metric of a sample.
pub(super) fn value_of(profile: &Profile, sample: usize, metric: Metric) -> f64 {
    match metric {
        Metric::Extra(column) => {
            profile.extra.get(usize::from(column)).map_or(0.0, |column| column.values[sample])
        }
        shared => profile.samples[sample].values.get(shared),
    }
}
