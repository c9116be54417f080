//! The stack cache: stacks that a thread allocates from again and again, recognized without a walk.
//!
//! **Claim.** A stack whose registers are those of a cached one, and whose words are, is that one.
//!
//! **Why.** As for the memo: a step is a function of registers and of the words it reads. Registers
//! are compared, and so is every word that any step of the stack read. As in the memo, code behind
//! a return address on the stack is not read again.
//!
//! A program allocates at a few dozen places in turn, from a few callers each. The first level is
//! chosen by the innermost registers. Most programs allocate through a wrapper (`xmalloc`,
//! `operator new`), so many stacks share these registers. The second level is chosen by all words
//! of the stack, at the places where the stack of the first level has them: stacks with the same
//! innermost registers mostly have their words at the same places. The slot of such a stack is
//! marked as shared, and then only the second level is searched. Most stacks occur once, so a stack
//! is admitted when it is captured a second time.
//!
//! Entries are stored densely, so that a thread with few stacks uses little memory.
#![allow(unsafe_code)]

use super::checks::Check;
use super::machine::thread_pointer;
use super::stack::load;
use super::{Entry, NativeId, State};
use crate::session::Session;
use crate::sites::tallies::{CachedTally, TallyRef};

/// Sets of the first level, and layouts in each. Of 64 layouts, one in 400 is the third of its set.
const FIRST_SETS: usize = 512;
const FIRST_WAYS: usize = 2;
/// Sets of the second level, as a power of two, and stacks in each.
const SECOND_BITS: u32 = 12;
const SECOND_WAYS: usize = 2;
/// Recently captured stacks, as a power of two.
const SEEN_BITS: u32 = 9;
/// Room for entries, in units of a cache line: 1 MiB a thread, if it ever has so many stacks.
const UNITS: usize = 16384;
/// Searches: what a hit is worth, and the most that hits can add up to.
const CREDIT_OF_HIT: i32 = 4;
const MOST_CREDIT: i32 = 64;
/// Events after which a search is tried again.
const RETRY: i32 = 16;
/// Most words of a stack that is cached.
const MOST_WORDS: usize = 256;

/// In the stack pointer of an entry that only paranoid mode finds: no stack is there.
const PARANOID: u64 = 1 << 63;
const _: () = assert!(UNITS <= Slot::SHARED as usize);

/// A cache line.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Unit([u64; 8]);

/// Two words of a stack. In twos, because most stacks that repeat are short, and the remainder of a
/// larger group costs more than it gains.
#[derive(Clone, Copy)]
#[repr(C)]
struct Pair {
    words: [u64; 2],
    /// Where they are, in bytes from the stack pointer.
    places: [u32; 2],
}

/// A stack of the thread's own, followed by its pairs.
#[repr(C, align(64))]
pub(crate) struct CachedStack {
    sp: u64,
    pc: u64,
    fp: u64,
    /// The calling thread's tally of the site; none where the native stack alone does not lead to
    /// one.
    tally: CachedTally,
    id: NativeId,
    /// The bits of the frame pointer that matter, with their sign extended: all when it is live,
    /// else none.
    live: i32,
    /// Bytes of the pairs.
    bytes: u32,
}

const _: () = assert!(size_of::<CachedStack>() == size_of::<Unit>());

impl CachedStack {
    /// The name of its stack.
    #[inline(always)]
    pub(crate) fn id(&self) -> NativeId {
        self.id
    }

    /// Its tally, if it leads to one that has counted blocks around this size.
    #[inline(always)]
    pub(crate) fn tally_of(&self, size: usize) -> Option<TallyRef> {
        self.tally.of_size(size)
    }

    /// Its tally.
    #[inline(always)]
    pub(crate) fn tally(&self) -> Option<TallyRef> {
        self.tally.get()
    }
}

/// Where a cached stack and its pairs are, until the cache is cleared ([`StackCache::filling`]). In
/// bytes from the first unit: what is compared is loaded without waiting for the stack itself.
#[derive(Clone, Copy)]
pub(crate) struct StackPlace {
    start: u32,
    end: u32,
}

impl StackPlace {
    /// That of no stack.
    pub(crate) const NONE: StackPlace = StackPlace { start: 0, end: 0 };
}

/// The unit of a stack of the first level, and whether the second level has several with its
/// registers and places. Zeroed memory is valid: none.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Slot(u16);

