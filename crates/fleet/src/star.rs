//! From a profile to rows of the star schema.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use heapwise_profile::allocator::{is_allocator, is_allocator_module};
use heapwise_profile::own_code::{CodeFrames, OwnRule};
use heapwise_profile::{Location, Profile, Sampling, StackId, Values, name};

use crate::content_hash;
use crate::rows::{Amounts, FrameRow, FunctionRow, Origin, ProfileRow, Rows, SampleRow, StackRow};

/// Deepest stack stored; frames beyond are the outermost ones.
const MOST_FRAMES: usize = u16::MAX as usize;

/// The rows of a profile. Stacks that `is_known` get no rows of `stacks`, `frames` and `functions`.
#[must_use]
pub fn rows(origin: Arc<Origin>, profile: &Profile, is_known: &dyn Fn(u64) -> bool) -> Rows {
    let frames = FrameTable::new(profile);
    let ids = stack_ids(profile, &frames);
    let mut rows = Rows { samples: samples(&origin, profile, &ids), ..Rows::default() };
    let wanted: HashSet<u64> =
        rows.samples.iter().map(|sample| sample.stack_id).filter(|id| !is_known(*id)).collect();
    if !wanted.is_empty() {
        add_stacks(&mut rows, profile, &frames, &ids, wanted);
    }
    let sampling_bytes = match profile.meta.sampling {
        Sampling::Exact => 0,
        Sampling::Poisson { mean_bytes } => mean_bytes,
    };
    rows.profiles.push(ProfileRow {
        origin,
        sampling_bytes,
        stacks: u32::try_from(rows.samples.len()).unwrap_or(u32::MAX),
        values: amounts(profile.total()),
        peak_bytes: profile.meta.peak_bytes.map_or(0, |bytes| i64::try_from(bytes).unwrap_or(i64::MAX)),
    });
    rows
}

fn amounts(values: Values) -> Amounts {
    let whole = |value: f64| value.round() as i64;
    Amounts {
        inuse_bytes: whole(values.inuse_bytes),
        inuse_objects: whole(values.inuse_objects),
        alloc_bytes: whole(values.alloc_bytes),
        alloc_objects: whole(values.alloc_objects),
    }
}

/// One row per distinct stack: threads and block sizes are added up.
fn samples(origin: &Arc<Origin>, profile: &Profile, ids: &[u64]) -> Vec<SampleRow> {
    let mut sums: HashMap<u64, (Values, f64)> = HashMap::new();
    let mut order = Vec::new();
    for sample in &profile.samples {
        let id = ids[sample.stack.index()];
        let sum = sums.entry(id).or_insert_with(|| {
            order.push(id);
            Default::default()
        });
        sum.0 += sample.values;
        sum.1 += sample.variance.inuse_bytes;
    }
    let row = |stack_id: u64| {
        let (values, inuse_variance) = sums[&stack_id];
        SampleRow { origin: Arc::clone(origin), stack_id, values: amounts(values), inuse_variance }
    };
    order.into_iter().map(row).collect()
}

/// A frame of a location.
struct Frame {
    fn_id: u64,
    line: u32,
    is_allocator: bool,
    is_inlined: bool,
}

/// The frames of every location, innermost first, and the distinct functions.
struct FrameTable {
    by_location: Vec<Vec<Frame>>,
    functions: HashMap<u64, FunctionRow>,
}

impl FrameTable {
    fn new(profile: &Profile) -> Self {
        let mut table = Self { by_location: Vec::new(), functions: HashMap::new() };
        for location in &profile.locations {
            let frames = table.frames(profile, location);
            table.by_location.push(frames);
        }
        table
    }

    fn frames(&mut self, profile: &Profile, location: &Location) -> Vec<Frame> {
        let module = location.module.and_then(|id| profile.modules.get(id.index()));
        let module_name = module.map_or("", |module| module.name());
        let in_allocator = is_allocator_module(module_name);
        if location.lines.is_empty() {
            let name = match module {
                Some(module) => format!("{module_name}+0x{:x}", module.file_offset_of(location.address)),
                None => format!("0x{:x}", location.address),
            };
            let fn_id = self.intern(unnamed(name, module_name));
            return vec![Frame { fn_id, line: 0, is_allocator: in_allocator, is_inlined: false }];
        }
        let physical = location.lines.len() - 1;
        let frame = |(depth, line): (usize, &heapwise_profile::Line)| {
            let function = profile.functions.get(line.function.index())?;
            let is_allocator = in_allocator || is_allocator(&function.name);
            let fn_id = self.intern(function_row(function, module_name));
            Some(Frame { fn_id, line: line.line, is_allocator, is_inlined: depth != physical })
        };
        location.lines.iter().enumerate().filter_map(frame).collect()
    }

    fn intern(&mut self, row: FunctionRow) -> u64 {
        let id = row.fn_id;
        self.functions.entry(id).or_insert(row);
        id
    }
}

fn function_row(function: &heapwise_profile::Function, module: &str) -> FunctionRow {
    let texts = [function.name.as_str(), &function.system_name, &function.file, module];
    FunctionRow {
        fn_id: content_hash::of_parts(&texts.map(str::as_bytes)),
        name: name::short(&function.name),
        full_name: function.name.clone(),
        system_name: function.system_name.clone(),
        file: function.file.clone(),
        start_line: function.start_line,
        module: module.to_owned(),
    }
}

