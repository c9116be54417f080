//! The next instruction of the innermost Lua function, where Lua has not saved it.
//!
//! From 5.4 on, the interpreter's loop has the next instruction in a local variable and saves it
//! before most allocations, but not before those of a table constructor. The variable is in a
//! register or in the loop's part of the C stack. The functions that the loop calls save the
//! register on the C stack before they use it for themselves; their unwind information names the
//! place. The hook of `realloc` saves those that no function has used. The loop is the first
//! function of its size outwards.
//!
//! A register or a word of the stack may have an older value, so each call of the loop's code is
//! observed: only a place that had a constructor's instruction in every search is used, and none
//! after a search without any.
#![allow(unsafe_code)]

use core::ops::Range;

use super::calls::{Call, INSTRUCTION};
use super::layout::Layout;
use super::layout::common::{CALL, NEW_TABLE, SET_LIST, TOP, VALUE_BYTES};
use crate::arch::entry_saves;
use crate::runtimes::memory::{Pages, half_word, word};
use crate::unwind::{Entry, KEPT_REGISTERS, NativeFrame, find_saved};

/// Least bytes of the loop's code. It has 9 to 16 KiB; the functions that it calls to allocate have
/// less than 2 KiB.
const LOOP_BYTES: u64 = 4096;
/// Most bytes of its part of the C stack that are searched.
const MOST_BYTES: u64 = 1024;
/// Calls of the loop that are distinguished.
const SITES: usize = 512;
/// Searches after which places whose words were always equal are taken for the same.
const ENOUGH: u32 = 64;

/// Places on the C stack that may have the next instruction. Zeroed memory is valid: none.
pub(super) struct Places {
    /// Where the registers are that the loop had when it called; 0: not known.
    registers: [u64; KEPT_REGISTERS],
    /// The loop's part of the stack.
    start: u64,
    end: u64,
    /// The address of its call.
    code: u64,
}

impl Places {
    /// Starts with the registers at the entry of a hook.
    pub(super) fn start(&mut self, entry: &Entry) {
        let registers = entry_saves(entry).unwrap_or([0; KEPT_REGISTERS]);
        *self = Places { registers, start: 0, end: 0, code: 0 };
    }

    /// Adds a frame, whose part of the stack ends at `end`, outwards: what it has saved are the
    /// registers of its caller.
    pub(super) fn add(&mut self, frame: &NativeFrame, end: u64) {
        if self.start == 0 {
            let before = self.registers;
            if find_saved(frame, end, &mut self.registers) >= LOOP_BYTES {
                self.registers = before;
                (self.start, self.end) = (frame.sp, end.min(frame.sp + MOST_BYTES));
                self.code = frame.code;
            }
        }
    }

    /// The place of a number: a register, or a word of the loop's part of the stack.
    fn place(&self, number: u32) -> u64 {
        let word = u64::from(number).wrapping_sub(KEPT_REGISTERS as u64);
        self.registers.get(number as usize).copied().unwrap_or(self.start.wrapping_add(word * 8))
    }

    /// The numbers of the places that have what is searched, as bits.
    fn search(&self, mut is_it: impl FnMut(u64) -> bool) -> u128 {
        let words = (self.end - self.start) / 8;
        let numbers = 0..(KEPT_REGISTERS as u32 + words as u32).min(u128::BITS);
        numbers.fold(0, |found, number| {
            let place = self.place(number);
            found | u128::from(place != 0 && is_it(place)) << number
        })
    }
}

/// Where the next instruction is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum CounterPlace {
    /// Where Lua saves it.
    Saved,
    /// At this place on the C stack; equal stacks have it there too.
    At(u64),
    /// As above, but equal stacks may have it elsewhere.
    NowAt(u64),
    /// Where Lua saves it, as far as is known now.
    Unsure,
}

/// A call in the loop's code.
#[derive(Clone, Copy)]
struct Site {
    /// Its address; 0: none.
    code: u64,
    /// Places that had the next instruction in every search: bits in the order of
    /// [`Places::place`].
    places: u128,
    searches: u32,
    /// Only a constructor can have left the top of the stack where it was found.
    is_constructor: bool,
    /// No place had the instruction once: the loop has saved it before this call.
    is_other: bool,
}