impl Slot {
    const SHARED: u16 = 1 << 15;
    const EMPTY: Slot = Slot(0);

    fn unit(self) -> u16 {
        self.0 & !Self::SHARED
    }

    #[inline(always)]
    fn is_shared(self) -> bool {
        self.0 & Self::SHARED != 0
    }
}

/// Zeroed memory is valid: empty. Unit 0 stays zeroed, so that 0 means no entry.
#[repr(C)]
pub(crate) struct StackCache {
    first: [[Slot; FIRST_WAYS]; FIRST_SETS],
    /// Units in use.
    used: usize,
    turn: usize,
    /// How often the cache was cleared.
    filling: u32,
    /// What the entries are valid for.
    filled_for: FilledFor,
    /// Of the memo that it was filled from.
    pub(super) version: u32,
    /// Searches that are worth trying; below zero, one in [`RETRY`] is.
    credit: i32,
    /// Whether several stacks share their registers.
    has_similar: bool,
    /// Whether the second level has entries.
    has_second: bool,
    /// Names of stacks captured recently, shortened.
    seen: [u32; 1 << SEEN_BITS],
    units: [Unit; UNITS],
    second: [[u16; SECOND_WAYS]; 1 << SECOND_BITS],
}

/// A generation of the configuration, and the end of the stack that the entries are on.
#[derive(Clone, Copy, PartialEq, Eq)]
struct FilledFor {
    generation: u64,
    stack_end: u64,
}

/// A captured stack of the thread's own, whose innermost frame was not interrupted.
pub(super) struct Whole<'a> {
    pub(super) innermost: State,
    /// Whether its frame pointer is live.
    pub(super) live: bool,
    pub(super) id: NativeId,
    pub(super) checks: &'a [Check],
}

/// The set of the first level for stacks with these innermost registers. Few instructions: every
/// event computes it.
#[inline(always)]
fn first_set(entry: Entry) -> usize {
    let mixed = entry.pc.wrapping_add(entry.sp.wrapping_mul(8)).wrapping_mul(0x5bd1_e995);
    (mixed >> 32) as usize % FIRST_SETS
}

impl StackCache {
    /// The cached stack at `entry`, if it is the only one with these registers and places.
    #[inline(always)]
    pub(crate) fn find_first(&self, entry: Entry) -> Option<&CachedStack> {
        let [first, second] = self.first[first_set(entry)];
        let (mut slot, mut stack) = (first, self.stack(first.0));
        if !stack.starts_at(entry, entry.sp) {
            (slot, stack) = (second, self.stack(second.0));
            if !stack.starts_at(entry, entry.sp) {
                return None;
            }
        }
        // Comparing would fail in most cases, at a word that cannot be predicted.
        (!slot.is_shared() && stack.holds_at(entry)).then_some(stack)
    }

    /// The cached stack at `entry`.
    #[inline(always)]
    pub(crate) fn find(&mut self, entry: Entry) -> Option<&CachedStack> {
        if let Some(stack) = self.find_first(entry) {
            // Without a pointer, the borrow would last through the other branch too.
            let found: *const CachedStack = stack;
            // SAFETY: an entry of the cache, which is borrowed as long as the result.
            return unsafe { found.as_ref() };
        }
        self.find_further(entry)
    }

    /// The cached stack at `entry`, which `find_first` did not find.
    #[inline(always)]
    pub(crate) fn find_further(&mut self, entry: Entry) -> Option<&CachedStack> {
        if self.is_worth_searching() { self.search(entry) } else { None }
    }

    /// Changes when the cache is cleared: numbers of stacks mean nothing from then on.
    #[inline(always)]
    pub(crate) fn filling(&self) -> u32 {
        self.filling
    }

    /// The name and the place of the cached stack at `entry`.
    #[inline(always)]
    pub(crate) fn find_place(&mut self, entry: Entry) -> Option<(NativeId, StackPlace)> {
        let found = self.find(entry)?;
        let (id, bytes) = (found.id, found.bytes);
        let start = ((&raw const *found).addr() - self.units.as_ptr().addr()) as u32;
        Some((id, StackPlace { start, end: start + size_of::<CachedStack>() as u32 + bytes }))
    }

