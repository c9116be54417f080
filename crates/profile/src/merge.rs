//! Several profiles as one: measurements of the same code add up, wherever it was mapped.
//!
//! The identity of a location is its binary (build-id, else path) and its offset in that file, so
//! that runs with different address layouts are merged. Locations without a known mapping are
//! merged by address, those without an address by their functions.

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::{
    BuildId, Function, FunctionId, Line, Location, LocationId, Meta, Module, ModuleId, Profile, ProgramEnd,
    Sampling, SizeHistogram, StackId, ThreadId, builder::Builder,
};

/// The sum of `profiles`; facts that cannot be added (program, time) are those of the first.
#[must_use]
pub fn merge(mut profiles: Vec<Profile>) -> Profile {
    if profiles.len() < 2 {
        return profiles.pop().unwrap_or_default();
    }
    let mut merger = Merger { shared_ids: shared_ids(&profiles), ..Merger::default() };
    for profile in &profiles {
        merger.add(profile);
    }
    *merger.builder.meta() = merge_meta(&profiles);
    merger.builder.set_sizes(merge_sizes(&profiles));
    let mut merged = merger.builder.finish();
    for problems in profiles.into_iter().flat_map(|profile| profile.symbol_problems) {
        if !merged.symbol_problems.contains(&problems) {
            merged.symbol_problems.push(problems);
        }
    }
    merged
}

/// Build-ids that two binaries of one process have: an option of the linker set them.
fn shared_ids(profiles: &[Profile]) -> HashSet<BuildId> {
    let mut shared = HashSet::new();
    for profile in profiles {
        let mut paths: HashMap<&BuildId, &str> = HashMap::new();
        for Module { path, build_id, .. } in &profile.modules {
            if *paths.entry(build_id).or_insert(path) != path {
                shared.insert(build_id.clone());
            }
        }
    }
    shared
}

/// The sum of the histograms; empty when a profile that has blocks has none.
fn merge_sizes(profiles: &[Profile]) -> SizeHistogram {
    let mut sum = SizeHistogram::default();
    for profile in profiles.iter().filter(|profile| !profile.samples.is_empty()) {
        if profile.sizes.is_empty() {
            return SizeHistogram::default();
        }
        sum = sum.plus(&profile.sizes);
    }
    sum
}

#[derive(Default)]
struct Merger {
    builder: Builder,
    modules: HashMap<ModuleKey, ModuleId>,
    locations: HashMap<LocationKey, LocationId>,
    /// Build-ids that do not identify a binary.
    shared_ids: HashSet<BuildId>,
    /// Start and end of the mappings so far, which do not overlap.
    ranges: BTreeMap<u64, u64>,
}

/// A mapping: of which file, from where in it, how long.
#[derive(PartialEq, Eq, Hash)]
struct ModuleKey {
    build_id: BuildId,
    /// Empty where the build-id identifies the module.
    path: String,
    file_offset: u64,
    bytes: u64,
}

#[derive(PartialEq, Eq, Hash)]
enum LocationKey {
    InFile { module: ModuleId, offset: u64, is_return_address: bool },
    AtAddress { address: u64, is_return_address: bool },
    Named(Option<ModuleId>, Vec<Line>),
}

impl Merger {
    fn add(&mut self, profile: &Profile) {
        let modules: Vec<ModuleId> = profile.modules.iter().map(|module| self.module(module)).collect();
        let functions: Vec<FunctionId> = profile
            .functions
            .iter()
            .map(|function: &Function| self.builder.function(function.clone()))
            .collect();
        let locations: Vec<LocationId> = profile
            .locations
            .iter()
            .map(|location| self.location(profile, location, &modules, &functions))
            .collect();
        let threads: Vec<ThreadId> =
            profile.threads.iter().map(|thread| self.builder.numbered_thread(thread)).collect();
        let mut stacks: Vec<StackId> = Vec::with_capacity(profile.stacks.len());
        for node in (0..profile.stacks.len()).map(StackId::new) {
            let parent = profile.stacks.parent(node).map(|parent| stacks[parent.index()]);
            let location = locations[profile.stacks.location(node).index()];
            stacks.push(self.builder.child(parent, location));
        }
        let columns: Vec<usize> =
            profile.extra.iter().map(|column| self.builder.column(&column.name, column.unit)).collect();
        for (number, sample) in profile.samples.iter().enumerate() {
            let row = self.builder.add(
                stacks[sample.stack.index()],
                sample.thread.map(|thread| threads[thread.index()]),
                sample.sizes,
                sample.values,
                sample.variance,
            );
            for (column, extra) in columns.iter().zip(&profile.extra) {
                self.builder.add_extra(*column, row, extra.values[number]);
            }
        }
    }

    fn module(&mut self, module: &Module) -> ModuleId {
        let bytes = module.end.saturating_sub(module.start);
        let is_identified = !module.build_id.is_empty() && !self.shared_ids.contains(&module.build_id);
        let key = ModuleKey {
            build_id: module.build_id.clone(),
            path: if is_identified { String::new() } else { module.path.clone() },
            file_offset: module.file_offset,
            bytes,
        };
        if let Some(id) = self.modules.get(&key) {
            return *id;
        }
        let mut placed = module.clone();
        if bytes > 0 && self.is_taken(placed.start, placed.end) {
            let highest = self.ranges.last_key_value().map_or(0, |(_, end)| *end);
            placed.start = highest.checked_next_multiple_of(1 << 12).unwrap_or(0);
            placed.end = placed.start.saturating_add(bytes);
        }
        if bytes > 0 {
            self.ranges.insert(placed.start, placed.end);
        }
        let id = self.builder.module(placed);
        self.modules.insert(key, id);
        id
    }

