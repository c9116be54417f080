//! The rules found so far, by code address: one table for all threads, without a lock.
//!
//! A program has some thousand return addresses; each is looked up in its module's unwind
//! information once. An entry is two words, key and rule. A writer claims a slot by making its key
//! [`CLAIMED`], stores the rule, then the key; a reader loads key, rule, key again. As a key
//! includes the module generation, entries of an unloaded module are never looked up again, and
//! their slots are reused.
#![allow(unsafe_code)]

use core::ptr;

use heapwise_format::segment::Counter;

use super::rule::Rule;
use super::{eh_frame, machine, stack};
use crate::atomics::Ordering::{AcqRel, Acquire, Relaxed, Release};
use crate::atomics::{AtomicPtr, AtomicU32, AtomicU64};
use crate::modules::{self, Image};
use crate::session::Session;
use crate::sys;

struct CachedRule {
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

const GROWTHS: usize = ((LAST_BITS - FIRST_BITS) / GROWTH_BITS) as usize;

/// The rules of a session. Zeroed memory is valid: none.
pub(super) struct RuleCache {
    /// Number of times the table has grown.
    growth: AtomicU32,
    /// The tables after the first. Older ones stay mapped, since another thread may be reading
    /// them; together they are a third of the newest.
    grown: [AtomicPtr<CachedRule>; GROWTHS],
    first: [CachedRule; 1 << FIRST_BITS],
}

impl RuleCache {
    /// The newest table, and 64 minus the logarithm of the number of its slots.
    #[inline(always)]
    fn newest(&self) -> (&[CachedRule], u32) {
        match self.growth.load(Acquire) {
            0 => (&self.first, 64 - FIRST_BITS),
            growth => self.table(growth),
        }
    }

    fn table(&self, growth: u32) -> (&[CachedRule], u32) {
        let bits = FIRST_BITS + GROWTH_BITS * growth;
        let slots = self.grown.get(growth as usize - 1).map_or(ptr::null_mut(), |slots| slots.load(Acquire));
        if slots.is_null() {
            return (&self.first, 64 - FIRST_BITS);
        }
        // SAFETY: `grow` published a mapping of that many zero-initialised entries; it stays.
        (unsafe { core::slice::from_raw_parts(slots, 1 << bits) }, 64 - bits)
    }

    /// Empties the table when the generation's part of a key starts over.
    pub(super) fn clear_on_wrap(&self, generation: u32) {
        if generation as u16 == 0 {
            for entry in self.newest().0 {
                entry.key.store(0, Release);
            }
        }
    }

    /// Unmaps the tables after the first. No thread may use them afterwards.
    pub(super) fn release(&self) {
        self.growth.store(0, Relaxed);
        for (growth, table) in (1..).zip(&self.grown) {
            let slots = table.swap(ptr::null_mut(), Relaxed);
            if !slots.is_null() {
                let bits = FIRST_BITS + GROWTH_BITS * growth;
                // SAFETY: mapped by `grow` with this size.
                unsafe { sys::unmap(slots.cast(), size_of::<CachedRule>() << bits) };
            }
        }
    }
}

/// The rules as of a generation: the view of one walk.
#[derive(Clone, Copy)]
pub(super) struct Rules<'a> {
    session: &'a Session,
    slots: &'a [CachedRule],
    /// 64 minus the logarithm of the number of slots.
    shift: u32,
    /// The generation's part of a key.
    tag: u64,
}

impl<'a> Rules<'a> {
    /// The rules of `generation`.
    #[inline(always)]
    pub(super) fn of(session: &'a Session, generation: u32) -> Rules<'a> {
        let tag = u64::from(generation) << ADDRESS_BITS;
        let (slots, shift) = session.unwind.rules.newest();
        Rules { session, slots, shift, tag }
    }

    /// The rule of the instruction at `address`.
    #[inline(always)]
    pub(super) fn rule(self, address: u64) -> Rule {
        let key = address | self.tag;
        if address >> ADDRESS_BITS == 0
            && let Some(rule) = self.way(self.home(address), 0).get(key)
        {
            return rule;
        }
        self.rule_elsewhere(address)
    }

    /// The rule of an address that is not in its first slot.
    #[cold]
    #[inline(never)]
    fn rule_elsewhere(self, address: u64) -> Rule {
        let key = address | self.tag;
        if address >> ADDRESS_BITS == 0
            && let Some(rule) = self.ways(address).find_map(|entry| entry.get(key))
        {
            return rule;
        }
        find(self.session, address, key)
    }

    #[inline(always)]
    fn home(self, address: u64) -> usize {
        (address.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> self.shift) as usize
    }

    #[inline(always)]
    fn way(self, home: usize, way: usize) -> &'a CachedRule {
        // SAFETY: the mask keeps the index inside; the number of slots is a power of two.
        unsafe { self.slots.get_unchecked((home + way) & (self.slots.len() - 1)) }
    }

