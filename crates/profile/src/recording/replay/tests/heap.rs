//! What the program keeps of its blocks, from which it makes events: addresses in, buckets, threads and ages out.

use std::collections::HashMap;

use heapwise_format::event::{Event, Freeing};
use heapwise_format::segment::{Bucket, CallKind};

use crate::recording::Ledger;

/// Stack, size, and whether by `realloc`.
type What = (u32, u64, bool);

/// Live blocks and the buckets of all there were.
pub(super) struct Heap {
    /// Number of the first bucket.
    first: u32,
    /// Bucket, allocating thread, birth.
    live: HashMap<u64, (u32, u32, u64)>,
    buckets: Vec<What>,
    /// Each thread's last event, if it was an allocation: its address.
    newest: HashMap<u32, u64>,
}

impl Heap {
    pub(super) fn numbered_from(first: u32) -> Self {
        Self { first, live: HashMap::new(), buckets: Vec::new(), newest: HashMap::new() }
    }

    pub(super) fn alloc(&mut self, ledger: &mut Ledger, thread: u32, ms: u64, address: u64, what: What) {
        let known = self.buckets.iter().position(|bucket| *bucket == what);
        let bucket = self.first + known.unwrap_or(self.buckets.len()) as u32;
        if known.is_none() {
            self.buckets.push(what);
        }
        self.live.insert(address, (bucket, thread, ms));
        self.newest.insert(thread, address);
        assert!(self.book(ledger, thread, ms, &Event::Alloc { bucket }));
    }

    /// Whether the ledger knew the block.
    pub(super) fn free(&mut self, ledger: &mut Ledger, thread: u32, ms: u64, address: u64) -> bool {
        let at_once = self.newest.remove(&thread) == Some(address);
        let (bucket, allocator, born) = self.live.remove(&address).unwrap();
        let how = if at_once { Freeing::AtOnce } else { Freeing::Plain };
        self.book(ledger, thread, ms, &Event::Free { bucket, thread: allocator, age_ms: ms - born, how })
    }

    fn book(&self, ledger: &mut Ledger, thread: u32, ms: u64, event: &Event) -> bool {
        ledger.book(thread, ms, event, false, &mut |bucket| {
            let (node, size, is_realloc) = self.buckets[(bucket - self.first) as usize];
            let kind = if is_realloc { CallKind::Realloc } else { CallKind::New };
            Some(Bucket { node, size, kind: kind as u8, ..Bucket::default() })
        })
    }
}
