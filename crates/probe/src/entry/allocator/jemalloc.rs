//! jemalloc: `mallctl`, after a new epoch.
#![allow(unsafe_code)]

use core::cell::Cell;
use core::ffi::{CStr, c_char, c_int, c_void};

use heapwise_format::segment::{SectionKind, StatsText};

use super::Statistics;
use crate::atomics::Ordering;
use crate::fixed_text::FixedText;
use crate::segment::Segment;
use crate::symbols::function;

type Mallctl = unsafe extern "C" fn(*const c_char, *mut c_void, *mut usize, *mut c_void, usize) -> c_int;

pub(super) fn read() -> Option<Statistics> {
    // SAFETY: the signature of mallctl.
    let mallctl = unsafe { function::<Mallctl>(c"mallctl") }?;
    let mut epoch = 1_u64;
    let new = (&raw mut epoch).cast();
    // SAFETY: `epoch` takes eight bytes.
    unsafe {
        mallctl(c"epoch".as_ptr(), core::ptr::null_mut(), core::ptr::null_mut(), new, size_of::<u64>());
    }
    let read = |name: &CStr| word(mallctl, name);
    let (active, allocated) = (read(c"stats.active"), read(c"stats.allocated"));
    Some(Statistics {
        allocated,
        active,
        resident: read(c"stats.resident"),
        mapped: read(c"stats.mapped"),
        retained: read(c"stats.retained"),
        metadata: read(c"stats.metadata"),
        arenas: arenas(mallctl),
        free: active.saturating_sub(allocated),
        large: 0,
    })
}

/// Writes down the numbers of each arena: bytes handed out, in pages with live blocks, resident.
pub(super) fn tell_arenas(segment: &Segment) {
    // SAFETY: the signature of mallctl.
    let Some(mallctl) = (unsafe { function::<Mallctl>(c"mallctl") }) else { return };
    for (index, words) in
        (0..arenas(mallctl)).filter_map(|index| Some((index, segment.arena(index as usize)?)))
    {
        let read = |what: &[u8]| {
            let mut name = FixedText::<64>::new();
            name.push(b"stats.arenas.").push_decimal(index).push(what);
            name.as_c_str().map_or(0, |name| word(mallctl, name))
        };
        let numbers = [
            read(b".small.allocated") + read(b".large.allocated"),
            read(b".pactive").saturating_mul(word(mallctl, c"arenas.page")),
            read(b".resident"),
        ];
        for (word, number) in words.iter().zip(numbers) {
            word.store(number, Ordering::Relaxed);
        }
    }
}

/// A text that `malloc_stats_print` writes into the segment.
struct Text<'a> {
    segment: &'a Segment,
    bytes: Cell<u64>,
}

/// Writes down what `malloc_stats_print` prints, up to the room for it; its bytes.
pub(super) fn print(segment: &Segment, request: StatsText) -> u64 {
    type Write = unsafe extern "C" fn(*mut c_void, *const c_char);
    type Print = unsafe extern "C" fn(Write, *mut c_void, *const c_char);
    // SAFETY: the signature of malloc_stats_print.
    let Some(print) = (unsafe { function::<Print>(c"malloc_stats_print") }) else { return 0 };
    let letters = request.letters();
    let text = Text { segment, bytes: Cell::new(0) };
    // SAFETY: `text` outlives the call; the letters end with a zero.
    unsafe { print(append, (&raw const text).cast_mut().cast(), letters.as_ptr().cast()) };
    text.bytes.get()
}

/// Appends a piece of a [`Text`].
unsafe extern "C" fn append(text: *mut c_void, piece: *const c_char) {
    // SAFETY: the pointer that `print` passed, and text of jemalloc's.
    let (text, piece) = unsafe { (&*text.cast::<Text<'_>>(), CStr::from_ptr(piece)) };
    let room = text.segment.section(SectionKind::StatsText).capacity;
    for byte in piece.to_bytes() {
        let at = text.bytes.get();
        if at < room {
            text.segment.write(SectionKind::StatsText, at, *byte);
            text.bytes.set(at + 1);
        }
    }
}

/// A number of the size of a word; 0 for one that is not known.
fn word(mallctl: Mallctl, name: &CStr) -> u64 {
    let (mut value, mut len) = (0_usize, size_of::<usize>());
    // SAFETY: jemalloc writes at most `len` bytes.
    let result =
        unsafe { mallctl(name.as_ptr(), (&raw mut value).cast(), &raw mut len, core::ptr::null_mut(), 0) };
    if result == 0 { value as u64 } else { 0 }
}

fn arenas(mallctl: Mallctl) -> u64 {
    let (mut value, mut len) = (0_u32, size_of::<u32>());
    // SAFETY: jemalloc writes at most `len` bytes.
    unsafe {
        let name = c"arenas.narenas".as_ptr();
        mallctl(name, (&raw mut value).cast(), &raw mut len, core::ptr::null_mut(), 0);
    }
    u64::from(value)
}
