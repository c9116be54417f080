//! The interpreter's allocators for memory (`MEM`) and objects (`OBJ`), wrapped through
//! `PyMem_SetAllocator`.
//!
//! Only blocks in the interpreter's arenas are recorded here. Larger blocks, and the raw domain,
//! reach `malloc`, which is hooked.
#![allow(unsafe_code)]

use core::cell::UnsafeCell;
use core::ffi::{c_int, c_void};
use core::mem::MaybeUninit;

use super::codes::CODES;
use super::{Interpreter, arenas, counting, interpreter};
use crate::arch::words;
use crate::atomics::{AtomicPtr, Ordering};
use crate::record::usable::Family;
use crate::record::{self, Resizing};
use crate::runtimes;
use crate::unwind::Entry;

type Pointer = *mut c_void;

/// `PyMemAllocatorEx`.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct Allocator {
    context: Pointer,
    malloc: unsafe extern "C" fn(Pointer, usize) -> Pointer,
    calloc: unsafe extern "C" fn(Pointer, usize, usize) -> Pointer,
    realloc: unsafe extern "C" fn(Pointer, Pointer, usize) -> Pointer,
    free: unsafe extern "C" fn(Pointer, Pointer),
}

impl Allocator {
    fn functions(&self) -> [usize; 4] {
        [self.malloc as usize, self.calloc as usize, self.realloc as usize, self.free as usize]
    }
}

/// `PyMem_GetAllocator` and `PyMem_SetAllocator`.
pub(super) type Access = unsafe extern "C" fn(c_int, *mut Allocator);

/// `PYMEM_DOMAIN_RAW`, whose blocks are those of `malloc`.
const RAW: c_int = 0;

/// `PYMEM_DOMAIN_MEM` and `PYMEM_DOMAIN_OBJ`.
const DOMAINS: [c_int; 2] = [1, 2];

/// `PYMEM_DOMAIN_OBJ`, which most blocks come from.
const OBJECTS: c_int = 2;

/// The interpreter's own allocators.
pub(super) struct Originals([UnsafeCell<MaybeUninit<Allocator>>; DOMAINS.len()]);

type Malloc = unsafe extern "C" fn(Pointer, usize) -> Pointer;

/// The function that [`polling`] replaces, a [`Malloc`].
static POLLED: AtomicPtr<()> = AtomicPtr::new(core::ptr::null_mut());

// SAFETY: written by `install` under the interpreter's lock or before it runs, read by the domains'
// functions, which are called under that lock.
unsafe impl Sync for Originals {}

impl Originals {
    pub(super) const fn new() -> Self {
        Self([const { UnsafeCell::new(MaybeUninit::zeroed()) }; DOMAINS.len()])
    }
}

impl Interpreter {
    /// Wraps the domains if blocks are recorded; else has the control words polled. The calling
    /// thread has the interpreter's lock, or the interpreter does not run yet.
    pub(super) fn follow(&self) {
        match record::poll(0) {
            true => self.install(),
            false => self.poll(),
        }
    }

    /// While nothing is recorded: polls the control words as objects are allocated, because a
    /// program may allocate nothing else. Frees cost nothing. The function is replaced once: where
    /// another one is there later, it may call [`polling`] (tracemalloc).
    fn poll(&self) {
        if self.is_hooked() || !POLLED.load(Ordering::Relaxed).is_null() {
            return;
        }
        let mut objects = self.allocator(OBJECTS);
        let malloc = objects.malloc as *mut ();
        if POLLED
            .compare_exchange(core::ptr::null_mut(), malloc, Ordering::Release, Ordering::Relaxed)
            .is_err()
        {
            return;
        }
        objects.malloc = polling;
        // SAFETY: the signature of PyMem_SetAllocator, which copies the struct.
        unsafe { (self.set_allocator)(OBJECTS, &raw mut objects) };
    }

