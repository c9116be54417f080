//! Functions that are hooked at their entry: calls of them do not go through the dynamic linker.
//!
//! A controller replaces the first instructions of each function by a jump into an island: code
//! that the controller generates near the function. The island counts down or looks into the page
//! filter, and continues in the function, or, when there is something to record, jumps to the stub
//! of this probe ([`arch::island_stub`]) with the address of the function's cell. The probe itself
//! changes no code. The controller finds everything by [`Table`]; it fills cells, ranges and
//! islands while none of them is in use.
#![allow(unsafe_code)]

use core::ffi::{CStr, c_char};
use core::mem::{MaybeUninit, offset_of};

use heapwise_format::entry_hooks::{
    AFTER, Alignment, CELL_ALIGNMENT, CELL_BYTES, CELL_FAMILY, CELL_SHAPE, ISLAND_ALLOCATES, ISLAND_BYTES,
    ISLAND_RELEASES, MOST_CELLS, MOST_FAMILIES, MOST_ISLANDS, MOST_PATCHES, MOST_RANGES, Patch, Shape, Size,
    StateWord, TABLE_MAGIC, TableWord,
};

use super::families;
use super::nested_calls::Code;
use super::{COUNT, HookMode, SLOTS, Slot};
use crate::arch;
use crate::atomics::{AtomicU8, AtomicU64, Ordering};
use crate::live::filter::{FILTER, Filter};
use crate::record::usable::{Family, Source};
use crate::record::{self, Resizing};
use crate::unwind::Entry;

/// A hooked function.
#[repr(C)]
pub(crate) struct Cell {
    /// The function's first instructions, moved into the island, and a jump to the rest.
    real: AtomicU64,
    /// What the function does ([`Shape::word`]).
    shape: AtomicU64,
    /// Number of its family.
    family: AtomicU64,
    /// Where it has the alignment of its block ([`Alignment::word`]).
    alignment: AtomicU64,
}

const _: () = assert!(size_of::<Cell>() == CELL_BYTES && offset_of!(Cell, shape) == CELL_SHAPE);
const _: () = assert!(offset_of!(Cell, family) == CELL_FAMILY);
const _: () = assert!(offset_of!(Cell, alignment) == CELL_ALIGNMENT);
const _: () = assert!(AFTER < 256, "the stub tests one byte");

/// An island: its address and length.
#[repr(C)]
struct Island {
    address: AtomicU64,
    len: AtomicU64,
}

const _: () = assert!(size_of::<Island>() == ISLAND_BYTES);

static CELLS: [Cell; MOST_CELLS] = [const {
    Cell {
        real: AtomicU64::new(0),
        shape: AtomicU64::new(0),
        family: AtomicU64::new(0),
        alignment: AtomicU64::new(0),
    }
}; MOST_CELLS];
static ISLANDS: [Island; MOST_ISLANDS] =
    [const { Island { address: AtomicU64::new(0), len: AtomicU64::new(0) } }; MOST_ISLANDS];
/// Code of the allocators. The first range holds all others.
static RANGES: [Code; MOST_RANGES] = [const { Code::none() }; MOST_RANGES];
/// Kept for controllers.
static PATCHES: [[AtomicU8; Patch::BYTES]; MOST_PATCHES] =
    [const { [const { AtomicU8::new(0) }; Patch::BYTES] }; MOST_PATCHES];
static STATE: [AtomicU64; StateWord::Count as usize] =
    [const { AtomicU64::new(0) }; StateWord::Count as usize];

/// Addresses for a controller, in the order of [`TableWord`].
#[repr(C)]
struct Table {
    magic: u64,
    stub: unsafe extern "C" fn(),
    filter: &'static Filter,
    cells: &'static [Cell; MOST_CELLS],
    islands: &'static [Island; MOST_ISLANDS],
    ranges: &'static [Code; MOST_RANGES],
    patches: &'static [[AtomicU8; Patch::BYTES]; MOST_PATCHES],
    slots: &'static [Slot; COUNT],
    slot_names: &'static [SlotName; COUNT],
    slot_count: usize,
    state: &'static [AtomicU64; StateWord::Count as usize],
    families: &'static [families::Row; MOST_FAMILIES],
}

