//! Mappings that the probe recorded.

use heapwise_format::segment::{Counter, Mapping, Purpose, SectionKind, SegmentSource};

use super::Snapshot;

/// Times the table is read when it changes meanwhile.
const ATTEMPTS: usize = 100;

/// A range of addresses that the program or its allocator mapped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordedMapping {
    /// First address.
    pub start: u64,
    /// First address behind it.
    pub end: u64,
    /// What it was mapped for.
    pub purpose: MappingPurpose,
    /// Calls whose mappings the range joins.
    pub count: u32,
    /// Milliseconds from the start of the process to the last of these calls.
    pub time_ms: u32,
}

/// What a range was mapped for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MappingPurpose {
    /// By the program.
    Program {
        /// Node of the stack that mapped it.
        node: u32,
        /// As a stack (`MAP_STACK`, `MAP_GROWSDOWN`).
        is_stack: bool,
    },
    /// By the allocator whose blocks are recorded.
    Allocator,
}

impl<S: SegmentSource> Snapshot<'_, S> {
    /// The recorded mappings by address, without overlaps.
    #[must_use]
    pub fn mappings(&self) -> Vec<RecordedMapping> {
        let mut bytes = Vec::new();
        for _ in 0..ATTEMPTS {
            let before = self.counter_now(Counter::MappingsSequence);
            bytes = self.records(SectionKind::Mappings, 0, self.counter_now(Counter::Mappings));
            if before.is_multiple_of(2) && before == self.counter_now(Counter::MappingsSequence) {
                break;
            }
        }
        let mut mappings: Vec<RecordedMapping> =
            bytes.chunks_exact(size_of::<Mapping>()).filter_map(recorded).collect();
        // A damaged table, or one that changed at every attempt, may be out of order.
        mappings.sort_by_key(|mapping| mapping.start);
        let mut end = 0;
        mappings.retain(|mapping| {
            let is_behind = mapping.start >= end;
            end = end.max(mapping.end);
            is_behind
        });
        mappings
    }
}

fn recorded(bytes: &[u8]) -> Option<RecordedMapping> {
    let Mapping { start, end, node, purpose, count, time_ms } = Mapping::decode(bytes)?;
    let purpose = match Purpose::from_word(purpose)? {
        Purpose::Program | Purpose::Attached => MappingPurpose::Program { node, is_stack: false },
        Purpose::Stack => MappingPurpose::Program { node, is_stack: true },
        Purpose::Allocator => MappingPurpose::Allocator,
    };
    (start < end).then_some(RecordedMapping { start, end, purpose, count, time_ms })
}