    fn is_taken(&self, start: u64, end: u64) -> bool {
        let below = self.ranges.range(..end).next_back();
        below.is_some_and(|(_, other_end)| *other_end > start)
    }

    fn location(
        &mut self,
        profile: &Profile,
        location: &Location,
        modules: &[ModuleId],
        functions: &[FunctionId],
    ) -> LocationId {
        let lines: Vec<Line> = location
            .lines
            .iter()
            .map(|line| Line { function: functions[line.function.index()], line: line.line })
            .collect();
        let module = location.module.map(|id| modules[id.index()]);
        let source = location.module.map(|id| &profile.modules[id.index()]);
        let is_return_address = location.is_return_address;
        let mut address = location.address;
        let key = match (source, module) {
            (Some(source), Some(module)) if source.start < source.end && address != 0 => {
                let offset = source.file_offset_of(address);
                let placed = &self.builder.modules()[module.index()];
                address = placed.start.wrapping_add(offset.wrapping_sub(placed.file_offset));
                LocationKey::InFile { module, offset, is_return_address }
            }
            // A module without a range does not determine where in the file an address is.
            _ if !lines.is_empty() && (address == 0 || module.is_some()) => {
                LocationKey::Named(module, lines.clone())
            }
            _ => LocationKey::AtAddress { address, is_return_address },
        };
        if let Some(id) = self.locations.get(&key) {
            let known = self.builder.location(*id);
            if known.lines.is_empty() {
                known.lines = lines;
            }
            return *id;
        }
        let id = self.builder.distinct(Location { address, is_return_address, module, lines });
        self.locations.insert(key, id);
        id
    }
}

fn merge_meta(profiles: &[Profile]) -> Meta {
    let first = &profiles[0].meta;
    let mut meta = first.clone();
    meta.pid = first.pid.filter(|_| profiles.iter().all(|profile| profile.meta.pid == first.pid));
    meta.peak_bytes = None;
    meta.duration_ns = profiles.iter().filter_map(|profile| profile.meta.duration_ns).max();
    meta.comments = vec![format!("sum of {} profiles", profiles.len())];
    for profile in &profiles[1..] {
        meta.recorded = meta.recorded.merged(&profile.meta.recorded);
        if profile.meta.end != first.end {
            meta.end = ProgramEnd::Unknown;
        }
        meta.losses = meta.losses.plus(&profile.meta.losses);
        meta.cut = match (&meta.cut, &profile.meta.cut) {
            (Some(one), Some(other)) => Some(one.plus(other)),
            (one, other) => one.clone().or_else(|| other.clone()),
        };
        if profile.meta.sampling != first.sampling {
            meta.sampling = coarser(meta.sampling, profile.meta.sampling);
        }
    }
    let comments = profiles.iter().flat_map(|profile| &profile.meta.comments);
    for comment in comments {
        if !meta.comments.contains(comment) {
            meta.comments.push(comment.clone());
        }
    }
    meta
}

/// Of two samplings the one that promises less.
fn coarser(one: Sampling, other: Sampling) -> Sampling {
    let mean = |sampling| match sampling {
        Sampling::Exact => 0,
        Sampling::Poisson { mean_bytes } => mean_bytes,
    };
    if mean(one) >= mean(other) { one } else { other }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Values;

    fn one_block(base: u64, build_id: &[u8], path: &str, offset: u64) -> Profile {
        let mut builder = Builder::new("test");
        builder.module(Module {
            path: path.to_owned(),
            build_id: BuildId(build_id.to_vec()),
            start: base,
            end: base + 0x1000,
            file_offset: 0x2000,
        });
        let location = builder.address(base + offset, true);
        let stack = builder.stack([location]);
        let values = Values { inuse_bytes: 8.0, ..Values::default() };
        builder.add(stack, None, None, values, Values::default());
        builder.finish()
    }

    #[test]
    fn the_same_code_at_another_address_and_path_is_the_same_code() {
        let merged = merge(vec![
            one_block(0x10_0000, b"id", "/a/program", 0x10),
            one_block(0x70_0000, b"id", "/b/program", 0x10),
        ]);
        assert_eq!((merged.modules.len(), merged.locations.len(), merged.samples.len()), (1, 1, 1));
        assert_eq!(merged.total().inuse_bytes, 16.0);
        assert_eq!(merged.locations[0].address, 0x10_0010);
    }

    #[test]
    fn two_binaries_of_a_process_with_one_build_id_stay_apart() {
        let mut both = one_block(0x10_0000, b"id", "/a", 0x10);
        both.modules.push(Module {
            path: "/b".into(),
            start: 0x20_0000,
            end: 0x20_1000,
            ..both.modules[0].clone()
        });
        let merged = merge(vec![both, one_block(0x50_0000, b"id", "/b", 0x10)]);
        let paths: Vec<&str> = merged.modules.iter().map(|module| module.path.as_str()).collect();
        assert_eq!(paths, ["/a", "/b"]);
        assert_eq!((merged.locations.len(), merged.samples.len()), (2, 2));
    }

    #[test]
    fn another_binary_at_the_same_address_is_other_code() {
        let merged = merge(vec![
            one_block(0x10_0000, b"id", "/program", 0x10),
            one_block(0x10_0000, b"other", "/program", 0x10),
        ]);
        assert_eq!((merged.modules.len(), merged.locations.len(), merged.samples.len()), (2, 2, 2));
        let [one, two] = [&merged.modules[0], &merged.modules[1]];
        assert!(one.end <= two.start || two.end <= one.start);
        assert!(two.contains(merged.locations[1].address));
        assert_eq!(two.file_offset_of(merged.locations[1].address), 0x2010);
    }
}