const _: () = assert!(size_of::<Table>() == TableWord::Count as usize * 8);
const _: () = assert!(offset_of!(Table, families) == TableWord::Families as usize * 8);

/// The name of a hook that the dynamic linker leads to.
#[repr(transparent)]
pub(super) struct SlotName(pub(super) *const c_char);
// SAFETY: points to constant text.
unsafe impl Sync for SlotName {}

#[used]
#[cfg_attr(feature = "preload", unsafe(no_mangle))]
#[allow(non_upper_case_globals, reason = "the symbol that controllers look for")]
static heapwise_entry_hooks: Table = Table {
    magic: TABLE_MAGIC,
    stub: arch::island_stub,
    filter: &FILTER,
    cells: &CELLS,
    islands: &ISLANDS,
    ranges: &RANGES,
    patches: &PATCHES,
    slots: &SLOTS,
    slot_names: &super::SLOT_NAMES,
    slot_count: COUNT,
    state: &STATE,
    families: &families::ROWS,
};

fn state(word: StateWord) -> u64 {
    STATE[word as usize].load(Ordering::Relaxed)
}

/// Functions hooked at their entry.
pub(crate) fn hooked() -> u64 {
    state(StateWord::Hooked)
}

/// Whether blocks of other allocators than the one that the dynamic linker leads to are recorded:
/// nothing is known of their addresses.
pub(crate) fn has_foreign_blocks() -> bool {
    state(StateWord::ForeignBlocks) != 0
}

/// Blocks of other allocators will be recorded.
pub(crate) fn expect_foreign_blocks() {
    STATE[StateWord::ForeignBlocks as usize].store(1, Ordering::Relaxed);
}

/// Whether `caller` is code of an allocator whose functions are hooked at their entry.
#[inline(always)]
pub(super) fn is_allocator(caller: u64) -> bool {
    RANGES[0].holds(caller) && is_in_range(caller)
}

#[cold]
fn is_in_range(caller: u64) -> bool {
    RANGES.iter().skip(1).any(|range| range.holds(caller))
}

/// Switches the islands.
pub(super) fn set_mode(mode: HookMode) {
    let (allocates, releases) = match mode {
        HookMode::Counting => (0_u8, 0_u8),
        HookMode::CountingAllocations => (0, 1),
        HookMode::Tracing => (1, 1),
    };
    let modes = u64::from(allocates) << (8 * ISLAND_ALLOCATES) | u64::from(releases) << (8 * ISLAND_RELEASES);
    STATE[StateWord::Modes as usize].store(modes, Ordering::SeqCst);
    for island in &ISLANDS {
        let address = island.address.load(Ordering::SeqCst) as usize;
        if address != 0 {
            // SAFETY: the controller mapped the first page of an island writable before it wrote
            // the address here, and never unmaps it.
            let modes = unsafe { &*(address as *const [AtomicU8; 2]) };
            modes[ISLAND_ALLOCATES].store(allocates, Ordering::Relaxed);
            modes[ISLAND_RELEASES].store(releases, Ordering::Relaxed);
        }
    }
}

/// A call that the stub passes on, in the stub's frame.
#[repr(C)]
pub(crate) struct Call {
    arguments: [usize; 6],
    result: usize,
    entry: Entry,
    cell: &'static Cell,
    resizing: MaybeUninit<Resizing>,
}

/// Room for a [`Call`] in the stub's frame; the registers are saved behind it.
pub(crate) const CALL_BYTES: usize = 192;
const _: () = assert!(size_of::<Call>() <= CALL_BYTES);
const _: () = assert!(offset_of!(Call, entry) == 56 && offset_of!(Call, cell) == 80);

impl Call {
    fn size(&self, size: Size) -> usize {
        let argument = |number: u8| self.arguments.get(usize::from(number)).copied().unwrap_or(0);
        match size {
            Size::Argument(number) => argument(number),
            // An overflow fails in the real function.
            Size::Product(number) => argument(number).saturating_mul(argument(number.saturating_add(1))),
            Size::Text if self.result == 0 => 0,
            // SAFETY: the call returned a text of the program.
            Size::Text => unsafe { CStr::from_ptr(self.result as *const c_char) }.count_bytes() + 1,
        }
    }

