//! A program's blocks, from which it makes events: addresses in, tallies, sizes and ages out.

use std::collections::HashMap;

use heapwise_format::event::{Block, Event, Freeing};
use heapwise_format::segment::Tally;

use crate::recording::EventAccounting;

/// Stack and allocating thread.
type What = (u32, u32);

/// Live blocks and the tallies of all there were.
pub(super) struct Heap {
    /// Number of the first tally.
    first: u32,
    /// Block and allocation time.
    live: HashMap<u64, (Block, u64)>,
    tallies: Vec<What>,
    /// Each thread's last event, if it was an allocation: its address.
    newest: HashMap<u32, u64>,
}

impl Heap {
    pub(super) fn numbered_from(first: u32) -> Self {
        Self { first, live: HashMap::new(), tallies: Vec::new(), newest: HashMap::new() }
    }

    /// Allocates a block: node, size, and whether by `realloc`.
    pub(super) fn alloc(
        &mut self,
        account: &mut EventAccounting,
        (thread, ms): (u32, u64),
        address: u64,
        (node, size, by_realloc): (u32, u64, bool),
    ) {
        let known = self.tallies.iter().position(|what| *what == (node, thread));
        let tally = self.first + known.unwrap_or(self.tallies.len()) as u32;
        if known.is_none() {
            self.tallies.push((node, thread));
        }
        let block = Block { tally, size, by_realloc };
        self.live.insert(address, (block, ms));
        self.newest.insert(thread, address);
        assert!(self.add(account, (thread, ms), &Event::Alloc(block)));
    }

    /// Whether the account had the block.
    pub(super) fn free(&mut self, account: &mut EventAccounting, at: (u32, u64), address: u64) -> bool {
        let at_once = self.newest.remove(&at.0) == Some(address);
        let (block, born) = self.live.remove(&address).unwrap();
        let how = if at_once { Freeing::AtOnce } else { Freeing::Plain };
        self.add(account, at, &Event::Free { block, age_ms: at.1 - born, how })
    }

    pub(super) fn add(&self, account: &mut EventAccounting, (thread, ms): (u32, u64), event: &Event) -> bool {
        account.add(thread, ms, event, false, &mut |tally| {
            let (node, thread) = self.tallies[(tally - self.first) as usize];
            Some(Tally { node, thread: thread as u16, ..Tally::default() })
        })
    }
}
