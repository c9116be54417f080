//! Builds a [`Profile`] from data in any order.
//!
//! Locations, functions and threads are interned, measurements of the same stack, thread and single
//! block size add up (all those of mixed sizes too), and addresses find their module at the end,
//! when all mappings are known.

use foldhash::HashMap;

use crate::{
    Function, FunctionId, Line, Location, LocationId, Meta, Module, ModuleId, Profile, Sample, SizeHistogram,
    SizeRange, StackId, Thread, ThreadId, Values, metric::Unit, model::ExtraColumn,
};

/// A profile in the making.
#[derive(Debug, Default)]
pub struct Builder {
    profile: Profile,
    by_address: HashMap<(u64, bool), LocationId>,
    by_name: HashMap<Vec<Line>, LocationId>,
    by_function: HashMap<Function, FunctionId>,
    by_thread: HashMap<(u64, String), ThreadId>,
    by_sample: HashMap<SampleKey, usize>,
    /// Bytes of the texts in tables and keys.
    text_bytes: u64,
}

type SampleKey = (StackId, Option<ThreadId>, Option<u64>);

impl Builder {
    /// An empty profile whose [`Meta::source`] is `source`.
    #[must_use]
    pub fn new(source: &str) -> Self {
        let mut builder = Self::default();
        builder.profile.meta.source = source.to_owned();
        builder
    }

    /// Where the profile comes from, to be filled in.
    pub fn meta(&mut self) -> &mut Meta {
        &mut self.profile.meta
    }

    /// The location at an address of the process.
    pub fn address(&mut self, address: u64, is_return_address: bool) -> LocationId {
        let locations = &mut self.profile.locations;
        *self.by_address.entry((address, is_return_address)).or_insert_with(|| {
            locations.push(Location { address, is_return_address, ..Location::default() });
            LocationId::new(locations.len() - 1)
        })
    }

    /// The location of a source without addresses, identified by its functions alone.
    pub fn frames(&mut self, lines: Vec<Line>) -> LocationId {
        if let Some(id) = self.by_name.get(&lines) {
            return *id;
        }
        let id = self.distinct(Location { lines: lines.clone(), ..Location::default() });
        self.by_name.insert(lines, id);
        id
    }

    /// The location of a source that has only a name.
    pub fn named(&mut self, name: &str) -> LocationId {
        let function = self.function(Function { name: name.to_owned(), ..Function::default() });
        self.frames(vec![Line { function, line: 0 }])
    }

    /// A location that the caller keeps distinct by an identity of its own.
    pub fn distinct(&mut self, location: Location) -> LocationId {
        self.profile.locations.push(location);
        LocationId::new(self.profile.locations.len() - 1)
    }

    /// A location, to complete it.
    pub fn location(&mut self, id: LocationId) -> &mut Location {
        &mut self.profile.locations[id.index()]
    }

    /// All locations, to complete them.
    pub fn locations(&mut self) -> &mut [Location] {
        &mut self.profile.locations
    }

    /// A function; equal functions get the same id.
    pub fn function(&mut self, function: Function) -> FunctionId {
        if let Some(id) = self.by_function.get(&function) {
            return *id;
        }
        let texts = [&function.name, &function.system_name, &function.file];
        self.text_bytes += 2 * texts.map(|text| text.len() as u64).iter().sum::<u64>();
        self.profile.functions.push(function.clone());
        let id = FunctionId::new(self.profile.functions.len() - 1);
        self.by_function.insert(function, id);
        id
    }

    /// A thread of a source that has no numbers but its ids.
    pub fn thread(&mut self, tid: u64, name: &str) -> ThreadId {
        self.numbered_thread(&Thread { tid, number: tid, name: name.to_owned() })
    }

    /// A thread by id and name; the first one keeps its number.
    pub fn numbered_thread(&mut self, thread: &Thread) -> ThreadId {
        let threads = &mut self.profile.threads;
        *self.by_thread.entry((thread.tid, thread.name.clone())).or_insert_with(|| {
            threads.push(thread.clone());
            ThreadId::new(threads.len() - 1)
        })
    }

    /// A mapped binary; ids are assigned in the order of the calls.
    pub fn module(&mut self, module: Module) -> ModuleId {
        self.text_bytes += module.path.len() as u64;
        self.profile.modules.push(module);
        ModuleId::new(self.profile.modules.len() - 1)
    }

    /// The modules so far.
    pub fn modules(&mut self) -> &mut Vec<Module> {
        &mut self.profile.modules
    }

    /// A stack from root to leaf. A stack without frames is the single frame `[unknown]`.
    pub fn stack(&mut self, root_to_leaf: impl IntoIterator<Item = LocationId>) -> StackId {
        let known = self.profile.stacks.intern(root_to_leaf);
        known.unwrap_or_else(|| {
            let unknown = self.named("[unknown]");
            self.profile.stacks.child(None, unknown)
        })
    }