    /// Whether the stack at `entry` is the cached one at a place.
    ///
    /// # Safety
    /// `find_place` returned the place in this filling, or it is that of no stack.
    #[inline(always)]
    pub(crate) unsafe fn is_at(&self, place: StackPlace, entry: Entry) -> bool {
        let units = self.units.as_ptr();
        // SAFETY: the place of an entry of the cache, by the caller's promise; the first unit is
        // one too.
        let stack: &CachedStack = unsafe { &*units.byte_add(place.start as usize).cast() };
        let end = units.wrapping_byte_add(place.end as usize).cast();
        stack.starts_at(entry, entry.sp) && stack.holds_until(end, entry)
    }

    /// Searches all stacks with these registers. A program with more stacks than the cache holds
    /// (recursion) would pay for nothing, so most searches are left out while they fail.
    #[inline(never)]
    fn search(&mut self, entry: Entry) -> Option<&CachedStack> {
        let Some(unit) = self.search_levels(entry, entry.sp) else {
            self.credit -= 1;
            return None;
        };
        self.credit = (self.credit + CREDIT_OF_HIT).min(MOST_CREDIT);
        Some(self.stack(unit))
    }

    /// Whether a search is worth its time.
    #[inline(always)]
    fn is_worth_searching(&mut self) -> bool {
        if self.credit >= 0 {
            return self.has_similar;
        }
        self.credit = if self.credit <= -RETRY { 0 } else { self.credit - 1 };
        false
    }

    /// The unit of the stack at `entry`.
    #[inline(always)]
    fn search_levels(&self, entry: Entry, sp: u64) -> Option<u16> {
        let is_it = |unit: u16| {
            let stack = self.stack(unit);
            stack.starts_at(entry, sp) && stack.holds_at(entry)
        };
        for slot in self.first[first_set(entry)] {
            let similar = self.stack(slot.0);
            // Its places are valid at its own stack pointer only.
            if !similar.starts_at(entry, sp) {
                continue;
            }
            if !slot.is_shared() {
                if similar.holds_at(entry) {
                    return Some(slot.unit());
                }
                continue;
            }
            let units = self.second.get(similar.second_set(entry.sp))?;
            if let Some(unit) = units.iter().find(|unit| is_it(**unit)) {
                return Some(*unit);
            }
        }
        None
    }

    /// Looks up among the stacks that were admitted in paranoid mode.
    pub(super) fn find_paranoid(&self, entry: Entry) -> Option<&CachedStack> {
        Some(self.stack(self.search_levels(entry, entry.sp ^ PARANOID)?))
    }

    /// Puts an entry into both levels. The second level is used from the second stack with the same
    /// registers and places on, so that a thread with few stacks has no pages of it.
    fn put(&mut self, entry: Entry, unit: u16) {
        let (index, new) = (first_set(entry), self.stack(unit));
        let set = self.first[index];
        let same = set.iter().position(|slot| self.stack(slot.0).has_places_of(new));
        let similar = set.iter().any(|slot| self.stack(slot.0).starts_like(new));
        let empty = || set.iter().position(|slot| *slot == Slot::EMPTY);
        self.turn = self.turn.wrapping_add(1);
        let way = same.or_else(empty).unwrap_or(self.turn % FIRST_WAYS);
        let shared = if same.is_some() { Slot::SHARED } else { 0 };
        if let Some(slot) = self.first[index].get_mut(way) {
            let before = core::mem::replace(slot, Slot(unit | shared));
            self.has_similar |= similar;
            if same.is_some() {
                self.put_second(before.unit());
                self.put_second(unit);
            }
        }
    }

    fn put_second(&mut self, unit: u16) {
        self.has_second = true;
        let index = self.stack(unit).own_second_set();
        let way = self.turn % SECOND_WAYS;
        let Some(units) = self.second.get_mut(index).filter(|units| !units.contains(&unit)) else { return };
        if let Some(place) = units.get_mut(way) {
            *place = unit;
        }
    }

    /// The entry of a unit. That of unit 0 is nowhere: no stack pointer is 0.
    #[inline(always)]
    fn stack(&self, unit: u16) -> &CachedStack {
        const { assert!(UNITS.is_power_of_two()) };
        // SAFETY: inside the array; units that are named by a slot hold an entry, and zeroed memory
        // is one.
        unsafe { &*(&raw const *self.units.get_unchecked(usize::from(unit) & (UNITS - 1))).cast() }
    }

