//! `profile − base` as a profile of its own: for writers of other formats, and for jeprof's
//! `--base`.
//!
//! Stacks that are the same in both (same binary, same place in its file, same names) are
//! subtracted one from the other; stacks that only the base has are appended with their sign
//! inverted. A sum by name is the signed difference, even when addresses have changed. Views that
//! show both sides compare through [`CallTree::compare`](crate::CallTree::compare) instead.

use rustc_hash::FxHashMap;

use crate::{
    Function, FunctionId, Line, Location, LocationId, Module, ModuleId, Profile, Sample, SizeHistogram,
    StackId, ThreadId,
};

/// Signed change from `base` to `profile`.
#[must_use]
pub fn subtract(profile: &Profile, base: &Profile) -> Profile {
    let mut out = profile.clone();
    let locations = append_locations(&mut out, profile, base);
    let mut stacks: Vec<StackId> = Vec::with_capacity(base.stacks.len());
    for stack in base.stacks.ids() {
        let parent = base.stacks.parent(stack).map(|id| stacks[id.index()]);
        let location = locations[base.stacks.location(stack).index()];
        stacks.push(out.stacks.child(parent, location));
    }
    let threads = out.threads.len();
    out.threads.extend(base.threads.iter().cloned());
    let mut known: FxHashMap<(StackId, Option<u64>, Option<u64>), usize> = FxHashMap::default();
    for (at, sample) in profile.samples.iter().enumerate() {
        known.entry((sample.stack, tid(profile, sample), sample.block_bytes())).or_insert(at);
    }
    for (at, sample) in base.samples.iter().enumerate() {
        let stack = stacks[sample.stack.index()];
        let place_of = |block| known.get(&(stack, tid(base, sample), block)).copied();
        // A stack that allocated blocks of one size may have allocated others since.
        let place = place_of(sample.block_bytes()).or_else(|| place_of(None));
        if let Some(place) = place {
            let same = &mut out.samples[place];
            same.values = same.values - sample.values;
            same.variance += sample.variance;
        } else {
            let thread = sample.thread.map(|id| ThreadId::new(id.index() + threads));
            out.samples.push(Sample { stack, thread, values: -sample.values, ..sample.clone() });
        }
        subtract_extra(&mut out, base, at, place);
    }
    out.sizes = match base.sizes.is_empty() && !base.samples.is_empty() {
        true => SizeHistogram::default(),
        false => profile.sizes.minus(&base.sizes),
    };
    out
}

fn tid(profile: &Profile, sample: &Sample) -> Option<u64> {
    sample.thread.map(|id| profile.threads[id.index()].tid)
}

/// Key of a place that is equal in two builds of a program.
#[derive(PartialEq, Eq, Hash)]
struct LocationKey<'a> {
    module: &'a str,
    file_offset: u64,
    lines: Vec<(&'a Function, u32)>,
}

impl<'a> LocationKey<'a> {
    fn of(profile: &'a Profile, location: &Location) -> Self {
        let module = location.module.map(|id| &profile.modules[id.index()]);
        let address = location.address;
        Self {
            module: module.map_or("", Module::name),
            file_offset: module.map_or(address, |module| module.file_offset_of(address)),
            lines: location
                .lines
                .iter()
                .map(|line| (&profile.functions[line.function.index()], line.line))
                .collect(),
        }
    }
}

/// Adds the base's modules, functions and those of its locations that are new; returns where each
/// of its locations is now.
fn append_locations(out: &mut Profile, profile: &Profile, base: &Profile) -> Vec<LocationId> {
    let (modules, functions) = (out.modules.len(), out.functions.len());
    out.modules.extend(base.modules.iter().cloned());
    out.functions.extend(base.functions.iter().cloned());
    let mut known: FxHashMap<LocationKey<'_>, LocationId> = FxHashMap::default();
    for (at, location) in profile.locations.iter().enumerate() {
        known.entry(LocationKey::of(profile, location)).or_insert(LocationId::new(at));
    }
    base.locations
        .iter()
        .map(|location| {
            *known.entry(LocationKey::of(base, location)).or_insert_with(|| {
                let mut location = location.clone();
                location.module = location.module.map(|id| ModuleId::new(id.index() + modules));
                for Line { function, .. } in &mut location.lines {
                    *function = FunctionId::new(function.index() + functions);
                }
                out.locations.push(location);
                LocationId::new(out.locations.len() - 1)
            })
        })
        .collect()
}

/// Further columns are matched by name; one that the base lacks counts 0 there. `place` is the
/// sample that took the base's `at`-th, unless it was appended.
fn subtract_extra(out: &mut Profile, base: &Profile, at: usize, place: Option<usize>) {
    for column in &mut out.extra {
        let same = base.extra.iter().find(|other| other.name == column.name);
        let value = same.and_then(|other| other.values.get(at)).copied().unwrap_or(0.0);
        match place {
            Some(place) => column.values[place] -= value,
            None => column.values.push(-value),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::profile;

    #[test]
    fn the_same_stack_is_one_sample() {
        let now = profile("main;f 10 2\nmain;g 5 1");
        let before = profile("main;g 7 1\nmain;f 4 1\nmain;gone 3 1");
        let change = subtract(&now, &before);
        let bytes: Vec<f64> = change.samples.iter().map(|sample| sample.values.inuse_bytes).collect();
        assert_eq!(bytes, [6.0, -2.0, -3.0]);
        assert_eq!(subtract(&now, &now).total(), crate::Values::default());
        assert_eq!(subtract(&now, &now).samples.len(), 2);
    }
}
