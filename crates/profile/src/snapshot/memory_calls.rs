//! Calls that return or create memory, as the probe recorded them.

use heapwise_format::segment::{Memfd, MemoryCall, SectionKind, SegmentSource};

use super::Snapshot;

impl<S: SegmentSource> Snapshot<'_, S> {
    /// Sums of calls by kind and stack, since the start of the process, in no order.
    #[must_use]
    pub fn memory_calls(&self) -> Vec<MemoryCall> {
        let records = self.slots(SectionKind::MemoryCalls);
        let calls = records.chunks_exact(size_of::<MemoryCall>()).filter_map(MemoryCall::decode);
        // A claimed slot without a call is being written.
        calls.filter(|call| call.kind != 0 && call.count != 0).collect()
    }

    /// The calls that created memfds, in no order.
    #[must_use]
    pub fn memfds(&self) -> Vec<Memfd> {
        let records = self.slots(SectionKind::Memfds);
        let memfds = records.chunks_exact(size_of::<Memfd>()).filter_map(Memfd::decode);
        memfds.filter(|memfd| memfd.inode != 0).collect()
    }

    /// All slots of a small hash table.
    fn slots(&self, kind: SectionKind) -> Vec<u8> {
        self.records(kind, 0, self.layout().section(kind).capacity)
    }
}
