//! aarch64.
#![allow(unsafe_code)]

mod domain_stubs;
mod island_stub;

use core::arch::{asm, global_asm};

pub(crate) use domain_stubs::{
    domain_allocate_stub, domain_release_stub, domain_size_product, domain_size_second, domain_watch_stub,
};
pub(crate) use island_stub::island_stub;

use crate::threads::ThreadWords;
use crate::unwind::Entry;

/// A raw system call; a negative result is a negated errno. libc's `errno` stays untouched.
///
/// # Safety
/// The kernel's contract of call `number`.
#[inline(always)]
pub(crate) unsafe fn syscall(number: i64, arguments: [usize; 6]) -> isize {
    let [a, b, c, d, e, f] = arguments;
    let result;
    // SAFETY: the caller's promise; the kernel preserves everything but x0.
    unsafe {
        asm!(
            "svc 0",
            in("x8") number,
            inlateout("x0") a => result,
            in("x1") b, in("x2") c, in("x3") d, in("x4") e, in("x5") f,
            options(nostack)
        );
    }
    result
}

/// Begins to bring the line of a word into the cache, to be written to; nothing waits for it.
#[inline(always)]
pub(crate) fn prefetch_write<T>(word: *const T) {
    if cfg!(miri) {
        return;
    }
    // SAFETY: a hint, which reads and writes nothing.
    unsafe { asm!("prfm pstl1keep, [{0}]", in(reg) word, options(nostack, preserves_flags, readonly)) };
}

// Initial-exec: dynamic thread-local storage would call the allocator on a thread's first touch.
// Aligned to 16 bytes: glibc refuses more in libraries that are loaded later.
global_asm!(
    ".section .tbss,\"awT\",@nobits",
    ".p2align 4",
    ".type heapwise_thread,@object",
    ".size heapwise_thread,128",
    ".hidden heapwise_thread",
    ".globl heapwise_thread",
    "heapwise_thread: .zero 128",
    ".text",
);

/// The calling thread's words.
#[inline(always)]
pub(crate) fn words() -> &'static ThreadWords {
    let address: *const ThreadWords;
    // SAFETY: reads the thread pointer and a link-time offset; the block lives as long as the
    // thread.
    unsafe {
        asm!(
            "mrs {0}, tpidr_el0",
            "adrp {1}, :gottprel:heapwise_thread",
            "ldr {1}, [{1}, :gottprel_lo12:heapwise_thread]",
            "add {0}, {0}, {1}",
            out(reg) address,
            out(reg) _,
            options(nostack, readonly, pure)
        );
        &*address
    }
}

/// A jump to what `$find` returns, with the arguments as they came. It gets the hook's number and
/// the arguments: eight are in registers, further ones stay where they are.
macro_rules! jump_stub {
    ($name:ident, $hook:ident, $find:path) => {
        #[unsafe(naked)]
        pub(crate) unsafe extern "C" fn $name() {
            core::arch::naked_asm!(
                ".cfi_startproc",
                "hint #34",
                "stp x29, x30, [sp, #-80]!",
                ".cfi_def_cfa_offset 80",
                ".cfi_offset x29, -80",
                ".cfi_offset x30, -72",
                "stp x0, x1, [sp, #16]",
                "stp x2, x3, [sp, #32]",
                "stp x4, x5, [sp, #48]",
                "stp x6, x7, [sp, #64]",
                "mov x0, {hook}",
                "add x1, sp, #16",
                "bl {find}",
                "mov x16, x0",
                "ldp x0, x1, [sp, #16]",
                "ldp x2, x3, [sp, #32]",
                "ldp x4, x5, [sp, #48]",
                "ldp x6, x7, [sp, #64]",
                "ldp x29, x30, [sp], #80",
                ".cfi_def_cfa_offset 0",
                ".cfi_restore x29",
                ".cfi_restore x30",
                "br x16",
                ".cfi_endproc",
                hook = const $crate::hooks::Hook::$hook as usize,
                find = sym $find,
            )
        }
    };
}

