//! Strings, modules, instruction pointers and traces, as a heaptrack file stores them.

use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use super::super::limit::Limit;
use super::fields::Fields;
use crate::{Function, Line, Location, LocationId, Module, ModuleId, StackId, builder::Builder};

/// The tables of a file. All but traces count from 1; 0 is none.
#[derive(Default)]
pub(super) struct Frames {
    strings: Vec<String>,
    pointers: Vec<LocationId>,
    traces: Vec<StackId>,
    /// Modules of interpreted files, which have a path only.
    modules: HashMap<u64, ModuleId>,
    /// Segments mapped at this point of a raw file, by their first address.
    segments: BTreeMap<u64, Segment>,
    known_segments: HashMap<(Rc<str>, u64), ModuleId>,
    raw_pointers: HashMap<u64, LocationId>,
    /// Bytes of the strings.
    text_bytes: u64,
    /// Bytes of the paths of segments.
    segment_text_bytes: u64,
    /// Functions of all locations.
    lines: usize,
}

struct Segment {
    path: Rc<str>,
    end: u64,
    /// Address in the file's own numbering; the offset in the file equals it in the text segments
    /// that linkers write, and the file does not contain the offset.
    virtual_address: u64,
}

impl Frames {
    pub(super) fn take_string(&mut self, fields: &mut Fields<'_>) -> Option<()> {
        let text = fields.last_text()?;
        self.text_bytes += text.len() as u64;
        self.strings.push(text);
        Some(())
    }

    /// Memory of the tables, roughly.
    pub(super) fn held_bytes(&self) -> u64 {
        let rows = self.strings.len() * size_of::<String>()
            + self.pointers.len() * size_of::<LocationId>()
            + self.traces.len() * size_of::<StackId>()
            + self.lines * 2 * size_of::<Line>()
            + self.segments.len() * 2 * size_of::<(u64, Segment)>()
            + self.known_segments.len() * 64
            + self.raw_pointers.len() * 32;
        rows as u64 + self.text_bytes + self.segment_text_bytes
    }

    fn string(&self, index: u64) -> &str {
        let index = usize::try_from(index).unwrap_or(0).wrapping_sub(1);
        self.strings.get(index).map_or("", String::as_str)
    }

    /// `i ip module [function file line]…`, the innermost function first; the last triple may stop
    /// after the function.
    pub(super) fn take_pointer(
        &mut self,
        builder: &mut Builder,
        fields: &mut Fields<'_>,
        limit: Limit,
    ) -> Option<()> {
        let address = fields.hex()?;
        let module = self.path_module(builder, fields.hex().unwrap_or(0));
        let mut lines = Vec::new();
        while let Some(function) = fields.hex() {
            let (file, line) = (fields.hex().unwrap_or(0), fields.hex().unwrap_or(0));
            if function == 0 {
                continue;
            }
            let function = builder.function(Function {
                name: self.string(function).to_owned(),
                file: self.string(file).to_owned(),
                ..Function::default()
            });
            self.lines += 1;
            limit.check("", builder.held_bytes()).ok()?;
            lines.push(Line { function, line: u32::try_from(line).unwrap_or(0) });
        }
        self.pointers.push(builder.distinct(Location { address, is_return_address: false, module, lines }));
        Some(())
    }

    fn path_module(&mut self, builder: &mut Builder, index: u64) -> Option<ModuleId> {
        if index == 0 {
            return None;
        }
        let path = self.string(index).to_owned();
        let id =
            self.modules.entry(index).or_insert_with(|| builder.module(Module { path, ..Module::default() }));
        Some(*id)
    }

    /// The location that an interpreted trace refers to.
    pub(super) fn pointer(&mut self, builder: &mut Builder, index: u64) -> Option<LocationId> {
        if index == 0 {
            return Some(builder.named("[unknown]"));
        }
        let index = usize::try_from(index - 1).ok()?;
        self.pointers.get(index).copied()
    }

    /// `m path address (virtual-address size)…`, or `m -` before all modules are listed again.
    pub(super) fn take_module(&mut self, fields: &mut Fields<'_>, program: &str) -> Option<()> {
        let path = match fields.text()? {
            path if path == "-" => {
                self.segments.clear();
                self.segment_text_bytes = 0;
                return Some(());
            }
            path if path == "x" => program.to_owned(),
            path => path,
        };
        let path: Rc<str> = path.into();
        self.segment_text_bytes += path.len() as u64;
        let base = fields.hex()?;
        while let (Some(virtual_address), Some(size)) = (fields.hex(), fields.hex()) {
            let start = base.wrapping_add(virtual_address);
            let end = start.saturating_add(size);
            self.segments.insert(start, Segment { path: path.clone(), end, virtual_address });
        }
        Some(())
    }

    /// The location of an address, in the module mapped there now.
    pub(super) fn raw_pointer(&mut self, builder: &mut Builder, address: u64) -> LocationId {
        if let Some(id) = self.raw_pointers.get(&address) {
            return *id;
        }
        let module = self.segment_module(builder, address);
        let id = builder.distinct(Location { address, is_return_address: false, module, lines: Vec::new() });
        self.raw_pointers.insert(address, id);
        id
    }

    fn segment_module(&mut self, builder: &mut Builder, address: u64) -> Option<ModuleId> {
        let (&start, segment) = self.segments.range(..=address).next_back()?;
        if address >= segment.end {
            return None;
        }
        let key = (segment.path.clone(), start);
        let id = self.known_segments.entry(key).or_insert_with(|| {
            builder.module(Module {
                path: segment.path.to_string(),
                start,
                end: segment.end,
                file_offset: segment.virtual_address,
                ..Module::default()
            })
        });
        Some(*id)
    }

    pub(super) fn take_trace(
        &mut self,
        builder: &mut Builder,
        location: LocationId,
        parent: u64,
    ) -> Option<()> {
        let parent = match parent {
            0 => None,
            index => Some(*self.traces.get(usize::try_from(index - 1).ok()?)?),
        };
        self.traces.push(builder.child(parent, location));
        Some(())
    }

    /// The stack that an event refers to.
    pub(super) fn stack(&self, builder: &mut Builder, trace: u64) -> Option<StackId> {
        match trace {
            0 => Some(builder.stack([])),
            index => {
                let index = usize::try_from(index - 1).ok()?;
                self.traces.get(index).copied()
            }
        }
    }
}
