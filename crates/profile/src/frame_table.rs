//! Frames: the subject of a row or a box, at the query's granularity.
//!
//! Names are made, matched and classified once per distinct function, never per sample.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::allocator::{self, Leaf};
use crate::query::{Granularity, LeafCut, NameStyle, Query, Regex};
use crate::{FunctionId, Line, Location, LocationId, Module, Profile, name, script};

/// A row of a [`FrameTable`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FrameId(pub u32);

impl FrameId {
    /// The row in its table.
    #[must_use]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// A function, line, file, address or module, as views print it. Frames of two profiles are equal
/// when their labels are equal, so that a comparison survives a rebuild.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Frame {
    /// The printed label.
    pub label: String,
    /// The function alone; empty for files and modules.
    pub function: String,
    /// Source file, or empty.
    pub file: String,
    /// Source line (of the declaration, for functions); 0 when unknown.
    pub line: u32,
    /// Binary, last component of its path, or empty.
    pub module: String,
}

/// All distinct frames of a query. Shared, because a stack listing repeats them many times.
#[derive(Debug, Clone, Default)]
pub struct FrameTable {
    frames: Vec<Arc<Frame>>,
    by_label: FxHashMap<String, FrameId>,
}

impl FrameTable {
    /// All frames, indexed by [`FrameId`].
    #[must_use]
    pub fn all(&self) -> &[Arc<Frame>] {
        &self.frames
    }

    /// One frame.
    #[must_use]
    pub fn get(&self, id: FrameId) -> &Arc<Frame> {
        &self.frames[id.index()]
    }

    /// The frame with this label.
    #[must_use]
    pub fn find(&self, label: &str) -> Option<FrameId> {
        self.by_label.get(label).copied()
    }

    fn intern(&mut self, frame: Frame) -> FrameId {
        if let Some(&id) = self.by_label.get(&frame.label) {
            return id;
        }
        let id = FrameId(u32::try_from(self.frames.len()).unwrap_or(u32::MAX));
        self.by_label.insert(frame.label.clone(), id);
        self.frames.push(Arc::new(frame));
        id
    }
}

/// How a query treats one function.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct FrameFlags {
    pub(crate) focus: bool,
    pub(crate) ignore: bool,
    pub(crate) hidden: bool,
    pub(crate) allocator: bool,
    /// Part of the language runtime around the allocator.
    pub(crate) runtime: bool,
    /// Declared by a script engine: above the native frames, the allocator's included.
    pub(crate) script: bool,
    /// A signal arrived here: what follows is its handler's, and no part of what the function does.
    pub(crate) interrupted: bool,
}

/// One function at a location, ready for the call tree.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Step {
    pub(crate) frame: FrameId,
    pub(crate) flags: FrameFlags,
}

/// The steps of every location of one profile, outermost function first.
pub(crate) struct Steps {
    steps: Vec<Step>,
    starts: Vec<u32>,
}

impl Steps {
    pub(crate) fn of(&self, location: LocationId) -> &[Step] {
        let at = location.index();
        &self.steps[self.starts[at] as usize..self.starts[at + 1] as usize]
    }

    /// Names every location of `profile`, adding new frames to `table`.
    pub(crate) fn resolve(profile: &Profile, query: &Query, table: &mut FrameTable) -> Self {
        // jeprof matches functions only, but cuts the same frames: in a stripped allocator it uses
        // the nearest symbol, which is an entry point.
        let cuts_modules = query.leaf_cut != LeafCut::Nothing;
        let is_allocator = |module: &Module| cuts_modules && allocator::is_allocator_module(module.name());
        let mut namer = Namer {
            profile,
            query,
            allocator_modules: profile.modules.iter().map(is_allocator).collect(),
            tells_calls: profile.locations.iter().any(|location| location.is_return_address),
            table,
            functions: vec![None; profile.functions.len()],
            script_functions: script::functions(profile),
            places: FxHashMap::default(),
            ambiguous: match query.names {
                NameStyle::Jeprof => ambiguous_names(profile),
                _ => FxHashMap::default(),
            },
            frames: FxHashMap::default(),
        };
        let mut steps = Vec::with_capacity(profile.locations.len());
        let mut starts = Vec::with_capacity(profile.locations.len() + 1);
        starts.push(0);
        for location in &profile.locations {
            namer.push_steps(location, &mut steps);
            starts.push(u32::try_from(steps.len()).unwrap_or(u32::MAX));
        }
        Self { steps, starts }
    }
}