fn unnamed(name: String, module: &str) -> FunctionRow {
    let (system_name, file) = (String::new(), String::new());
    let fn_id = content_hash::of_parts(&[name.as_bytes(), b"", b"", module.as_bytes()]);
    let module = module.to_owned();
    FunctionRow { fn_id, full_name: name.clone(), name, system_name, file, start_line: 0, module }
}

/// The id of every node of the stack table. Callers come before callees.
fn stack_ids(profile: &Profile, frames: &FrameTable) -> Vec<u64> {
    let mut ids: Vec<u64> = Vec::with_capacity(profile.stacks.len());
    for stack in profile.stacks.ids() {
        let parent = profile.stacks.parent(stack).map_or(0, |parent| ids[parent.index()]);
        let location = &frames.by_location[profile.stacks.location(stack).index()];
        let id = location
            .iter()
            .rev()
            .fold(parent, |id, frame| content_hash::of_numbers(&[id, frame.fn_id, u64::from(frame.line)]));
        ids.push(id);
    }
    ids
}

fn add_stacks(rows: &mut Rows, profile: &Profile, table: &FrameTable, ids: &[u64], mut wanted: HashSet<u64>) {
    let sites = CodeFrames::new(profile, &OwnRule::default());
    let mut used: HashSet<u64> = HashSet::new();
    for sample in &profile.samples {
        let stack_id = ids[sample.stack.index()];
        if !wanted.remove(&stack_id) {
            continue;
        }
        let frames = frames_of(profile, table, sample.stack);
        let outside = frames.iter().find(|frame| !frame.is_allocator).or(frames.first());
        let site = sites.from_own_code(profile, sample.stack, 1);
        let site = site.first().map_or("[unknown]", |frame| frame.label.as_str());
        rows.stacks.push(StackRow {
            stack_id,
            depth: frames.len() as u16,
            leaf_fn: outside.map_or(0, |frame| frame.fn_id),
            site_id: content_hash::of_parts(&[site.as_bytes()]),
            site: site.to_owned(),
        });
        let mut names: HashSet<&str> = HashSet::new();
        for (pos, frame) in frames.iter().enumerate() {
            let is_first = names.insert(&table.functions[&frame.fn_id].name);
            let Frame { fn_id, line, is_inlined, .. } = **frame;
            rows.frames.push(FrameRow { stack_id, pos: pos as u16, fn_id, line, is_inlined, is_first });
            used.insert(fn_id);
        }
    }
    let mut used: Vec<u64> = used.into_iter().collect();
    used.sort_unstable();
    rows.functions.extend(used.iter().map(|id| table.functions[id].clone()));
}

/// The frames of a stack, innermost first.
fn frames_of<'a>(profile: &Profile, table: &'a FrameTable, stack: StackId) -> Vec<&'a Frame> {
    let nodes = profile.stacks.leaf_to_root(stack);
    let frames = nodes.flat_map(|node| &table.by_location[profile.stacks.location(node).index()]);
    frames.take(MOST_FRAMES).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use heapwise_profile::fixture;

    fn rows_of(text: &str) -> Rows {
        rows(Arc::default(), &fixture::profile(text), &|_| false)
    }

    #[test]
    fn ids_depend_on_content_only() {
        let one = rows_of("main;a;malloc 10 1\nmain;b;malloc 20 2\n");
        let two = rows_of("main;b;malloc 5 1\nmain;c 1 1\nmain;a;malloc 7 1\n");
        let id_of = |rows: &Rows, site: &str| {
            rows.stacks.iter().find(|stack| stack.site == site).map(|stack| stack.stack_id)
        };
        assert!(id_of(&one, "a").is_some());
        assert_eq!(id_of(&one, "a"), id_of(&two, "a"));
        assert_eq!(id_of(&one, "b"), id_of(&two, "b"));
        assert_ne!(id_of(&one, "a"), id_of(&one, "b"));
    }

    #[test]
    fn samples_of_one_stack_are_one_row() {
        let rows = rows_of("main;a 10 1 7\nmain;a 20 2 8\nmain;b 5 5 7\n");
        let values: Vec<_> = rows.samples.iter().map(|row| row.values.inuse_bytes).collect();
        assert_eq!(values, [30, 5]);
        assert_eq!((rows.profiles[0].stacks, rows.profiles[0].values.inuse_objects), (2, 8));
    }

    #[test]
    fn a_recursive_function_is_first_once_and_the_leaf_is_outside_the_allocator() {
        let rows = rows_of("main;walk;walk;malloc 10 1\n");
        let name = |id| &rows.functions.iter().find(|function| function.fn_id == id).unwrap().name;
        let frames: Vec<_> = rows.frames.iter().map(|row| (name(row.fn_id).as_str(), row.is_first)).collect();
        assert_eq!(frames, [("malloc", true), ("walk", true), ("walk", false), ("main", true)]);
        assert_eq!(name(rows.stacks[0].leaf_fn), "walk");
    }

    #[test]
    fn known_stacks_are_not_described_again() {
        let all = rows_of("main;a 10 1\nmain;b 5 5\n");
        let known = all.stacks[0].stack_id;
        let rest = rows(Arc::default(), &fixture::profile("main;a 10 1\nmain;b 5 5\n"), &|id| id == known);
        assert_eq!((rest.samples.len(), rest.stacks.len()), (2, 1));
        assert_eq!(rest.stacks[0], all.stacks[1]);
    }
}
