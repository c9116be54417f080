//! The rules found so far, by code address: one table for all threads, without a lock.
//!
//! A program has some thousand return addresses; each is looked up in its module's unwind information
//! once. An entry is two words, key and rule. A writer claims a slot by making its key [`CLAIMED`],
//! stores the rule, then the key; a reader loads key, rule, key again. As a key includes the module
//! generation, entries of an unloaded module are simply never asked for, and their slots are reused.
#![allow(unsafe_code)]

use core::ptr;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicPtr, AtomicU64};

use heapwise_format::segment::Counter;

use super::eh_frame;
use super::rule::Rule;
use crate::modules::{self, Image};
use crate::{segment, sys};

struct Entry {
    key: AtomicU64,
    rule: AtomicU64,
}

/// Key of a slot that is being written.
const CLAIMED: u64 = 1;
/// Bits of a key that hold the address; the generation has the others.
const ADDRESS_BITS: u32 = 48;
/// Slots an address may be in.
const WAYS: usize = 8;
/// Slots of the first table and of the largest one, as powers of two: 256 KiB and 16 MiB.
const FIRST_BITS: u32 = 14;
const LAST_BITS: u32 = 20;
const GROWTH_BITS: u32 = 2;

static FIRST: [Entry; 1 << FIRST_BITS] =
    [const { Entry { key: AtomicU64::new(0), rule: AtomicU64::new(0) } }; 1 << FIRST_BITS];

/// A table: its slots, and in the low bits of the pointer how far it has grown. Older tables are left
/// mapped, since somebody may be reading them; together they are a third of the newest.
static TABLE: AtomicPtr<Entry> = AtomicPtr::new(ptr::null_mut());

#[derive(Clone, Copy)]
struct Table {
    slots: &'static [Entry],
    bits: u32,
}

impl Table {
    #[inline(always)]
    fn current() -> Table {
        let tagged = TABLE.load(Acquire);
        let growth = tagged.addr() & 15;
        if growth == 0 {
            return Table { slots: &FIRST, bits: FIRST_BITS };
        }
        let bits = FIRST_BITS + GROWTH_BITS * growth as u32;
        let slots = tagged.map_addr(|address| address & !15);
        // SAFETY: `grow` published a mapping of that many zero-initialised entries; it stays.
        Table { slots: unsafe { core::slice::from_raw_parts(slots, 1 << bits) }, bits }
    }

    /// The slots `key` may be in. A table ends in a run that wraps to its start.
    #[inline(always)]
    fn ways(self, key: u64) -> impl Iterator<Item = &'static Entry> {
        let hash = (key & ((1 << ADDRESS_BITS) - 1)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let home = (hash >> (64 - self.bits)) as usize;
        let mask = self.slots.len() - 1;
        // SAFETY: the mask keeps the index inside.
        (home..home + WAYS).map(move |index| unsafe { self.slots.get_unchecked(index & mask) })
    }

    #[inline(always)]
    fn get(self, key: u64) -> Option<Rule> {
        for entry in self.ways(key) {
            let found = entry.key.load(Acquire);
            if found == key {
                let rule = entry.rule.load(Acquire);
                // A writer that took the slot over in between left another key.
                return (entry.key.load(Relaxed) == key).then_some(Rule::from_bits(rule));
            }
            if found == 0 {
                return None;
            }
        }
        None
    }

    /// Stores a rule in a slot that is free or of another generation; false when there is none.
    fn put(self, key: u64, rule: Rule) -> bool {
        self.ways(key).any(|entry| {
            let old = entry.key.load(Relaxed);
            let reusable = old == 0 || old != CLAIMED && (old ^ key) >> ADDRESS_BITS != 0;
            reusable && entry.replace(old, key, rule)
        })
    }
}

impl Entry {
    fn replace(&self, old: u64, key: u64, rule: Rule) -> bool {
        if self.key.compare_exchange(old, CLAIMED, AcqRel, Relaxed).is_err() {
            return false;
        }
        self.rule.store(rule.bits(), Release);
        self.key.store(key, Release);
        true
    }
}

/// Empties the table when the generation's part of a key starts over.
pub(crate) fn forget_rules_on_wrap(generation: u32) {
    if generation as u16 == 0 {
        for entry in Table::current().slots {
            entry.key.store(0, Release);
        }
    }
}

/// The rule of the instruction at `address`, as of `generation`.
#[inline(always)]
pub(super) fn rule_of(address: u64, generation: u32) -> Rule {
    let key = address | u64::from(generation) << ADDRESS_BITS;
    if address >> ADDRESS_BITS == 0
        && let Some(rule) = Table::current().get(key)
    {
        return rule;
    }
    find(address, key)
}

#[cold]
#[inline(never)]
fn find(address: u64, key: u64) -> Rule {
    // Not remembered: a module may be loaded there later.
    let Some(image) = Image::find(address) else { return Rule::UNKNOWN };
    let rule = eh_frame::rule_at(&image, address).in_module(modules::number(&image, address));
    if address >> ADDRESS_BITS == 0 && !Table::current().put(key, rule) {
        grow(key);
        let table = Table::current();
        if !table.put(key, rule)
            && let Some(entry) = table.ways(key).next()
        {
            // The largest table is full here: the youngest address takes the place of an older one.
            entry.replace(entry.key.load(Relaxed), key, rule);
        }
    }
    rule
}

/// Publishes a larger table with the current generation's rules.
fn grow(key: u64) {
    let old = TABLE.load(Acquire);
    let current = Table::current();
    let bits = current.bits + GROWTH_BITS;
    if bits > LAST_BITS {
        return;
    }
    let bytes = size_of::<Entry>() << bits;
    let Ok(memory) = sys::map_private(bytes) else { return };
    let slots = memory.cast::<Entry>();
    // SAFETY: freshly mapped, zero-initialised, of that size.
    let table = Table { slots: unsafe { core::slice::from_raw_parts(slots, 1 << bits) }, bits };
    for entry in current.slots {
        let known = entry.key.load(Acquire);
        if (known ^ key) >> ADDRESS_BITS == 0
            && let Some(rule) = current.get(known)
        {
            table.put(known, rule);
        }
    }
    let growth = (bits - FIRST_BITS) / GROWTH_BITS;
    let tagged = slots.map_addr(|address| address | growth as usize);
    if TABLE.compare_exchange(old, tagged, AcqRel, Relaxed).is_err() {
        // SAFETY: just mapped, and nobody has seen it.
        unsafe { sys::unmap(memory, bytes) };
    } else {
        segment::counter(Counter::OwnBytes).fetch_add(bytes as u64, Relaxed);
    }
}