/// The function that the program calls: one indirect jump.
macro_rules! entry_stub {
    ($symbol:ident, $hook:ident) => {
        #[unsafe(naked)]
        #[cfg_attr(feature = "preload", unsafe(no_mangle))]
        pub(crate) unsafe extern "C" fn $symbol() {
            core::arch::naked_asm!(
                ".cfi_startproc",
                "hint #34", // bti c
                "adrp x16, {slots} + {slot}",
                "ldr x16, [x16, #:lo12:{slots} + {slot}]",
                "br x16",
                ".cfi_endproc",
                slots = sym $crate::hooks::SLOTS,
                slot = const $crate::hooks::vector_offset($crate::hooks::Hook::$hook),
            )
        }

        // Placeholder for the real function until that is resolved.
        $crate::arch::jump_stub!(boot, $hook, $crate::hooks::resolve);
    };
}

/// Shape `allocate`: the real call happens here and not in Rust, because `operator new` may throw
/// and an exception must not unwind through a Rust frame. `$size` computes the size into x10. The
/// fast path gets the block, its size and the caller's registers; events that it declines go to
/// `recorded`.
///
/// A signal between the load of the countdown and its store costs the bytes that its handler
/// counted down: three instructions wide, against exclusive access in every allocation.
macro_rules! allocate_stub {
    ($hook:ident, $size:literal) => {
        #[unsafe(naked)]
        pub(crate) unsafe extern "C" fn count() {
            core::arch::naked_asm!(
                ".cfi_startproc",
                "hint #34",
                $size,
                "mrs x17, tpidr_el0",
                "adrp x16, :gottprel:heapwise_thread",
                "ldr x16, [x16, :gottprel_lo12:heapwise_thread]",
                "ldr x9, [x17, x16]",
                "subs x9, x9, x10",
                "b.lo {trace}",
                "str x9, [x17, x16]",
                "adrp x16, {slots} + {real}",
                "ldr x16, [x16, #:lo12:{slots} + {real}]",
                "br x16",
                ".cfi_endproc",
                slots = sym $crate::hooks::SLOTS,
                real = const $crate::hooks::real_offset($crate::hooks::Hook::$hook),
                trace = sym trace,
            )
        }

        #[unsafe(naked)]
        pub(crate) unsafe extern "C" fn trace() {
            core::arch::naked_asm!(
                ".cfi_startproc",
                "hint #34",
                $size,
                "stp x29, x30, [sp, #-32]!",
                ".cfi_def_cfa_offset 32",
                ".cfi_offset x29, -32",
                ".cfi_offset x30, -24",
                "str x10, [sp, #16]",
                "adrp x16, {slots} + {real}",
                "ldr x16, [x16, #:lo12:{slots} + {real}]",
                "blr x16",
                "ldr x1, [sp, #16]",
                "str x0, [sp, #24]",
                "ldp x4, x2, [sp]",
                "add x3, sp, #32",
                "adrp x16, {fast_path}",
                "ldr x16, [x16, #:lo12:{fast_path}]",
                "blr x16",
                "cmp w0, #{counted}",
                "b.ne 2f",
                "ldr x0, [sp, #24]",
                "ldp x29, x30, [sp], #32",
                ".cfi_def_cfa_offset 0",
                ".cfi_restore x29",
                ".cfi_restore x30",
                "ret",
                "2:",
                ".cfi_def_cfa_offset 32",
                ".cfi_offset x29, -32",
                ".cfi_offset x30, -24",
                "mov w5, w0",
                "ldp x1, x0, [sp, #16]",
                "ldp x4, x2, [sp]",
                "add x3, sp, #32",
                "bl {recorded}",
                "ldp x29, x30, [sp], #32",
                ".cfi_def_cfa_offset 0",
                ".cfi_restore x29",
                ".cfi_restore x30",
                "ret",
                ".cfi_endproc",
                slots = sym $crate::hooks::SLOTS,
                real = const $crate::hooks::real_offset($crate::hooks::Hook::$hook),
                fast_path = sym $crate::record::ON_ALLOCATED,
                counted = const $crate::record::Counted::Done as u32,
                recorded = sym $crate::record::recorded,
            )
        }
    };
}
/// Size in the first argument.
macro_rules! size_first {
    ($hook:ident) => {
        $crate::arch::allocate_stub!($hook, "mov x10, x0");
    };
}
/// Size is the product of the first two arguments; an overflow fails in the real function anyway.
macro_rules! size_product {
    ($hook:ident) => {
        $crate::arch::allocate_stub!($hook, "mul x10, x0, x1");
    };
}

