//! Visits the entries of the events frames of a recording of any version.

use std::ops::{ControlFlow, RangeBounds};

use heapwise_format::recording::{Entries, Entry, FrameKind, SIZE_SLOTS, SiteBlock, version3};

use crate::recording::{Damage, Recording, RecordingSource, Tables};

/// An entry with its time, thread and the number of marks before it.
#[derive(Debug, Clone, Copy)]
pub(in crate::recording) struct EntryAt {
    pub ms: u64,
    pub thread: u32,
    pub marks: u64,
    pub entry: Entry,
}

impl<S: RecordingSource> Recording<S> {
    /// Hands out the entries of the events frames among `frames`, until `visit` breaks. Marks are
    /// handed out, too, with their own number as that of the marks before. Every site handed out is
    /// in the tables.
    pub(in crate::recording) fn visit(
        &self,
        frames: impl RangeBounds<usize>,
        tables: &Tables,
        mut visit: impl FnMut(EntryAt) -> ControlFlow<()>,
    ) -> Result<(), Damage> {
        // Sites beyond the tables are damage, so they need no slots.
        let mut slots = vec![0; SIZE_SLOTS.min(tables.sites.len())];
        for (number, frame) in self.frames().iter().enumerate() {
            if !frames.contains(&number) || frame.header.kind != FrameKind::Events {
                continue;
            }
            let payload = self.payload(number)?;
            let damaged = || self.damaged(number);
            let mut place = EntryAt {
                ms: frame.header.first,
                thread: frame.header.thread,
                marks: frame.header.marks(),
                entry: Entry::Tick(0),
            };
            let (flow, is_whole) = if self.is_version3(frame) {
                let mut entries = version3::Entries::new(&payload).ok_or_else(damaged)?;
                let converted = entries.by_ref().map(|entry| tables.buckets().entry(entry));
                let flow = walk(&mut place, converted, tables, &mut visit);
                (flow, entries.is_whole())
            } else {
                let mut entries = Entries::new(&payload, &mut slots[..]).ok_or_else(damaged)?;
                let flow = walk(&mut place, entries.by_ref().map(Some), tables, &mut visit);
                (flow, entries.is_whole())
            };
            match flow {
                Some(ControlFlow::Break(())) => return Ok(()),
                Some(ControlFlow::Continue(())) if is_whole => {}
                _ => return Err(damaged()),
            }
        }
        Ok(())
    }
}

/// Hands out the entries of a frame; `None` when one names a site that does not exist.
#[inline]
fn walk(
    place: &mut EntryAt,
    entries: impl Iterator<Item = Option<Entry>>,
    tables: &Tables,
    visit: &mut impl FnMut(EntryAt) -> ControlFlow<()>,
) -> Option<ControlFlow<()>> {
    for entry in entries {
        let entry = entry?;
        match entry {
            Entry::Tick(passed) => {
                place.ms = place.ms.saturating_add(passed);
                continue;
            }
            Entry::Thread(next) => {
                place.thread = next;
                continue;
            }
            Entry::Mark(marks) => place.marks = place.marks.max(marks),
            Entry::Alloc { block: SiteBlock { site, .. }, .. }
            | Entry::Temporary { block: SiteBlock { site, .. }, .. }
            | Entry::Free { block: SiteBlock { site, .. }, .. }
            | Entry::MissedFree { block: SiteBlock { site, .. }, .. }
                if site as usize >= tables.sites.len() =>
            {
                return None;
            }
            _ => {}
        }
        if visit(EntryAt { entry, ..*place }).is_break() {
            return Some(ControlFlow::Break(()));
        }
    }
    Some(ControlFlow::Continue(()))
}