/// Calls of the loop that were searched. Zeroed memory is valid: none.
pub(super) struct Sites([Site; SITES]);

impl Sites {
    /// Finds the next instruction of the function that `state` runs innermost.
    pub(super) fn find(
        &mut self,
        layout: &Layout,
        pages: &mut Pages,
        state: u64,
        places: &Places,
    ) -> CounterPlace {
        if layout.extra_argument == 0 || places.start == 0 {
            return CounterPlace::Saved;
        }
        let slot = (places.code.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 48) as usize % SITES;
        let Some(site) = self.0.get_mut(slot) else { return CounterPlace::Saved };
        if site.code != places.code {
            let all = u128::MAX;
            *site =
                Site { code: places.code, places: all, searches: 0, is_constructor: false, is_other: false };
        }
        if site.is_other {
            return CounterPlace::Saved;
        }
        match Constructor::of(layout, pages, state) {
            Some(constructor) => {
                let found = constructor.search(layout, pages, places);
                site.learn(found, constructor.is_certain, places)
            }
            None => CounterPlace::Saved,
        }
    }
}

impl Site {
    fn learn(&mut self, found: u128, is_certain: bool, places: &Places) -> CounterPlace {
        self.places &= found;
        self.is_constructor |= is_certain;
        self.searches = self.searches.saturating_add(1);
        if self.places == 0 {
            self.is_other = true;
            return CounterPlace::Saved;
        }
        let place = places.place(self.places.trailing_zeros());
        match (self.is_constructor, self.places.is_power_of_two() || self.searches > ENOUGH) {
            (true, true) => CounterPlace::At(place),
            (true, false) => CounterPlace::NowAt(place),
            (false, _) => CounterPlace::Unsure,
        }
    }
}

/// The innermost Lua function, as far as a table constructor in it can be recognized.
struct Constructor {
    function: u64,
    code: Range<u64>,
    top: u64,
    /// The loop sets the top to the end of the function's registers before other allocations.
    is_certain: bool,
}

impl Constructor {
    /// `None` when the state does not run a Lua function innermost.
    fn of(layout: &Layout, pages: &mut Pages, state: u64) -> Option<Constructor> {
        let innermost = pages.word(state + CALL)?;
        let call = Call::at(pages, innermost)?;
        if !call.is_lua(layout) {
            return None;
        }
        let function = call.function();
        let code = call.code(layout, pages, function)?;
        let top = pages.word(state + TOP)?;
        Some(Constructor { function, code, top, is_certain: top != call.top() })
    }

    /// The places that have the address after an instruction that has set the top of the stack as
    /// it is.
    fn search(&self, layout: &Layout, pages: &mut Pages, places: &Places) -> u128 {
        let is_next = |place: u64| {
            // SAFETY: a place in a native frame of the calling thread.
            let next = unsafe { word(place) };
            let instruction = constructor_before(layout, pages, &self.code, next);
            instruction.is_some_and(|instruction| match opcode(instruction) {
                // It sets the top to the register after the table's.
                NEW_TABLE => {
                    let register = u64::from(instruction >> 7 & 0xff);
                    self.top == self.function.wrapping_add((register + 2) * VALUE_BYTES)
                }
                _ => true,
            })
        };
        places.search(is_next)
    }
}

fn opcode(instruction: u32) -> u32 {
    instruction & 0x7f
}

/// The instruction before `next`, if it is part of a table constructor.
fn constructor_before(layout: &Layout, pages: &mut Pages, code: &Range<u64>, next: u64) -> Option<u32> {
    let mut at = next.wrapping_sub(INSTRUCTION);
    let is_inside = next.is_multiple_of(INSTRUCTION) && code.contains(&at);
    if !is_inside || !pages.holds_all(at.saturating_sub(INSTRUCTION), 2 * INSTRUCTION) {
        return None;
    }
    // SAFETY: inside of the code, which was checked.
    let mut instruction = unsafe { half_word(at) };
    if opcode(instruction) == layout.extra_argument && at > code.start {
        at -= INSTRUCTION;
        // SAFETY: as above.
        instruction = unsafe { half_word(at) };
    }
    matches!(opcode(instruction), NEW_TABLE | SET_LIST).then_some(instruction)
}