/// A function's spelling and flags, computed once.
#[derive(Clone)]
struct Known {
    name: String,
    flags: FrameFlags,
    /// The name, made unique among frames of the same name.
    label: String,
}

/// Key of a frame within one profile: lines of locations with equal keys are one frame.
#[derive(PartialEq, Eq, Hash)]
struct FrameKey {
    function: FunctionId,
    line: u32,
    inlined: bool,
    module: u32,
}

struct Namer<'a> {
    profile: &'a Profile,
    query: &'a Query,
    table: &'a mut FrameTable,
    /// By module: whether it is an allocator.
    allocator_modules: Vec<bool>,
    /// Whether the profile distinguishes calls from interruptions; most formats of other tools do
    /// not.
    tells_calls: bool,
    functions: Vec<Option<Known>>,
    /// By function: whether it is one of a script, whose names are not those of C++.
    script_functions: Vec<bool>,
    /// Address of functions whose short name several functions have, where their names contain it.
    ambiguous: FxHashMap<FunctionId, String>,
    /// Flags of source lines, where patterns select.
    places: FxHashMap<(FunctionId, u32), FrameFlags>,
    frames: FxHashMap<FrameKey, FrameId>,
}

impl Namer<'_> {
    fn push_steps(&mut self, location: &Location, steps: &mut Vec<Step>) {
        if location.lines.is_empty() {
            steps.push(self.unresolved(location));
            return;
        }
        let interrupted = self.is_interrupted(location);
        let in_allocator = self.in_allocator(location);
        // Named, and not by any binary though there are some: by the program itself.
        let script = location.module.is_none() && !self.profile.modules.is_empty();
        let physical = location.lines.len() - 1;
        for (depth, line) in location.lines.iter().enumerate().rev() {
            let mut flags = self.flags(line, location);
            flags.allocator = (flags.allocator || in_allocator) && !script;
            flags.script = script;
            flags.interrupted = interrupted && depth == 0;
            let key = FrameKey {
                function: line.function,
                line: if self.per_line() { line.line } else { 0 },
                inlined: depth != physical && self.query.names.marks_inlined(),
                module: match self.query.granularity {
                    Granularity::Modules => location.module.map_or(u32::MAX, |module| module.0),
                    _ => 0,
                },
            };
            let cached = match self.query.granularity {
                Granularity::Addresses => None,
                _ => self.frames.get(&key).copied(),
            };
            let frame = cached.unwrap_or_else(|| {
                let frame = self.frame(location, line.function, line.line, key.inlined);
                let id = self.table.intern(frame);
                self.frames.insert(key, id);
                id
            });
            steps.push(Step { frame, flags });
        }
    }

    fn is_interrupted(&self, location: &Location) -> bool {
        self.tells_calls && location.module.is_some() && !location.is_return_address
    }

    fn in_allocator(&self, location: &Location) -> bool {
        location.module.is_some_and(|module| self.allocator_modules[module.index()])
    }

    fn per_line(&self) -> bool {
        self.query.granularity == Granularity::Lines
    }

    fn known(&mut self, id: FunctionId) -> &Known {
        let function = &self.profile.functions[id.index()];
        let query = self.query;
        let ambiguous = &self.ambiguous;
        let is_script = self.script_functions[id.index()];
        self.functions[id.index()].get_or_insert_with(|| {
            let name = match query.names {
                NameStyle::Short if is_script => function.name.clone(),
                NameStyle::Short => name::short(&function.name),
                NameStyle::Full => function.name.clone(),
                NameStyle::Jeprof | NameStyle::Collapsed => name::jeprof_short(&function.name),
            };
            // Many functions of a script have the same name, as `<module>` or `__init__`.
            let has_file = is_script && query.granularity == Granularity::Functions;
            let label = match (query.names, ambiguous.get(&id)) {
                (NameStyle::Collapsed, _) => function.name.clone(),
                (NameStyle::Short, _) if has_file => format!("{name} {}", function.file),
                (_, Some(address)) => format!("{name}@{address}"),
                (_, None) => name.clone(),
            };
            let mut flags = judge(query, &[&name, &label, &function.file]);
            let leaf = allocator::leaf(&function.name, query.leaf_cut);
            flags.allocator = leaf == Some(Leaf::Allocator);
            let is_library = query.leaf_cut == LeafCut::Runtime && script::is_library(&function.file);
            flags.runtime = leaf == Some(Leaf::Runtime) || is_library;
            Known { name, label, flags }
        })
    }

    /// The flags of a function at a line: patterns match `file:line` too. jeprof matches names,
    /// `file:line` and addresses, and removes frames by their names.
    fn flags(&mut self, line: &Line, location: &Location) -> FrameFlags {
        let query = self.query;
        let known = self.known(line.function).flags;
        if !query.filter.matches_frames() {
            return known;
        }
        let address = match query.names.is_jeprofs() {
            true => format!("{:016x}", location.lookup_address()),
            false => String::new(),
        };
        let functions = &self.profile.functions;
        let names = &self.functions;
        let mut flags = *self.places.entry((line.function, line.line)).or_insert_with(|| {
            let file = &functions[line.function.index()].file;
            let place = if file.is_empty() { String::new() } else { format!("{file}:{}", line.line) };
            let known = names[line.function.index()].as_ref();
            let name = known.map_or("", |known| &known.name);
            let label = known.map_or("", |known| &known.label);
            if query.names.is_jeprofs() {
                let hidden = judge(query, &[name]).hidden;
                return FrameFlags { hidden, ..judge(query, &[name, &place]) };
            }
            judge(query, &[name, label, file, &place])
        });
        let of_address = judge(query, &[&address]);
        flags.focus |= of_address.focus;
        flags.ignore |= of_address.ignore;
        FrameFlags { allocator: known.allocator, runtime: known.runtime, ..flags }
    }

    fn frame(&mut self, at: &Location, id: FunctionId, line: u32, inlined: bool) -> Frame {
        let function = &self.profile.functions[id.index()];
        let mut name = self.known(id).label.clone();
        if inlined {
            name.push_str(if self.query.names == NameStyle::Collapsed { "[inline]" } else { " (inline)" });
        }
        let module = self.module_name(at);
        let start_line = function.start_line;
        let file = function.file.clone();
        match self.query.granularity {
            Granularity::Functions => {
                // Own code is found by the name.
                let is_script = self.script_functions[id.index()];
                let function = if is_script { self.known(id).name.clone() } else { name.clone() };
                Frame { label: name, function, file, line: start_line, module }
            }
            Granularity::Lines => {
                Frame { label: self.with_line(&name, &file, line), function: name, file, line, module }
            }
            Granularity::Addresses => Frame {
                label: self.with_address(at.lookup_address(), &self.with_line(&name, &file, line)),
                function: name,
                file,
                line,
                module,
            },
            Granularity::Files if file.is_empty() => self.fileless(module),
            Granularity::Files => Frame { label: file.clone(), file, module, ..Frame::default() },
            Granularity::Modules if self.script_functions[id.index()] => {
                module_frame(script::package(&file).to_owned())
            }
            Granularity::Modules => module_frame(module),
        }
    }

    /// `f file:line`; jeprof passes on addr2line's `??:?` for what is unknown, we leave it out.
    fn with_line(&self, name: &str, file: &str, line: u32) -> String {
        match (file, self.query.names) {
            ("", NameStyle::Jeprof) => format!("{name} ??:?"),
            ("", _) => name.to_owned(),
            _ => format!("{name} {file}:{line}"),
        }
    }

    fn with_address(&self, address: u64, rest: &str) -> String {
        match self.query.names {
            NameStyle::Jeprof => format!("{address:016x} {rest}"),
            _ => format!("0x{address:016x} {rest}"),
        }
    }

    /// A frame that is in no known source file counts for its binary; to jeprof, all such are one.
    fn fileless(&self, module: String) -> Frame {
        if self.query.names == NameStyle::Jeprof {
            return Frame { label: "??:?".to_owned(), ..Frame::default() };
        }
        let frame = module_frame(module);
        let label = match frame.module.as_str() {
            "" => frame.label,
            module => format!("[{module}]"),
        };
        Frame { label, ..frame }
    }

    fn unresolved(&mut self, location: &Location) -> Step {
        let module = self.module_name(location);
        let frame = match self.query.granularity {
            Granularity::Modules => module_frame(module),
            Granularity::Files => self.fileless(module),
            _ => self.nameless(location, module),
        };
        let mut flags = judge(self.query, &[&frame.label]);
        flags.allocator = self.in_allocator(location);
        flags.interrupted = self.is_interrupted(location);
        Step { frame: self.table.intern(frame), flags }
    }

    /// `module+0xoffset` in the file, or the bare address where no module is known.
    fn nameless(&self, location: &Location, module: String) -> Frame {
        let address = location.lookup_address();
        let mapping = location
            .module
            .map(|id| &self.profile.modules[id.index()])
            .filter(|_| !self.query.names.is_jeprofs());
        let label = match mapping {
            Some(mapping) => format!("{module}+0x{:x}", mapping.file_offset_of(address)),
            None => format!("0x{address:016x}"),
        };
        Frame { function: label.clone(), label, module, ..Frame::default() }
    }

    fn module_name(&self, location: &Location) -> String {
        location.module.map_or_else(String::new, |id| self.profile.modules[id.index()].name().to_owned())
    }
}