/// Shape `release`: the first argument is the block, `$keep` and `$restore` take care of further
/// ones. The fast path gets the block and the return address, and returns what to free.
macro_rules! release_stub {
    ($hook:ident, $keep:literal, $restore:literal) => {
        #[unsafe(naked)]
        pub(crate) unsafe extern "C" fn count() {
            core::arch::naked_asm!(
                ".cfi_startproc",
                "hint #34",
                "ubfx x9, x0, #12, {bits}",
                "adrp x16, {filter}",
                "add x16, x16, #:lo12:{filter}",
                "ldrb w9, [x16, x9]",
                "cbnz w9, 2f",
                "3:",
                "adrp x16, {slots} + {real}",
                "ldr x16, [x16, #:lo12:{slots} + {real}]",
                "br x16",
                "2:",
                "add x16, x16, {pages}",
                "add x9, x0, x0, lsr {fold}",
                "ubfx x9, x9, #4, {granule_bits}",
                "ldrb w9, [x16, x9]",
                "cbz w9, 3b",
                "b {trace}",
                ".cfi_endproc",
                pages = const $crate::live::filter::PAGES,
                granule_bits = const $crate::live::filter::GRANULES.ilog2(),
                fold = const $crate::live::filter::FOLD,
                bits = const $crate::live::filter::PAGES.ilog2(),
                filter = sym $crate::live::filter::FILTER,
                slots = sym $crate::hooks::SLOTS,
                real = const $crate::hooks::real_offset($crate::hooks::Hook::$hook),
                trace = sym trace,
            )
        }

        #[unsafe(naked)]
        pub(crate) unsafe extern "C" fn trace() {
            core::arch::naked_asm!(
                ".cfi_startproc",
                "hint #34",
                "stp x29, x30, [sp, #-32]!",
                ".cfi_def_cfa_offset 32",
                ".cfi_offset x29, -32",
                ".cfi_offset x30, -24",
                $keep,
                "mov x1, x30",
                "adrp x16, {fast_path}",
                "ldr x16, [x16, #:lo12:{fast_path}]",
                "blr x16",
                $restore,
                "ldp x29, x30, [sp], #32",
                ".cfi_def_cfa_offset 0",
                ".cfi_restore x29",
                ".cfi_restore x30",
                "adrp x16, {slots} + {real}",
                "ldr x16, [x16, #:lo12:{slots} + {real}]",
                "br x16",
                ".cfi_endproc",
                slots = sym $crate::hooks::SLOTS,
                real = const $crate::hooks::real_offset($crate::hooks::Hook::$hook),
                fast_path = sym $crate::record::ON_RELEASING,
            )
        }
    };
}
/// With one or two further arguments.
macro_rules! release_with {
    ($hook:ident) => {
        $crate::arch::release_stub!($hook, "stp x1, x2, [sp, #16]", "ldp x1, x2, [sp, #16]");
    };
}