    /// The allocator of a domain.
    fn allocator(&self, domain: c_int) -> Allocator {
        let mut present = MaybeUninit::<Allocator>::zeroed();
        // SAFETY: the signature of PyMem_GetAllocator, which fills the struct.
        unsafe { (self.get_allocator)(domain, present.as_mut_ptr()) };
        // SAFETY: filled with four functions.
        unsafe { present.assume_init() }
    }

    /// Wraps both domains. The calling thread has the interpreter's lock, or the interpreter does
    /// not run yet.
    pub(super) fn install(&self) {
        let stubs = match runtimes::records_objects() {
            true => [malloc_stub::count, calloc_stub::count, realloc_stub::trace, free_stub::count]
                .map(|stub: unsafe extern "C" fn()| stub as *mut ()),
            false => passing::functions(),
        };
        for (domain, original) in DOMAINS.into_iter().zip(&self.originals.0) {
            let mut present = self.allocator(domain);
            let [malloc, calloc, realloc, free] = stubs;
            if present.malloc as *mut () == polling as Malloc as *mut () {
                present.malloc = polled();
            }
            if present.malloc as *mut () == malloc || self.watch_frees_of_malloc(domain, present) {
                continue;
            }
            // SAFETY: no thread is in a function of the domain, see above.
            unsafe { (*original.get()).write(present) };
            let context = original.get().cast();
            // SAFETY: the stubs pass the arguments of these signatures on to the functions below.
            let mut wrapped = unsafe {
                Allocator {
                    context,
                    malloc: core::mem::transmute::<*mut (), unsafe extern "C" fn(_, _) -> _>(malloc),
                    calloc: core::mem::transmute::<*mut (), unsafe extern "C" fn(_, _, _) -> _>(calloc),
                    realloc: core::mem::transmute::<*mut (), unsafe extern "C" fn(_, _, _) -> _>(realloc),
                    free: core::mem::transmute::<*mut (), unsafe extern "C" fn(_, _)>(free),
                }
            };
            // SAFETY: the signature of PyMem_SetAllocator, which copies the struct.
            unsafe { (self.set_allocator)(domain, &raw mut wrapped) };
        }
        self.watch_ending();
        self.hooked.store(true, Ordering::Release);
    }
}

/// The interpreter's own function that frees blocks of `malloc`, a [`Free`].
static FREE_OF_MALLOC: AtomicPtr<()> = AtomicPtr::new(core::ptr::null_mut());

type Free = unsafe extern "C" fn(Pointer, Pointer);

impl Interpreter {
    /// Whether the blocks of a domain are those of `malloc`, which records them
    /// (`PYTHONMALLOC=malloc`). Then the end of code objects is noticed, and nothing is recorded.
    fn watch_frees_of_malloc(&self, domain: c_int, mut present: Allocator) -> bool {
        // SAFETY: the stub passes the arguments on as they come.
        let watch: Free = unsafe { core::mem::transmute(free_of_malloc_stub::watch as *mut ()) };
        if present.free as usize == watch as usize {
            return true;
        }
        let raw = self.allocator(RAW);
        if present.functions() != raw.functions() {
            return false;
        }
        FREE_OF_MALLOC.store(present.free as *mut (), Ordering::Release);
        present.free = watch;
        // SAFETY: the signature of PyMem_SetAllocator, which copies the struct.
        unsafe { (self.set_allocator)(domain, &raw mut present) };
        true
    }
}

fn polled() -> Malloc {
    // SAFETY: `poll` stores such a function before `polling` is called.
    unsafe { core::mem::transmute(POLLED.load(Ordering::Acquire)) }
}

/// Allocates an object while nothing is recorded. Where a wrapped domain calls it, the domain has
/// counted the block.
unsafe extern "C" fn polling(context: Pointer, size: usize) -> Pointer {
    if let Some(interpreter) = interpreter().filter(|interpreter| !interpreter.is_hooked())
        && !words().count_down(size as u64)
        && record::poll(size as u64)
    {
        // The calling thread has the interpreter's lock.
        interpreter.install();
    }
    // SAFETY: the arguments of the interpreter's call.
    unsafe { polled()(context, size) }
}