    /// A stack was captured, whose steps read so many words: whether to admit it.
    #[inline(always)]
    pub(super) fn should_admit(&mut self, id: NativeId, words: usize) -> bool {
        if words.wrapping_sub(1) >= MOST_WORDS {
            return false;
        }
        let short = (id.word() ^ id.word() >> 32) as u32;
        let slot = (short.wrapping_mul(0x9e37_79b9) >> (32 - SEEN_BITS)) as usize;
        let Some(seen) = self.seen.get_mut(slot) else { return false };
        core::mem::replace(seen, short) == short
    }

    /// Admits a stack, with the thread's tally of it.
    #[cold]
    #[inline(never)]
    pub(super) fn admit(&mut self, session: &Session, whole: &Whole, tally: Option<TallyRef>) {
        let pairs = whole.checks.len().div_ceil(2);
        let units = 1 + (pairs * size_of::<Pair>()).div_ceil(size_of::<Unit>());
        if self.used.max(1) + units > UNITS {
            self.clear();
        }
        let unit = self.used.max(1);
        let State { sp, pc, fp, .. } = whole.innermost;
        let entry = Entry { pc, sp, fp };
        let Some(place) = self.units.get_mut(unit..unit + units) else { return };
        let mark = if session.unwind.is_paranoid() { PARANOID } else { 0 };
        if !write(session, place, whole, tally, mark) {
            return;
        }
        self.used = unit + units;
        self.put(entry, unit as u16);
    }

    /// The unit of the stack at `entry` that leads to a tally.
    fn unit_of(&self, entry: Entry, tally: TallyRef) -> Option<u16> {
        let is_it = |unit: &u16| self.stack(*unit).tally.is(tally);
        let slots = self.first[first_set(entry)];
        let shared = slots
            .into_iter()
            .filter(|slot| slot.is_shared() && self.stack(slot.0).starts_at(entry, entry.sp));
        let second = shared.flat_map(|slot| self.second[self.stack(slot.0).second_set(entry.sp)]);
        slots.into_iter().map(Slot::unit).chain(second).find(is_it)
    }

    /// A block of `size` bytes was counted for the stack at `entry`. Its entry gets the tally's
    /// current range of sizes.
    pub(crate) fn widen(&mut self, session: &Session, entry: Entry, tally: TallyRef, size: u64) {
        let Some(unit) = self.unit_of(entry, tally) else { return };
        let Some(place) = self.units.get_mut(usize::from(unit)).filter(|_| unit != 0) else { return };
        // SAFETY: as `stack`; the borrow of the cache is exclusive.
        let stack: &mut CachedStack = unsafe { &mut *(&raw mut *place).cast() };
        stack.tally.widen(session, tally, size);
    }

    /// Drops the entries of another generation. A thread that continues with the state of an ended
    /// one keeps them, if its stack ends at the same address: then every word of an entry lies
    /// between its stack pointer and that end.
    pub(crate) fn validate(&mut self, generation: u64) {
        let valid = FilledFor { generation, stack_end: thread_pointer() };
        if self.filled_for != valid {
            self.clear();
            self.filled_for = valid;
        }
    }

    /// Drops all entries: something changed that stacks or tallies depend on.
    pub(crate) fn clear(&mut self) {
        if self.used != 0 {
            self.first.fill([Slot::EMPTY; FIRST_WAYS]);
            self.seen.fill(0);
            if self.has_second {
                self.second.fill([0; SECOND_WAYS]);
            }
            (self.used, self.has_similar, self.has_second) = (0, false, false);
            self.filling = self.filling.wrapping_add(1);
        }
    }
}

