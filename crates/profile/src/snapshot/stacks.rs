//! Modules and the stack tree of a segment.

use foldhash::HashMap;
use heapwise_format::bytes::{text, u16_at};
use heapwise_format::segment::{Counter, Module as ModuleRecord, Node, NodePlace, SectionKind};

use super::{SegmentSource, Snapshot, lossy};
use crate::{BuildId, Function, FunctionId, Line, Location, LocationId, Module, ModuleId, Profile, StackId};

/// The profile's stack for each node of the segment; `None` for the empty stack and for nodes
/// whose record contradicts the tree's invariant.
pub(super) fn read<S: SegmentSource>(
    snapshot: &Snapshot<'_, S>,
    profile: &mut Profile,
) -> Vec<Option<StackId>> {
    // Nodes first: what they refer to was stored before them.
    let bytes = snapshot.records(SectionKind::Nodes, 0, snapshot.counter_now(Counter::Nodes));
    let strings = snapshot.records(SectionKind::Strings, 0, snapshot.counter_now(Counter::Strings));
    read_modules(snapshot, profile);
    let mut places = Places { strings, known: HashMap::default(), declared: HashMap::default() };
    let mut stacks: Vec<Option<StackId>> = Vec::with_capacity(bytes.len() / Node::BYTES);
    profile.stacks.reserve(bytes.len() / Node::BYTES);
    for (number, record) in bytes.chunks_exact(Node::BYTES).enumerate() {
        let node = Node::decode(record).filter(|node| number > 0 && (node.parent as usize) < number);
        stacks.push(node.map(|node| {
            let location = places.location(profile, node);
            profile.stacks.child(stacks[node.parent as usize], location)
        }));
    }
    stacks
}

fn read_modules<S: SegmentSource>(snapshot: &Snapshot<'_, S>, profile: &mut Profile) {
    let bytes = snapshot.records(SectionKind::Modules, 0, snapshot.counter_now(Counter::Modules));
    profile.modules = bytes
        .chunks_exact(size_of::<ModuleRecord>())
        .filter_map(ModuleRecord::decode)
        .map(|record| Module {
            path: lossy(text(&record.path)),
            build_id: BuildId(record.build_id.iter().copied().take(record.build_id_len as usize).collect()),
            start: record.start,
            end: record.end,
            file_offset: record.file_offset,
        })
        .collect();
}

/// Interns the places of nodes as locations.
struct Places {
    strings: Vec<u8>,
    known: HashMap<(u64, u32), LocationId>,
    declared: HashMap<u32, FunctionId>,
}

impl Places {
    fn location(&mut self, profile: &mut Profile, node: Node) -> LocationId {
        let key = (node.place, node.module);
        if let Some(known) = self.known.get(&key) {
            return *known;
        }
        let module = (node.module as usize)
            .checked_sub(1)
            .filter(|index| *index < profile.modules.len())
            .map(ModuleId::new);
        let location = match NodePlace::decode(node.place) {
            NodePlace::Return(address) => {
                Location { address, is_return_address: true, module, lines: Vec::new() }
            }
            NodePlace::Interrupted(address) => {
                Location { address, is_return_address: false, module, lines: Vec::new() }
            }
            NodePlace::Declared { string, line } => {
                let function = self.declared_function(profile, string);
                Location { lines: vec![Line { function, line }], ..Location::default() }
            }
        };
        profile.locations.push(location);
        let id = LocationId::new(profile.locations.len() - 1);
        self.known.insert(key, id);
        id
    }

    /// A declared frame's string is `function` or `function\0file`.
    fn declared_function(&mut self, profile: &mut Profile, string: u32) -> FunctionId {
        *self.declared.entry(string).or_insert_with(|| {
            let at = string as usize;
            let len = u16_at(&self.strings, at).map_or(0, usize::from);
            let bytes = self.strings.get(at + 2..at + 2 + len).unwrap_or_default();
            let mut parts = bytes.splitn(2, |byte| *byte == 0);
            let mut part = || lossy(parts.next().unwrap_or_default());
            profile.functions.push(Function { name: part(), file: part(), ..Function::default() });
            FunctionId::new(profile.functions.len() - 1)
        })
    }
}
