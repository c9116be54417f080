//! The ledger as a profile: one sample per heap site, mapping site and other line, in resident
//! bytes, so that every view of profiles is a view of the whole memory of a process.

use super::{Ledger, Line, LineKind, MemfdUse};
use crate::{Profile, Sample, StackId, Values};

/// Most parts of a line with a sample of their own.
const MOST_PARTS: usize = 200;

/// Adds the samples of a ledger to the profile of its stacks; they add up to the resident bytes.
#[must_use]
pub fn resident_profile(ledger: &Ledger, stacks: Profile) -> Profile {
    let mut profile = Profile { samples: Vec::new(), extra: Vec::new(), ..stacks };
    "heapwise ledger".clone_into(&mut profile.meta.source);
    profile.meta.peak_bytes = None;
    // It is a moment, not a stretch of time.
    profile.meta.duration_ns = None;
    for line in &ledger.lines {
        let rest = match line.kind {
            LineKind::HeapLive => add_heap(&mut profile, ledger, line),
            _ => add_mappings(&mut profile, ledger, line),
        };
        add_rest(&mut profile, line, rest);
    }
    profile
}

/// Adds live blocks by stack; returns the bytes of the line that are left.
fn add_heap(profile: &mut Profile, ledger: &Ledger, line: &Line) -> u64 {
    let sum: f64 = ledger.heap_sites.iter().map(|site| site.resident).sum();
    // Estimates may exceed the heap.
    let scale = if sum > line.bytes as f64 { line.bytes as f64 / sum } else { 1.0 };
    for site in ledger.heap_sites.iter().filter(|site| site.resident > 0.0) {
        add(profile, site.stack, site.blocks, site.resident * scale);
    }
    line.bytes - ((sum * scale).round() as u64).min(line.bytes)
}

/// Adds recorded mappings by stack; returns the bytes of the line that are left.
fn add_mappings(profile: &mut Profile, ledger: &Ledger, line: &Line) -> u64 {
    let mut rest = line.bytes;
    for site in ledger.mapping_sites.iter().filter(|site| site.line == line.name && site.resident > 0) {
        let bytes = site.resident.min(rest);
        let memfd = site.memfd.and_then(|memfd| ledger.memfds.get(memfd));
        let stack = memfd.map_or(site.stack, |memfd| stack_of_memfd(profile, line, memfd, site.stack));
        add(profile, stack, site.count as f64, bytes as f64);
        rest -= bytes;
    }
    rest
}

/// A frame of the memfd's name, above the stack that created it, else above the one that mapped it.
fn stack_of_memfd(profile: &mut Profile, line: &Line, memfd: &MemfdUse, mapped_by: StackId) -> StackId {
    let created_by = memfd.created.and_then(|created| created.stack);
    let name = format!("[{}: {}]", line.name, memfd.name);
    profile.named_stack_above(Some(created_by.unwrap_or(mapped_by)), &name)
}

/// Adds what no stack explains: by part, where the parts are the rest, else as one sample.
fn add_rest(profile: &mut Profile, line: &Line, mut rest: u64) {
    if rest == line.bytes {
        for part in line.parts.iter().take(MOST_PARTS) {
            let name = part.name.rsplit('/').next().unwrap_or(&part.name);
            let stack = profile.named_stack(&format!("[{}: {name}]", line.name));
            let bytes = part.bytes.min(rest);
            add(profile, stack, 1.0, bytes as f64);
            rest -= bytes;
        }
    }
    if rest > 0 {
        let stack = profile.named_stack(&format!("[{}]", line.name));
        add(profile, stack, 1.0, rest as f64);
    }
}

fn add(profile: &mut Profile, stack: StackId, objects: f64, bytes: f64) {
    let values =
        Values { alloc_objects: objects, alloc_bytes: bytes, inuse_objects: objects, inuse_bytes: bytes };
    profile.samples.push(Sample { stack, thread: None, sizes: None, values, variance: Values::default() });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::{HeapSite, MappingSite, MemfdCreation, Part};

    #[test]
    fn memory_of_a_memfd_belongs_to_the_stack_that_created_it() {
        let mut stacks = Profile::default();
        let [create, map] = ["create", "map"].map(|name| stacks.named_stack(name));
        let shared = LineKind::SharedMemory;
        let line = Line { kind: shared, name: shared.title().into(), bytes: 9, parts: Vec::new() };
        for (created, owner) in [(Some(MemfdCreation { stack: Some(create), ms: 1 }), create), (None, map)] {
            let memfd = MemfdUse { name: "memfd:pool".into(), created, mapped: 90, resident: 9 };
            let site = MappingSite {
                stack: map,
                memfd: Some(0),
                line: line.name.clone(),
                count: 1,
                last_ms: 0,
                mapped: 90,
                resident: 9,
            };
            let ledger = Ledger {
                resident: 9,
                lines: vec![line.clone()],
                mapping_sites: vec![site],
                memfds: vec![memfd],
                ..Ledger::default()
            };
            let profile = resident_profile(&ledger, stacks.clone());
            let [sample] = &profile.samples[..] else { panic!("{:?}", profile.samples) };
            assert_eq!(profile.stacks.parent(sample.stack), Some(owner));
            let location = &profile.locations[profile.stacks.location(sample.stack).index()];
            let name = &profile.functions[location.lines[0].function.index()].name;
            assert_eq!((name.as_str(), sample.values.inuse_bytes), ("[shared memory: memfd:pool]", 9.0));
        }
    }

    #[test]
    fn samples_add_up_to_the_resident_bytes() {
        let mut stacks = Profile::default();
        let (grow, map) = (stacks.named_stack("grow"), stacks.named_stack("map"));
        let line = |kind: LineKind, bytes, parts| Line { kind, name: kind.title().into(), bytes, parts };
        let part = |name: &str, bytes| Part { name: name.into(), bytes };
        let site = HeapSite { stack: grow, blocks: 2.0, live: 120.0, resident: 100.0, sole: 0, pinned: 0 };
        let mapping = MappingSite {
            stack: map,
            line: "mappings".into(),
            memfd: None,
            count: 1,
            last_ms: 0,
            mapped: 90,
            resident: 50,
        };
        let ledger = Ledger {
            resident: 270,
            lines: vec![
                line(LineKind::HeapLive, 101, vec![]),
                line(LineKind::HeapFree, 9, vec![]),
                line(LineKind::Mappings, 60, vec![]),
                line(LineKind::Binaries, 100, vec![part("/lib/libc.so.6", 80), part("/bin/app", 20)]),
            ],
            heap_sites: vec![site],
            mapping_sites: vec![mapping],
            ..Ledger::default()
        };
        let profile = resident_profile(&ledger, stacks);
        assert_eq!(profile.total().inuse_bytes, ledger.resident as f64);
        let of = |name: &str| {
            let is_it = |sample: &&Sample| {
                let location = &profile.locations[profile.stacks.location(sample.stack).index()];
                profile.functions[location.lines[0].function.index()].name == name
            };
            profile.samples.iter().find(is_it).map(|sample| sample.values.inuse_bytes)
        };
        assert_eq!((of("grow"), of("map")), (Some(100.0), Some(50.0)));
        assert_eq!((of("[libraries: libc.so.6]"), of("[heap: live]")), (Some(80.0), Some(1.0)));
        assert_eq!(of("[mappings]"), Some(10.0));
    }
}
