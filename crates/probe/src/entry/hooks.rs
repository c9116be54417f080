//! The functions the probe puts itself in front of.
//!
//! Each hook is a module with up to four stubs: the exported function (a jump through its slot's
//! vector), `boot` (takes the place of the real function until it is found), `count` (off and
//! sampled: a countdown or a page filter, then a jump to the real function) and `trace` (records).
//! A switch of modes stores other vectors ([`HookMode`]).
#![allow(unsafe_code)]

pub(crate) mod entry_points;
mod fallback;
pub(crate) mod families;
mod mappings;
mod memory_calls;
mod nested_calls;
mod resolve;
mod sandbox;
mod wrappers;

use core::ffi::CStr;

pub(crate) use nested_calls::{is_nested_call, is_own_code};
pub(crate) use resolve::{allocator_kind, has_other_jemalloc, resolve, resolve_all};
pub(crate) use wrappers::usable_size;

use crate::atomics::{AtomicPtr, AtomicU8, Ordering};

/// Where a hook jumps to. Read by the stubs.
#[repr(C)]
pub(crate) struct Slot {
    /// Target of the exported function's jump.
    vector: AtomicPtr<()>,
    /// The function underneath.
    real: AtomicPtr<()>,
}

/// Offset of a hook's vector in [`SLOTS`].
pub(crate) const fn vector_offset(hook: Hook) -> usize {
    hook as usize * size_of::<Slot>()
}

/// Offset of a hook's real function in [`SLOTS`].
pub(crate) const fn real_offset(hook: Hook) -> usize {
    vector_offset(hook) + core::mem::offset_of!(Slot, real)
}

/// Condition under which a hook records.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Family {
    /// Always.
    C,
    /// Only where the allocator brings its own operators; libstdc++'s call `malloc` and `free`.
    Cxx,
    /// Always: the C++ runtime rounds the size before it calls `aligned_alloc`, which then does not
    /// count. Its other operators for aligned blocks call this one.
    CxxAligned,
    /// Not an allocation.
    System,
}

/// Compile-time description of a hook.
struct Description {
    symbol: &'static CStr,
    family: Family,
    count: unsafe extern "C" fn(),
    trace: unsafe extern "C" fn(),
    boot: unsafe extern "C" fn(),
    fallback: Fallback,
}

/// Replacement when no object defines the function.
#[derive(Clone, Copy)]
enum Fallback {
    /// Another hook's real function, with the same leading arguments.
    Hook(Hook),
    /// A function of the probe.
    Function(unsafe extern "C" fn()),
}

macro_rules! c_str {
    ($symbol:ident) => {
        match CStr::from_bytes_with_nul(concat!(stringify!($symbol), "\0").as_bytes()) {
            Ok(text) => text,
            Err(_) => c"",
        }
    };
}

macro_rules! count_or_trace {
    ($symbol:ident, replace) => {
        $symbol::trace
    };
    ($symbol:ident, precede) => {
        $symbol::trace
    };
    ($symbol:ident, $shape:ident) => {
        $symbol::count
    };
}

macro_rules! shape_of {
    (allocate $hook:ident $size:ident) => {
        arch::$size!($hook);
    };
    (release $hook:ident $form:ident) => {
        arch::$form!($hook);
    };
    (resize $hook:ident $body:ident) => {
        arch::resize_count_stub!($hook);
        arch::replace_saving_2!(super::wrappers::$body);
    };
    (replace $hook:ident $form:ident $body:ident) => {
        arch::$form!(super::$body);
    };
    (precede $hook:ident $body:ident) => {
        arch::jump_stub!(trace, $hook, super::$body);
    };
}

