//! The binaries that stacks refer to, and their comings and goings.
//!
//! A binary gets a record in the segment when an address in it is first unwound. Records are never
//! reused: a binary that is loaded again at its old address, equal in every compared byte, gets its
//! old number; another binary at that address gets a new one. The key of a stack-tree node includes
//! the module, so a reused address is a new node.
//!
//! Everything derived from a binary's unwind information (cached rules, memoised stacks) carries
//! the *generation* it was made in. When a binary is unloaded the generation changes, and nothing
//! of the older one is ever used again.
#![allow(unsafe_code)]

mod image;
mod record;

use core::ffi::{c_int, c_void};

use heapwise_format::segment::{Counter, SectionKind};

pub(crate) use image::{ElfSegment, Image};

use crate::atomics::Ordering::{Acquire, Relaxed, Release};
use crate::atomics::{AtomicBool, AtomicU32, AtomicU64};
use crate::session::Session;
use crate::{runtimes, symbols};

/// Most modules ever; the section of the segment holds no more either.
const LIMIT: usize = 2048;

const _: () = assert!(LIMIT < crate::unwind::MODULE_LIMIT as usize);

/// The probe's private copy of a record: other processes may overwrite the segment.
struct Slot {
    /// Hash of place and fingerprint; 0 when free.
    identity: AtomicU64,
    start: AtomicU64,
    end: AtomicU64,
    /// Was it loaded when its range was last looked at?
    loaded: AtomicBool,
    /// Was it searched for a language runtime?
    considered: AtomicBool,
}

/// The modules of a session. Zeroed memory is valid: none.
pub(crate) struct Modules {
    /// Generations so far.
    changes: AtomicU32,
    /// The loader's count of unloaded objects when the generation last changed.
    unloaded: AtomicU64,
    slots: [Slot; LIMIT],
}

impl Modules {
    /// The current generation, from 1: zeroed memory belongs to no generation.
    #[inline(always)]
    pub(crate) fn generation(&self) -> u32 {
        self.changes.load(Acquire).wrapping_add(1)
    }
}

/// Starts a new generation.
pub(crate) fn next_generation(session: &Session) {
    let modules = &session.unwind.modules;
    modules.changes.fetch_add(1, Release);
    session.unwind.rules.clear_on_wrap(modules.generation());
    session.fork.change_generation();
}

/// To be called when `dlclose` has returned: starts a new generation if an object was unloaded
/// (mostly `dlclose` only drops a reference).
pub(crate) fn generation_changed(session: &Session) {
    let mut unloaded = 0_u64;
    // SAFETY: `read_unloaded` gets `unloaded` back as its last argument.
    unsafe { libc::dl_iterate_phdr(Some(read_unloaded), (&raw mut unloaded).cast()) };
    if session.unwind.modules.unloaded.swap(unloaded, Relaxed) != unloaded {
        next_generation(session);
    }
}

unsafe extern "C" fn read_unloaded(info: *mut libc::dl_phdr_info, _: usize, count: *mut c_void) -> c_int {
    // SAFETY: the loader passes a valid `info`, `generation_changed` its own counter.
    unsafe { *count.cast::<u64>() = (*info).dlpi_subs };
    1
}

/// Finds the loader's function that finds modules; once, when the probe starts.
pub(crate) fn find_loader() {
    let find_object = symbols::find_next(c"_dl_find_object");
    image::set_find_object(find_object.map_or(core::ptr::null_mut(), |found| found.address.cast()));
}

/// Describes every module that is loaded now, where that is not possible later.
pub(crate) fn describe_all(session: &Session) {
    let data = (&raw const *session).cast_mut().cast();
    // SAFETY: `describe` takes a session.
    unsafe { libc::dl_iterate_phdr(Some(describe), data) };
}

unsafe extern "C" fn describe(info: *mut libc::dl_phdr_info, _: usize, session: *mut c_void) -> c_int {
    // SAFETY: the caller's own; the loader's description and its table are valid during the call.
    let (session, info) = unsafe { (&*session.cast::<Session>(), &*info) };
    // SAFETY: as above.
    let headers = unsafe { core::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into()) };
    let mut code = headers.iter().filter(|row| row.p_type == libc::PT_LOAD && row.p_flags & libc::PF_X != 0);
    if let Some(address) = code.next().map(|row| info.dlpi_addr.wrapping_add(row.p_vaddr))
        && let Some(image) = Image::find(address)
    {
        number(session, &image, address);
    }
    0
}

/// The number (record plus 1) of the module that `image` has around `address`; 0 when the table is
/// full. Lock-free: two threads that find a new module at once get the same slot.
pub(crate) fn number(session: &Session, image: &Image, address: u64) -> u32 {
    let Some(segment) = image.code_segment(address) else { return 0 };
    let identity = identity(image, &segment);
    let capacity = LIMIT.min(session.segment.section(SectionKind::Modules).capacity as usize);
    for (index, slot) in session.unwind.modules.slots.iter().enumerate().take(capacity) {
        let mut known = slot.identity.load(Acquire);
        if known == 0 {
            known = match slot.identity.compare_exchange(0, identity, Acquire, Acquire) {
                Ok(_) => {
                    slot.start.store(segment.start, Relaxed);
                    slot.end.store(segment.end, Relaxed);
                    publish(session, index, image, &segment);
                    identity
                }
                Err(other) => other,
            };
        }
        if known == identity {
            // Also where another thread does so now: a stack must not be captured before.
            if !slot.considered.load(Relaxed) {
                runtimes::consider(session, image);
                slot.considered.store(true, Relaxed);
            }
            if !slot.loaded.swap(true, Relaxed) {
                retire_others(session, index, &segment);
            }
            return index as u32 + 1;
        }
    }
    session.segment.count(Counter::LostModules);
    0
}

fn identity(image: &Image, segment: &ElfSegment) -> u64 {
    (image.fingerprint() ^ segment.start).wrapping_mul(0x9e37_79b9_7f4a_7c15).max(1)
}

/// Any other module in this range is unloaded, without a hooked call (the C library unloads its own
/// plugins without `dlclose`): data derived from it is invalid.
fn retire_others(session: &Session, index: usize, segment: &ElfSegment) {
    let mut any = false;
    let slots = session.unwind.modules.slots.iter().enumerate();
    for (other, slot) in slots.take_while(|(_, slot)| slot.identity.load(Relaxed) != 0) {
        let overlaps = slot.start.load(Relaxed) < segment.end && segment.start < slot.end.load(Relaxed);
        any |= other != index && overlaps && slot.loaded.swap(false, Relaxed);
    }
    if any {
        next_generation(session);
    }
}

fn publish(session: &Session, index: usize, image: &Image, segment: &ElfSegment) {
    let record = record::describe(image, segment, session.unwind.modules.generation());
    if session.segment.append(SectionKind::Modules, index as u64, record) {
        session.segment.counter(Counter::Modules).fetch_max(index as u64 + 1, Release);
    } else {
        session.segment.count(Counter::LostModules);
    }
}