    /// A frame below `parent` (`None`: a root).
    pub fn child(&mut self, parent: Option<StackId>, location: LocationId) -> StackId {
        self.profile.stacks.child(parent, location)
    }

    /// Adds a measurement and returns its row in [`Profile::samples`].
    pub fn add(
        &mut self,
        stack: StackId,
        thread: Option<ThreadId>,
        sizes: Option<SizeRange>,
        values: Values,
        variance: Values,
    ) -> usize {
        let samples = &mut self.profile.samples;
        let block_bytes = sizes.and_then(SizeRange::single);
        let row = *self.by_sample.entry((stack, thread, block_bytes)).or_insert_with(|| {
            let (values, variance) = (Values::default(), Values::default());
            samples.push(Sample { stack, thread, sizes, values, variance });
            samples.len() - 1
        });
        let sample = &mut samples[row];
        sample.sizes = sample.sizes.zip(sizes).map(|(one, other)| one.union(other));
        sample.values += values;
        sample.variance += variance;
        row
    }

    /// Blocks of the whole process by size.
    pub fn set_sizes(&mut self, sizes: SizeHistogram) {
        self.profile.sizes = sizes;
    }

    /// Declares a further column and returns its number.
    pub fn column(&mut self, name: &str, unit: Unit) -> usize {
        let extra = &mut self.profile.extra;
        let known = extra.iter().position(|column| column.name == name);
        known.unwrap_or_else(|| {
            extra.push(ExtraColumn { name: name.to_owned(), unit, values: Vec::new() });
            extra.len() - 1
        })
    }

    /// Adds to a cell of a further column.
    pub fn add_extra(&mut self, column: usize, row: usize, value: f64) {
        let values = &mut self.profile.extra[column].values;
        if values.len() <= row {
            values.resize(row + 1, 0.0);
        }
        values[row] += value;
    }

    /// Memory of the tables so far, roughly: rows, their share of a hash table, texts.
    #[must_use]
    pub fn held_bytes(&self) -> u64 {
        let Profile { modules, locations, functions, stacks, samples, .. } = &self.profile;
        let rows = modules.len() * size_of::<Module>()
            + locations.len() * (size_of::<Location>() + size_of::<Line>())
            + functions.len() * 3 * size_of::<Function>()
            + stacks.len() * 40
            + samples.len() * (size_of::<Sample>() + 2 * size_of::<SampleKey>());
        rows as u64 + self.text_bytes
    }

    /// The finished profile: every address has its module, every column its full length.
    #[must_use]
    pub fn finish(mut self) -> Profile {
        self.find_modules();
        let rows = self.profile.samples.len();
        for column in &mut self.profile.extra {
            column.values.resize(rows, 0.0);
        }
        self.profile
    }

    fn find_modules(&mut self) {
        let Profile { modules, locations, .. } = &mut self.profile;
        let mut by_start: Vec<ModuleId> = (0..modules.len()).map(ModuleId::new).collect();
        by_start.sort_by_key(|id| modules[id.index()].start);
        for location in locations.iter_mut() {
            if location.module.is_some() || location.address == 0 {
                continue;
            }
            let address = location.lookup_address();
            let after = by_start.partition_point(|id| modules[id.index()].start <= address);
            location.module =
                by_start[..after].last().copied().filter(|id| modules[id.index()].contains(address));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn measurements_of_one_place_add_up_and_columns_are_as_long_as_the_samples() {
        let mut builder = Builder::new("test");
        let [a, b] = ["a", "b"].map(|name| builder.named(name));
        let one = Values { inuse_bytes: 1.0, ..Values::default() };
        for leaf in [a, b, a] {
            let stack = builder.stack([leaf]);
            builder.add(stack, None, None, one, Values::default());
        }
        let column = builder.column("peak_space", Unit::Bytes);
        builder.add_extra(column, 0, 7.0);
        let profile = builder.finish();
        assert_eq!(profile.samples.len(), 2);
        assert_eq!(profile.samples[0].values.inuse_bytes, 2.0);
        assert_eq!(profile.extra[0].values, [7.0, 0.0]);
    }

    #[test]
    fn an_address_belongs_to_the_module_of_its_call_instruction() {
        let mut builder = Builder::new("test");
        for (path, start) in [("/b", 0x2000), ("/a", 0x1000)] {
            builder.module(Module { path: path.to_owned(), start, end: start + 0x1000, ..Module::default() });
        }
        // A call at the very end of /a returns to the first address of /b.
        let returned = builder.address(0x2000, true);
        let outside = builder.address(0x3000, false);
        let profile = builder.finish();
        let path_of = |id: LocationId| {
            let module = profile.locations[id.index()].module?;
            Some(profile.modules[module.index()].path.as_str())
        };
        assert_eq!(path_of(returned), Some("/a"));
        assert_eq!(path_of(outside), None);
    }
}