    fn shape(&self) -> Shape {
        Shape::from_word(self.cell.shape.load(Ordering::Relaxed))
    }

    #[inline(always)]
    pub(crate) fn family(&self) -> Family {
        Family::new(self.cell.family.load(Ordering::Relaxed))
    }

    /// The alignment of the block that the call requests; 0 for none.
    #[inline(always)]
    fn alignment(&self) -> usize {
        let argument = |number: u8| self.arguments.get(usize::from(number)).copied().unwrap_or(0);
        match Alignment::from_word(self.cell.alignment.load(Ordering::Relaxed)) {
            Alignment::None => 0,
            Alignment::Argument(number) => argument(number),
            Alignment::Flags(number) => alignment_of_flags(argument(number)),
            Alignment::Other => usize::MAX,
        }
    }

    /// Where a block of `size` bytes that the call allocates comes from.
    #[inline(always)]
    pub(crate) fn source(&self, size: usize) -> Source {
        let (family, alignment) = (self.family(), self.alignment());
        let is_measured =
            alignment != 0 && (alignment > size || alignment > families::natural_alignment(family));
        Source { family, is_measured }
    }

    /// The block that is freed or resized.
    fn block(&self) -> *mut core::ffi::c_void {
        let [first, second, ..] = self.arguments;
        let is_second = matches!(self.shape(), Shape::ResizeInHeap(_));
        (if is_second { second } else { first }) as *mut _
    }

    /// What [`before_call`] kept.
    fn take_resizing(&mut self) -> Resizing {
        // SAFETY: `before_call` wrote it for this shape, and it is taken once.
        unsafe { self.resizing.assume_init_read() }
    }
}

/// The alignment that flags of `mallocx` request; 0 for none. Their low bits are its logarithm.
#[inline(always)]
pub(super) fn alignment_of_flags(flags: usize) -> usize {
    match flags & 63 {
        0 => 0,
        logarithm => 1 << logarithm,
    }
}

/// Before the real function: what is freed leaves the index before the allocator gets it back.
pub(crate) unsafe extern "C" fn before_call(call: &mut Call) {
    match call.shape() {
        Shape::Release => record::freeing(call.family(), call.block(), call.entry.pc),
        Shape::Resize(_) | Shape::ResizeInHeap(_) | Shape::ResizeInPlace => {
            call.resizing.write(Resizing::start(call.block(), call.entry.pc, call.family()));
        }
        Shape::Allocate(_) | Shape::AllocateTo(_) | Shape::UsableSize => {}
    }
}

/// After the real function: what it returned is recorded.
pub(crate) unsafe extern "C" fn after_call(call: &mut Call) {
    let result = call.result as *mut core::ffi::c_void;
    match call.shape() {
        Shape::Allocate(size) => {
            let size = call.size(size);
            record::allocated_from(call.source(size), result, size, &call.entry);
        }
        Shape::AllocateTo(size) => {
            if call.result as i32 == 0 {
                // SAFETY: on success the allocator stored the block there.
                let block = unsafe { *call.block().cast::<*mut core::ffi::c_void>() };
                let size = call.size(size);
                record::allocated_from(call.source(size), block, size, &call.entry);
            }
        }
        Shape::Resize(size) | Shape::ResizeInHeap(size) => {
            let (size, resizing) = (call.size(size), call.take_resizing());
            if call.block().is_null() {
                record::allocated_from(call.source(size), result, size, &call.entry);
            } else if !result.is_null() {
                record::resized(resizing, result, size, &call.entry);
            } else if size == 0 {
                resizing.freed();
            } else {
                resizing.undo();
            }
        }
        Shape::ResizeInPlace => {
            let [_, size, extra, ..] = call.arguments;
            let resizing = call.take_resizing();
            if call.result < size {
                resizing.undo();
            } else {
                let asked = call.result.min(size.saturating_add(extra));
                record::resized(resizing, call.block(), asked, &call.entry);
            }
        }
        Shape::Release | Shape::UsableSize => {}
    }
}
