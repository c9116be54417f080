//! One account per (stack, size): allocated, live, temporary, and live at the moment of the peak.

use std::collections::HashMap;

use crate::{
    SizeRange, StackId, Values,
    builder::Builder,
    metric::{Unit, column},
};

/// All accounts of a file, and the program's live bytes over its events.
#[derive(Default)]
pub(super) struct Accounts {
    accounts: Vec<Account>,
    by_place: HashMap<(StackId, u64), usize>,
    by_address: HashMap<u64, usize>,
    /// Block of the last event, if that was an allocation; freeing it next makes it temporary.
    last: Option<Last>,
    live_bytes: u64,
    peak_bytes: u64,
    /// Accounts whose live count changed since the peak.
    changed: Vec<usize>,
}

#[derive(Clone, Copy, PartialEq)]
enum Last {
    Account(usize),
    Address(u64),
}

struct Account {
    stack: StackId,
    size: u64,
    allocated: u64,
    live: u64,
    temporary: u64,
    live_at_peak: u64,
    is_changed: bool,
}

impl Accounts {
    /// Opens the next account.
    pub(super) fn declare(&mut self, size: u64, stack: StackId) -> usize {
        self.accounts.push(Account {
            stack,
            size,
            allocated: 0,
            live: 0,
            temporary: 0,
            live_at_peak: 0,
            is_changed: false,
        });
        self.accounts.len() - 1
    }

    /// A block of the account; `None` if there is no such account.
    pub(super) fn allocate(&mut self, index: usize) -> Option<()> {
        let account = self.accounts.get_mut(index)?;
        account.allocated += 1;
        account.live += 1;
        self.live_bytes = self.live_bytes.saturating_add(account.size);
        self.last = Some(Last::Account(index));
        self.mark_changed(index);
        if self.live_bytes > self.peak_bytes {
            self.peak_bytes = self.live_bytes;
            for changed in self.changed.drain(..) {
                let account = &mut self.accounts[changed];
                account.live_at_peak = account.live;
                account.is_changed = false;
            }
        }
        Some(())
    }

    /// The end of a block of the account; `None` if there is no such account.
    pub(super) fn free(&mut self, index: usize) -> Option<()> {
        let temporary = self.last.take() == Some(Last::Account(index));
        self.release(index, temporary)
    }

    /// A block at an address. An address allocated twice without a free has lost its free.
    pub(super) fn allocate_at(&mut self, address: u64, size: u64, stack: StackId) {
        let known = self.by_place.get(&(stack, size)).copied();
        let index = known.unwrap_or_else(|| {
            let index = self.declare(size, stack);
            self.by_place.insert((stack, size), index);
            index
        });
        if let Some(lost) = self.by_address.insert(address, index) {
            self.release(lost, false);
        }
        self.allocate(index);
        self.last = Some(Last::Address(address));
    }

    /// The end of the block at an address; one never seen was allocated before heaptrack came.
    pub(super) fn free_at(&mut self, address: u64) {
        let temporary = self.last.take() == Some(Last::Address(address));
        if let Some(index) = self.by_address.remove(&address) {
            self.release(index, temporary);
        }
    }

    fn release(&mut self, index: usize, temporary: bool) -> Option<()> {
        let account = self.accounts.get_mut(index)?;
        account.live = account.live.checked_sub(1)?;
        account.temporary += u64::from(temporary);
        self.live_bytes = self.live_bytes.saturating_sub(account.size);
        self.mark_changed(index);
        Some(())
    }

    fn mark_changed(&mut self, index: usize) {
        if !std::mem::replace(&mut self.accounts[index].is_changed, true) {
            self.changed.push(index);
        }
    }

    /// Memory of the tables, roughly.
    pub(super) fn held_bytes(&self) -> u64 {
        let rows = self.accounts.len() * (size_of::<Account>() + size_of::<usize>())
            + self.by_place.len() * 2 * size_of::<((StackId, u64), usize)>()
            + self.by_address.len() * 2 * size_of::<(u64, usize)>();
        rows as u64
    }

    /// Highest number of live bytes.
    pub(super) fn peak_bytes(&self) -> u64 {
        self.peak_bytes
    }

    /// The accounts as samples, in the order they were opened.
    pub(super) fn add_to(&self, builder: &mut Builder) {
        let peak = builder.column(column::PEAK_SPACE, Unit::Bytes);
        let peak_objects = builder.column(column::PEAK_OBJECTS, Unit::Objects);
        let temporary = builder.column(column::TEMPORARY_OBJECTS, Unit::Objects);
        for account in &self.accounts {
            let size = account.size as f64;
            let values = Values {
                alloc_objects: account.allocated as f64,
                alloc_bytes: account.allocated as f64 * size,
                inuse_objects: account.live as f64,
                inuse_bytes: account.live as f64 * size,
            };
            let sizes = Some(SizeRange::one(account.size));
            let row = builder.add(account.stack, None, sizes, values, Values::default());
            builder.add_extra(peak, row, account.live_at_peak as f64 * size);
            builder.add_extra(peak_objects, row, account.live_at_peak as f64);
            builder.add_extra(temporary, row, account.temporary as f64);
        }
    }
}