macro_rules! hooks {
    ($($hook:ident $symbol:ident $family:ident $fallback:expr, $shape:ident $($detail:ident)*;)*) => {
        /// The hooked functions.
        #[derive(Clone, Copy, PartialEq, Eq)]
        #[repr(usize)]
        pub(crate) enum Hook {
            $($hook,)*
        }

        $(
            #[allow(non_snake_case, reason = "C++ symbols")]
            mod $symbol {
                use crate::arch;
                arch::entry_stub!($symbol, $hook);
                shape_of!($shape $hook $($detail)*);
            }
        )*

        /// Every hook, in the order of [`Hook`].
        static DESCRIPTIONS: &[Description] = &[$(Description {
            symbol: c_str!($symbol),
            family: Family::$family,
            count: count_or_trace!($symbol, $shape),
            trace: $symbol::trace,
            boot: $symbol::boot,
            fallback: $fallback,
        },)*];

        const COUNT: usize = [$(Hook::$hook,)*].len();

        /// Jump table of the stubs. Usable from the first instruction on: the vectors are the
        /// `count` stubs (`trace` for shapes without one), and the first call of a real function
        /// resolves it.
        pub(crate) static SLOTS: [Slot; COUNT] = [$(Slot {
            vector: AtomicPtr::new(count_or_trace!($symbol, $shape) as *mut ()),
            real: AtomicPtr::new($symbol::boot as *mut ()),
        },)*];

        /// Names of the hooks, for controllers.
        static SLOT_NAMES: [entry_points::SlotName; COUNT] =
            [$(entry_points::SlotName(c_str!($symbol).as_ptr()),)*];

        /// Keeps the exported functions when the probe is linked.
        #[used]
        static EXPORTED: [unsafe extern "C" fn(); COUNT] = [$($symbol::$symbol,)*];
    };
}

use Fallback::{Function, Hook as Like};
use mappings::*;
use memory_calls::*;
pub(crate) use sandbox::obey_filter;
use sandbox::*;
use wrappers::*;

hooks! {
    Malloc malloc C Function(fallback::malloc), allocate size_first;
    Calloc calloc C Function(fallback::calloc), allocate size_product;
    Realloc realloc C Function(fallback::realloc), resize realloc;
    Reallocarray reallocarray C Function(fallback::reallocarray), replace replace_3 reallocarray;
    Free free C Function(fallback::free), release release_alone;
    Cfree cfree C Like(Hook::Free), release release_alone;
    FreeSized free_sized C Like(Hook::Free), release release_with;
    FreeAlignedSized free_aligned_sized C Like(Hook::Free), release release_with;
    PosixMemalign posix_memalign C Function(fallback::posix_memalign), replace replace_3 posix_memalign;
    AlignedAlloc aligned_alloc C Function(fallback::memalign), replace replace_2 aligned_alloc;
    Memalign memalign C Function(fallback::memalign), replace replace_2 memalign;
    Valloc valloc C Function(fallback::valloc), replace replace_1 valloc;
    Pvalloc pvalloc C Function(fallback::valloc), replace replace_1 pvalloc;
    MallocUsableSize malloc_usable_size C Function(fallback::malloc_usable_size), replace replace_1 malloc_usable_size;

    New _Znwm Cxx Like(Hook::Malloc), allocate size_first;
    NewArray _Znam Cxx Like(Hook::Malloc), allocate size_first;
    NewNothrow _ZnwmRKSt9nothrow_t Cxx Like(Hook::Malloc), allocate size_first;
    NewArrayNothrow _ZnamRKSt9nothrow_t Cxx Like(Hook::Malloc), allocate size_first;
    NewAligned _ZnwmSt11align_val_t CxxAligned Function(fallback::new_aligned), allocate size_first;
    NewArrayAligned _ZnamSt11align_val_t Cxx Function(fallback::new_aligned), allocate size_first;
    NewAlignedNothrow _ZnwmSt11align_val_tRKSt9nothrow_t Cxx Function(fallback::new_aligned), allocate size_first;
    NewArrayAlignedNothrow _ZnamSt11align_val_tRKSt9nothrow_t Cxx Function(fallback::new_aligned), allocate size_first;
    Delete _ZdlPv Cxx Like(Hook::Free), release release_alone;
    DeleteArray _ZdaPv Cxx Like(Hook::Free), release release_alone;
    DeleteNothrow _ZdlPvRKSt9nothrow_t Cxx Like(Hook::Free), release release_with;
    DeleteArrayNothrow _ZdaPvRKSt9nothrow_t Cxx Like(Hook::Free), release release_with;
    DeleteSized _ZdlPvm Cxx Like(Hook::Free), release release_with;
    DeleteArraySized _ZdaPvm Cxx Like(Hook::Free), release release_with;
    DeleteAligned _ZdlPvSt11align_val_t Cxx Like(Hook::Free), release release_with;
    DeleteArrayAligned _ZdaPvSt11align_val_t Cxx Like(Hook::Free), release release_with;
    DeleteAlignedNothrow _ZdlPvSt11align_val_tRKSt9nothrow_t Cxx Like(Hook::Free), release release_with;
    DeleteArrayAlignedNothrow _ZdaPvSt11align_val_tRKSt9nothrow_t Cxx Like(Hook::Free), release release_with;
    DeleteSizedAligned _ZdlPvmSt11align_val_t Cxx Like(Hook::Free), release release_with;
    DeleteArraySizedAligned _ZdaPvmSt11align_val_t Cxx Like(Hook::Free), release release_with;

    Mallocx mallocx C Function(fallback::mallocx), replace replace_2 mallocx;
    Rallocx rallocx C Function(fallback::rallocx), replace replace_3 rallocx;
    Xallocx xallocx C Function(fallback::xallocx), replace replace_4 xallocx;
    Dallocx dallocx C Like(Hook::Free), release release_with;
    Sdallocx sdallocx C Like(Hook::Free), release release_with;

    Dlclose dlclose System Function(fallback::dlclose), replace replace_1 dlclose;
    Exit exit System Function(fallback::exit), replace replace_1 exit;
    PthreadCreate pthread_create System Function(fallback::no_thread), precede before_thread;
    ThrdCreate thrd_create System Function(fallback::no_thread), precede before_thread;
    Setrlimit setrlimit System Function(fallback::refuse), replace replace_2 setrlimit;
    Setrlimit64 setrlimit64 System Function(fallback::refuse), replace replace_2 setrlimit64;
    Prlimit prlimit System Function(fallback::refuse), replace replace_4 prlimit;
    Prlimit64 prlimit64 System Function(fallback::refuse), replace replace_4 prlimit64;
    Mlockall mlockall System Function(fallback::refuse), replace replace_1 mlockall;
    Syscall syscall System Function(fallback::refuse), precede before_system_call;
    Prctl prctl System Function(fallback::refuse), replace replace_5 prctl;

    Mmap mmap System Function(fallback::refuse), replace replace_6 mmap;
    Mmap64 mmap64 System Function(fallback::refuse), replace replace_6 mmap64;
    Munmap munmap System Function(fallback::refuse), replace replace_2 munmap;
    Mremap mremap System Function(fallback::refuse), replace replace_5 mremap;
    Sbrk sbrk System Function(fallback::refuse), replace replace_1 sbrk;
    Brk brk System Function(fallback::refuse), replace replace_1 brk;
    Shmat shmat System Function(fallback::refuse), replace replace_3 shmat;
    Shmdt shmdt System Function(fallback::refuse), replace replace_1 shmdt;
    Madvise madvise System Function(fallback::refuse), replace replace_3 madvise;
    MemfdCreate memfd_create System Function(fallback::refuse), replace replace_2 memfd_create;
}