/// Shape `replace`: a Rust function with the hook's arguments and, as the next one, the caller's
/// state. `$argument` is the register of that one.
macro_rules! replace_stub {
    ($body:path, $argument:literal) => {
        #[unsafe(naked)]
        pub(crate) unsafe extern "C" fn trace() {
            core::arch::naked_asm!(
                ".cfi_startproc",
                "hint #34",
                "mov x9, sp",
                "stp x29, x30, [sp, #-48]!",
                ".cfi_def_cfa_offset 48",
                ".cfi_offset x29, -48",
                ".cfi_offset x30, -40",
                "stp x30, x9, [sp, #16]",
                "str x29, [sp, #32]",
                concat!("add ", $argument, ", sp, #16"),
                "bl {body}",
                "ldp x29, x30, [sp], #48",
                ".cfi_def_cfa_offset 0",
                ".cfi_restore x29",
                ".cfi_restore x30",
                "ret",
                ".cfi_endproc",
                body = sym $body,
            )
        }
    };
}
macro_rules! replace_1 {
    ($body:path) => {
        $crate::arch::replace_stub!($body, "x1");
    };
}
macro_rules! replace_2 {
    ($body:path) => {
        $crate::arch::replace_stub!($body, "x2");
    };
}
/// With two arguments, for functions that language runtimes allocate by. The caller's registers are
/// not saved.
macro_rules! replace_saving_2 {
    ($body:path) => {
        $crate::arch::replace_2!($body);
    };
}

/// Where the stub that made `entry` has saved the registers that a function keeps for its caller:
/// nowhere.
pub(crate) fn entry_saves(_: &Entry) -> Option<[u64; 11]> {
    None
}

macro_rules! replace_3 {
    ($body:path) => {
        $crate::arch::replace_stub!($body, "x3");
    };
}
macro_rules! replace_4 {
    ($body:path) => {
        $crate::arch::replace_stub!($body, "x4");
    };
}

macro_rules! replace_5 {
    ($body:path) => {
        $crate::arch::replace_stub!($body, "x5");
    };
}

macro_rules! replace_6 {
    ($body:path) => {
        $crate::arch::replace_stub!($body, "x6");
    };
}

macro_rules! replace_7 {
    ($body:path) => {
        $crate::arch::replace_stub!($body, "x7");
    };
}

/// The quick way through `realloc`: the old block is on no page with a sample, and the countdown
/// holds.
macro_rules! resize_count_stub {
    ($hook:ident) => {
        #[unsafe(naked)]
        pub(crate) unsafe extern "C" fn count() {
            core::arch::naked_asm!(
                ".cfi_startproc",
                "hint #34",
                "ubfx x9, x0, #12, {bits}",
                "adrp x16, {filter}",
                "add x16, x16, #:lo12:{filter}",
                "ldrb w9, [x16, x9]",
                "cbnz w9, 2f",
                "3:",
                "mrs x17, tpidr_el0",
                "adrp x16, :gottprel:heapwise_thread",
                "ldr x16, [x16, :gottprel_lo12:heapwise_thread]",
                "ldr x9, [x17, x16]",
                "subs x9, x9, x1",
                "b.lo {trace}",
                "str x9, [x17, x16]",
                "adrp x16, {slots} + {real}",
                "ldr x16, [x16, #:lo12:{slots} + {real}]",
                "br x16",
                "2:",
                "add x16, x16, {pages}",
                "add x9, x0, x0, lsr {fold}",
                "ubfx x9, x9, #4, {granule_bits}",
                "ldrb w9, [x16, x9]",
                "cbz w9, 3b",
                "b {trace}",
                ".cfi_endproc",
                pages = const $crate::live::filter::PAGES,
                granule_bits = const $crate::live::filter::GRANULES.ilog2(),
                fold = const $crate::live::filter::FOLD,
                bits = const $crate::live::filter::PAGES.ilog2(),
                filter = sym $crate::live::filter::FILTER,
                slots = sym $crate::hooks::SLOTS,
                real = const $crate::hooks::real_offset($crate::hooks::Hook::$hook),
                trace = sym trace,
            )
        }
    };
}

pub(crate) use {
    allocate_stub, entry_stub, jump_stub, release_stub, release_with, replace_1, replace_2, replace_3,
    replace_4, replace_5, replace_6, replace_7, replace_saving_2, replace_stub, resize_count_stub,
    size_first, size_product,
};
