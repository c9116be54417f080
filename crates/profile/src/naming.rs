//! How much memory of a profile has a name: values by whether the function that allocates, the
//! innermost frame outside the allocator, is known by name.

use std::collections::HashMap;

use crate::model::SymbolProblem;
use crate::{BuildId, Location, ModuleId, Profile, Values, allocator};

/// Named and unnamed memory of a profile.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Naming {
    /// Values of the whole profile.
    pub total: Values,
    /// Values without a name by binary, the largest first.
    pub unnamed: Vec<UnnamedBinary>,
}

/// Memory allocated by functions of one binary that have no names.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct UnnamedBinary {
    /// Path as recorded; empty for addresses outside every binary.
    pub path: String,
    /// Recorded build-id, possibly empty.
    pub build_id: BuildId,
    /// Values without a name.
    pub values: Values,
    /// What the symbolizer reported about the binary.
    pub problems: Vec<SymbolProblem>,
}

/// The frame that a stack's memory is attributed to.
#[derive(Clone, Copy)]
struct Holder {
    /// The binary of the frame if the frame has no name: `Some(None)` is outside every binary.
    unnamed: Option<Option<ModuleId>>,
    /// Whether the allocator was entered: inner frames belong to it.
    is_final: bool,
}

impl Naming {
    /// Named and unnamed memory of `profile`.
    #[must_use]
    pub fn of(profile: &Profile) -> Self {
        let holders = holders(profile);
        let mut sums: HashMap<Option<ModuleId>, Values> = HashMap::new();
        for sample in &profile.samples {
            if let Some(module) = holders[sample.stack.index()].unnamed {
                *sums.entry(module).or_default() += sample.values;
            }
        }
        let mut by_binary: Vec<UnnamedBinary> = Vec::new();
        for (module, values) in sums {
            let (path, build_id) = match module {
                Some(id) => {
                    let module = &profile.modules[id.index()];
                    (module.path.clone(), module.build_id.clone())
                }
                None => Default::default(),
            };
            // A binary has several executable mappings.
            match by_binary.iter_mut().find(|row| row.path == path && row.build_id == build_id) {
                Some(row) => row.values += values,
                None => {
                    let problems = problems(profile, &path, &build_id);
                    by_binary.push(UnnamedBinary { path, build_id, values, problems });
                }
            }
        }
        let rank = |row: &UnnamedBinary| (row.values.inuse_bytes, row.values.alloc_bytes);
        by_binary.sort_by(|one, two| {
            rank(two).partial_cmp(&rank(one)).unwrap_or(one.path.cmp(&two.path)).then(one.path.cmp(&two.path))
        });
        Self { total: profile.total(), unnamed: by_binary }
    }

    /// Sum of the values without a name.
    #[must_use]
    pub fn unnamed_values(&self) -> Values {
        self.unnamed.iter().fold(Values::default(), |sum, row| sum + row.values)
    }
}

fn problems(profile: &Profile, path: &str, build_id: &BuildId) -> Vec<SymbolProblem> {
    let same = |row: &&crate::model::BinaryProblems| {
        row.path == path && (build_id.is_empty() || row.build_id == *build_id)
    };
    profile.symbol_problems.iter().find(same).map(|row| row.problems.clone()).unwrap_or_default()
}

/// The holder of each stack. Callers come before callees.
fn holders(profile: &Profile) -> Vec<Holder> {
    let allocators: Vec<bool> =
        profile.functions.iter().map(|function| allocator::is_allocator(&function.name)).collect();
    let is_allocator = |location: &Location| {
        let module = location.module.map(|id| &profile.modules[id.index()]);
        module.is_some_and(|module| allocator::is_allocator_module(module.name()))
            || location.lines.iter().any(|line| allocators[line.function.index()])
    };
    let locations: Vec<Holder> = profile
        .locations
        .iter()
        .map(|location| Holder {
            unnamed: (!has_name(profile, location)).then_some(location.module),
            is_final: is_allocator(location),
        })
        .collect();
    let mut holders: Vec<Holder> = Vec::with_capacity(profile.stacks.len());
    for stack in profile.stacks.ids() {
        let own = locations[profile.stacks.location(stack).index()];
        let caller = profile.stacks.parent(stack).map(|caller| holders[caller.index()]);
        holders.push(match caller {
            Some(caller) if caller.is_final => caller,
            Some(caller) if own.is_final => Holder { is_final: true, ..caller },
            _ => own,
        });
    }
    holders
}

/// Whether the innermost function of a location has a name of its own, and not one that was made of
/// its binary and offset.
fn has_name(profile: &Profile, location: &Location) -> bool {
    let Some(line) = location.lines.first() else {
        return false;
    };
    let function = &profile.functions[line.function.index()];
    let module = location.module.map(|id| profile.modules[id.index()].name());
    !module.is_some_and(|module| function.is_placeholder(module))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builder::Builder;
    use crate::{Function, Line, Module};

    /// `main` of a program calls `library+0x10`, which calls `malloc`; `main` allocates, too.
    fn profile() -> Profile {
        let mut builder = Builder::new("test");
        for (row, path) in ["/bin/program", "/lib/library.so"].into_iter().enumerate() {
            let start = (row as u64 + 1) << 20;
            builder.module(Module { path: path.into(), start, end: start + 4096, ..Module::default() });
        }
        let [main, inner, outside] =
            [(1 << 20) + 8, (2 << 20) + 0x10, 0x99].map(|at| builder.address(at, true));
        let malloc = builder.named("malloc");
        let one = Values { inuse_bytes: 1.0, ..Values::default() };
        for path in [vec![main, inner, malloc], vec![main, malloc], vec![main, inner], vec![outside]] {
            let stack = builder.stack(path);
            builder.add(stack, None, None, one, Values::default());
        }
        let mut profile = builder.finish();
        let id = profile.functions.len() as u32;
        profile.functions.push(Function { name: "main".into(), ..Function::default() });
        profile.functions.push(Function { name: "library.so+0x10".into(), ..Function::default() });
        profile.locations[main.index()].lines = vec![Line { function: crate::FunctionId(id), line: 0 }];
        profile.locations[inner.index()].lines = vec![Line { function: crate::FunctionId(id + 1), line: 0 }];
        profile.symbol_problems = vec![crate::model::BinaryProblems {
            path: "/lib/library.so".into(),
            build_id: BuildId(vec![1]),
            problems: vec![SymbolProblem::NoSymbols],
        }];
        profile
    }

    #[test]
    fn memory_belongs_to_the_caller_of_the_allocator() {
        let naming = Naming::of(&profile());
        let rows: Vec<_> =
            naming.unnamed.iter().map(|row| (row.path.as_str(), row.values.inuse_bytes)).collect();
        assert_eq!(rows, [("/lib/library.so", 2.0), ("", 1.0)]);
        assert_eq!(naming.unnamed[0].problems, [SymbolProblem::NoSymbols]);
        assert_eq!((naming.total.inuse_bytes, naming.unnamed_values().inuse_bytes), (4.0, 3.0));
    }
}