/// Writes an entry; false when a word is too far from the stack pointer.
fn write(session: &Session, place: &mut [Unit], whole: &Whole, tally: Option<TallyRef>, mark: u64) -> bool {
    let Some((head, rest)) = place.split_first_mut() else { return false };
    let State { sp, pc, fp, .. } = whole.innermost;
    let pairs: *mut Pair = rest.as_mut_ptr().cast();
    // The innermost last, where comparing starts: they differ most.
    for (number, checks) in whole.checks.chunks(2).enumerate() {
        // Of an odd number, the last twice.
        let (Some(inner), Some(outer)) = (checks.last(), checks.first()) else { return false };
        let (Some(inner), Some(outer)) = (inner.from(sp), outer.from(sp)) else { return false };
        let pair = Pair { words: [inner.1, outer.1], places: [inner.0, outer.0] };
        // SAFETY: `place` has room for all pairs, counted by `admit`; a pair is aligned to 8 bytes.
        unsafe { pairs.add(number).write(pair) };
    }
    let stack = CachedStack {
        sp: sp ^ mark,
        pc,
        fp,
        tally: tally.map_or(CachedTally::NONE, |tally| CachedTally::new(session, tally)),
        id: whole.id,
        live: if whole.live { -1 } else { 0 },
        bytes: (whole.checks.len().div_ceil(2) * size_of::<Pair>()) as u32,
    };
    // SAFETY: a unit has the size and alignment of an entry.
    unsafe { (&raw mut *head).cast::<CachedStack>().write(stack) };
    true
}

impl CachedStack {
    /// Whether its innermost registers are these; `sp` is that of `entry`, or marked as paranoid.
    #[inline(always)]
    fn starts_at(&self, entry: Entry, sp: u64) -> bool {
        self.sp == sp && self.pc == entry.pc
    }

    fn starts_like(&self, other: &CachedStack) -> bool {
        self.sp == other.sp && self.pc == other.pc
    }

    /// Whether the frame pointer and every word are what they were, at the stack pointer that the
    /// entry belongs to: all words are above it, on the stack in use.
    #[inline(always)]
    fn holds_at(&self, entry: Entry) -> bool {
        let pairs = (&raw const *self).wrapping_add(1).cast::<Pair>();
        self.holds_until(pairs.wrapping_byte_add(self.bytes as usize), entry)
    }

    /// As [`CachedStack::holds_at`], with the end of its pairs.
    #[inline(always)]
    fn holds_until(&self, end: *const Pair, entry: Entry) -> bool {
        if (self.fp ^ entry.fp) & i64::from(self.live) as u64 != 0 {
            return false;
        }
        let sp = entry.sp;
        let pairs = (&raw const *self).wrapping_add(1).cast::<Pair>();
        let mut pair = end;
        loop {
            pair = pair.wrapping_sub(1);
            // SAFETY: an entry that is somewhere has that many bytes of pairs behind it, one pair
            // at least.
            let Pair { words: [a, b], places: [at_a, at_b] } = unsafe { &*pair };
            // SAFETY: `write` took only words between the stack pointer and the end of the thread's
            // stack.
            let word = |place: u32| unsafe { load(sp.wrapping_add(place.into())) };
            if word(*at_a) != *a || word(*at_b) != *b {
                return false;
            }
            if pair == pairs {
                return true;
            }
        }
    }

    /// Its pairs.
    fn pairs(&self) -> &[Pair] {
        let pairs = (&raw const *self).wrapping_add(1).cast::<Pair>();
        // SAFETY: an entry has that many bytes of pairs behind it, written by `write`.
        unsafe { core::slice::from_raw_parts(pairs, self.bytes as usize / size_of::<Pair>()) }
    }

    /// The set of the second level, by the words at this entry's places.
    fn second_set(&self, sp: u64) -> usize {
        // SAFETY: as `holds_at`.
        let word = |place: u32| unsafe { load(sp.wrapping_add(place.into())) };
        self.hash(self.pairs().iter().map(|pair| pair.places.map(word)))
    }

    /// The set of the second level that the entry itself is in.
    fn own_second_set(&self) -> usize {
        self.hash(self.pairs().iter().map(|pair| pair.words))
    }

    #[inline(always)]
    fn hash(&self, words: impl Iterator<Item = [u64; 2]>) -> usize {
        let (mut a, mut b) = (self.sp, self.pc);
        for [first, second] in words {
            a = a.rotate_left(11) ^ first;
            b = b.rotate_left(13) ^ second;
        }
        let mixed = (a ^ b.rotate_left(29)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed >> (64 - SECOND_BITS)) as usize
    }

    /// Whether another stack has the same registers, and its words at the same places.
    fn has_places_of(&self, other: &CachedStack) -> bool {
        self.starts_like(other)
            && self.bytes == other.bytes
            && self.pairs().iter().zip(other.pairs()).all(|(a, b)| a.places == b.places)
    }
}