mod malloc_stub {
    crate::arch::domain_size_second!(core::mem::offset_of!(super::Allocator, malloc));
}
mod calloc_stub {
    crate::arch::domain_size_product!(core::mem::offset_of!(super::Allocator, calloc));
}
mod realloc_stub {
    crate::arch::replace_3!(super::realloc);
}
mod free_stub {
    crate::arch::domain_release_stub!(core::mem::offset_of!(super::Allocator, free));
}
mod free_of_malloc_stub {
    crate::arch::domain_watch_stub!(super::FREE_OF_MALLOC, super::note_free);
}

/// Functions that call the interpreter's own allocator and record nothing: the end of code objects
/// and of the interpreter is noticed.
mod passing {
    use super::{Pointer, note_free, original};

    pub(super) fn functions() -> [*mut (); 4] {
        [malloc as *mut (), calloc as *mut (), realloc as *mut (), free as *mut ()]
    }

    unsafe extern "C" fn malloc(context: Pointer, size: usize) -> Pointer {
        // SAFETY: the arguments of the interpreter's call.
        original(context, |own| unsafe { (own.malloc)(own.context, size) })
    }

    unsafe extern "C" fn calloc(context: Pointer, count: usize, size: usize) -> Pointer {
        // SAFETY: the arguments of the interpreter's call.
        original(context, |own| unsafe { (own.calloc)(own.context, count, size) })
    }

    unsafe extern "C" fn realloc(context: Pointer, old: Pointer, size: usize) -> Pointer {
        // SAFETY: the arguments of the interpreter's call.
        original(context, |own| unsafe { (own.realloc)(own.context, old, size) })
    }

    unsafe extern "C" fn free(context: Pointer, block: Pointer) {
        note_free(block);
        // SAFETY: the arguments of the interpreter's call.
        original(context, |own| unsafe { (own.free)(own.context, block) });
    }
}

/// Calls a function of the interpreter's own allocator. A mapping that it makes is an arena.
#[inline(always)]
fn original<T>(context: Pointer, call: impl FnOnce(&Allocator) -> T) -> T {
    // SAFETY: the context that `install` set, of an allocator that it had stored before.
    let original = unsafe { &*context.cast::<Allocator>() };
    let words = words();
    let before = words.in_domain.load(Ordering::Relaxed);
    words.in_domain.store(1, Ordering::Relaxed);
    let result = call(original);
    words.in_domain.store(before, Ordering::Relaxed);
    result
}

unsafe extern "C" fn realloc(context: Pointer, old: Pointer, size: usize, entry: &Entry) -> Pointer {
    // SAFETY: the arguments of the interpreter's call.
    let call = || original(context, |own| unsafe { (own.realloc)(own.context, old, size) });
    if !arenas::hold(old as u64) {
        // A larger block stays with `malloc`, which has recorded it, when it becomes small.
        let new = call();
        if arenas::hold(new as u64) {
            record::allocated_in_arena(new, size, entry);
        }
        return new;
    }
    let resizing = Resizing::start(old, entry.pc, Family::LINKED);
    let new = call();
    if new.is_null() {
        resizing.undo();
    } else if arenas::hold(new as u64) {
        record::resized(resizing, new, size, entry);
    } else {
        // The new block came from `malloc`, whose hook has recorded it.
        resizing.freed();
    }
    new
}

/// Whether [`note_free`] may have something to notice before this object is freed.
#[inline(always)]
pub(crate) fn may_need_note(block: Pointer) -> bool {
    // SAFETY: a word of `_PyRuntime`, which is never unloaded while its code runs, or a static.
    let ending = unsafe { &*counting::ENDING.load(Ordering::Acquire) };
    ending.load(Ordering::Relaxed) != 0 || CODES.may_hold(block as u64)
}

/// Before an object is freed.
pub(crate) extern "C" fn note_free(block: Pointer) {
    if let Some(interpreter) = interpreter() {
        interpreter.notice_ending();
        if CODES.ends(block as u64) {
            crate::runtimes::change_generation();
        }
    }
}