/// Functions whose short name several functions have, with the address at the end of their names
/// (`f<0000000000018eb0>`, as `nm` and jeprof's `--raw` have it): jeprof labels them `f@18eb0`. It
/// looks at the physical function of each place.
fn ambiguous_names(profile: &Profile) -> FxHashMap<FunctionId, String> {
    let address_of = |id: FunctionId| {
        let (_, rest) = profile.functions[id.index()].name.rsplit_once('<')?;
        let digits = rest.strip_suffix('>')?;
        let is_hex = !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
        is_hex.then(|| digits.trim_start_matches('0').to_owned())
    };
    let mut by_name: FxHashMap<String, Vec<(FunctionId, String)>> = FxHashMap::default();
    for line in profile.locations.iter().filter_map(|location| location.lines.last()) {
        let Some(address) = address_of(line.function) else { continue };
        let same =
            by_name.entry(name::jeprof_short(&profile.functions[line.function.index()].name)).or_default();
        if same.iter().all(|(id, _)| *id != line.function) {
            same.push((line.function, address));
        }
    }
    let differ = |same: &Vec<(FunctionId, String)>| same.iter().any(|(_, address)| *address != same[0].1);
    by_name.into_values().filter(differ).flatten().collect()
}

fn module_frame(module: String) -> Frame {
    let label = if module.is_empty() { "[unknown]".to_owned() } else { module.clone() };
    Frame { label, module, ..Frame::default() }
}

/// The flags of a frame that patterns may match by any of `texts`.
fn judge(query: &Query, texts: &[&str]) -> FrameFlags {
    let filter = &query.filter;
    let matches = |pattern: &Regex| texts.iter().any(|text| pattern.is_match(text));
    FrameFlags {
        focus: filter.focus.as_ref().is_some_and(matches),
        ignore: filter.ignore.as_ref().is_some_and(matches),
        hidden: filter.hide.as_ref().is_some_and(matches)
            || filter.show.as_ref().is_some_and(|show| !matches(show)),
        ..FrameFlags::default()
    }
}