/// Which stubs the vectors point to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum HookMode {
    /// Allocations count down, frees are looked up in the page filter.
    Counting,
    /// Allocations count down, every free is looked up: blocks of exact mode are still alive.
    CountingAllocations,
    /// Everything is recorded.
    Tracing,
}

/// The [`HookMode`] in force, for hooks that are not vectors.
pub(crate) static MODE: AtomicU8 = AtomicU8::new(HookMode::Counting as u8);

impl HookMode {
    /// Whether allocations count down.
    #[inline(always)]
    pub(crate) fn counts_allocations() -> bool {
        MODE.load(Ordering::Relaxed) != HookMode::Tracing as u8
    }

    /// Whether frees are looked up in the page filter.
    #[inline(always)]
    pub(crate) fn filters_frees() -> bool {
        MODE.load(Ordering::Relaxed) == HookMode::Counting as u8
    }
}

impl Slot {
    fn real(&self) -> *mut () {
        self.real.load(Ordering::Relaxed)
    }
}

fn slot(hook: Hook) -> &'static Slot {
    &SLOTS[hook as usize]
}

/// Switches every hook of the whole process.
pub(crate) fn set_hook_mode(vectors: HookMode) {
    MODE.store(vectors as u8, Ordering::Relaxed);
    for (index, description) in DESCRIPTIONS.iter().enumerate() {
        let Some(slot) = SLOTS.get(index) else { continue };
        let stub = match vectors {
            _ if resolve::passes(index) => slot.real(),
            HookMode::Counting => description.count as *mut (),
            HookMode::CountingAllocations if resolve::allocates(index) => description.count as *mut (),
            HookMode::CountingAllocations | HookMode::Tracing => description.trace as *mut (),
        };
        slot.vector.store(stub, Ordering::Relaxed);
    }
    entry_points::set_mode(vectors);
}