    /// The slots `address` may be in. A table ends in a run that wraps to its start.
    fn ways(self, address: u64) -> impl Iterator<Item = &'a CachedRule> {
        let home = self.home(address);
        (0..WAYS).map(move |way| self.way(home, way))
    }

    /// Stores a rule in a slot that is free or of another generation; false when there is none.
    fn put(self, key: u64, rule: Rule) -> bool {
        self.ways(address_of(key)).any(|entry| {
            let old = entry.key.load(Relaxed);
            let reusable = old == 0 || (old ^ key) >> ADDRESS_BITS != 0;
            reusable && entry.replace(old, key, rule)
        })
    }
}

fn address_of(key: u64) -> u64 {
    key & ((1 << ADDRESS_BITS) - 1)
}

impl CachedRule {
    #[inline(always)]
    fn get(&self, key: u64) -> Option<Rule> {
        if self.key.load(Acquire) != key {
            return None;
        }
        let rule = self.rule.load(Acquire);
        // A writer that took the slot over in between left another key.
        (self.key.load(Relaxed) == key).then_some(Rule::from_bits(rule))
    }

    /// False when another thread is writing the slot, or has.
    fn replace(&self, old: u64, key: u64, rule: Rule) -> bool {
        if old == CLAIMED || self.key.compare_exchange(old, CLAIMED, AcqRel, Relaxed).is_err() {
            return false;
        }
        self.rule.store(rule.bits(), Release);
        self.key.store(key, Release);
        true
    }
}

/// The rule of code that no module has: a signal trampoline where emulators put it, else unknown.
fn outside_modules(address: u64) -> Rule {
    if !machine::HAS_STRAY_TRAMPOLINES {
        return Rule::UNKNOWN;
    }
    let code = stack::read_anywhere(address.wrapping_add(1));
    code.and_then(|code| machine::trampoline_rule(&code.to_ne_bytes())).unwrap_or(Rule::UNKNOWN)
}

/// Looks a rule up in the module's unwind information, and caches it.
fn find(session: &Session, address: u64, key: u64) -> Rule {
    // Not remembered: a module may be loaded there later.
    let Some(image) = Image::find(address) else { return outside_modules(address) };
    let rule = eh_frame::rule_at(&image, address);
    let rule = rule.in_module(modules::number(session, &image, address));
    let newest = || Rules::of(session, (key >> ADDRESS_BITS) as u32);
    if address >> ADDRESS_BITS == 0 && !newest().put(key, rule) {
        grow(newest());
        let rules = newest();
        if !rules.put(key, rule) {
            // The largest table is full here: the youngest address takes the place of an older one.
            let entry = rules.way(rules.home(address), 0);
            entry.replace(entry.key.load(Relaxed), key, rule);
        }
    }
    rule
}

/// Publishes a larger table with the rules of the same generation.
fn grow(old: Rules<'_>) {
    let RuleCache { growth: latest, grown, .. } = &old.session.unwind.rules;
    let bits = 64 - old.shift + GROWTH_BITS;
    let growth = (bits - FIRST_BITS) / GROWTH_BITS;
    let Some(place) = grown.get(growth as usize - 1) else { return };
    let bytes = size_of::<CachedRule>() << bits;
    let Ok(memory) = sys::map_private(bytes) else { return };
    let slots = memory.cast::<CachedRule>();
    // SAFETY: freshly mapped, zero-initialised, of that size.
    let room = unsafe { core::slice::from_raw_parts(slots, 1 << bits) };
    let new = Rules { slots: room, shift: 64 - bits, ..old };
    for entry in old.slots {
        let key = entry.key.load(Acquire);
        if (key ^ old.tag) >> ADDRESS_BITS == 0
            && let Some(rule) = entry.get(key)
        {
            new.put(key, rule);
        }
    }
    if place.compare_exchange(ptr::null_mut(), slots, AcqRel, Relaxed).is_err() {
        // SAFETY: just mapped, and not published.
        unsafe { sys::unmap(memory, bytes) };
    } else {
        old.session.segment.counter(Counter::OwnBytes).fetch_add(bytes as u64, Relaxed);
    }
    latest.fetch_max(growth, Release);
}

#[cfg(all(test, loom))]
mod models {
    use super::*;
    use crate::testing::models::{check, together};

    static ENTRY: CachedRule = CachedRule { key: AtomicU64::new(0), rule: AtomicU64::new(0) };
    const OLD: (u64, Rule) = (0x10, Rule::UNKNOWN);
    const NEW: (u64, Rule) = (0x20, Rule::END);

    /// When another address takes over a slot, a lookup never returns the rule of the wrong
    /// address.
    ///
    /// For the rule in `CachedRule::replace` (release) and in `get` (acquire).
    #[test]
    fn a_rule_goes_with_its_key() {
        let prepare = |_| assert!(ENTRY.replace(0, OLD.0, OLD.1));
        check(prepare, |_| {
            together(
                || assert!(ENTRY.replace(OLD.0, NEW.0, NEW.1)),
                || {
                    for (key, rule) in [OLD, NEW] {
                        let found = ENTRY.get(key).map(Rule::bits);
                        assert!(found.is_none_or(|found| found == rule.bits()), "{key:#x}: {found:?}");
                    }
                },
            );
        });
    }
}
