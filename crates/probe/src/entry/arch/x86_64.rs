//! x86-64.
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
    // SAFETY: the caller's promise; the kernel preserves everything but rax, rcx and r11.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") number => result,
            in("rdi") a, in("rsi") b, in("rdx") c, in("r10") d, in("r8") e, in("r9") f,
            lateout("rcx") _, lateout("r11") _,
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
    unsafe { asm!("prefetchw [{0}]", in(reg) word, options(nostack, preserves_flags, readonly)) };
}

// Initial-exec: dynamic thread-local storage would call the allocator on a thread's first touch.
global_asm!(
    ".section .tbss,\"awT\",@nobits",
    ".p2align 6",
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
            "mov {0}, qword ptr fs:[0]",
            "add {0}, qword ptr [rip + heapwise_thread@GOTTPOFF]",
            out(reg) address,
            options(nostack, readonly, pure)
        );
        &*address
    }
}

/// A jump to what `$find` returns, with the arguments as they came. It gets the hook's number and
/// the arguments: six are in registers, further ones stay where they are.
macro_rules! jump_stub {
    ($name:ident, $hook:ident, $find:path) => {
        #[unsafe(naked)]
        pub(crate) unsafe extern "C" fn $name() {
            core::arch::naked_asm!(
                ".cfi_startproc",
                "endbr64",
                "push r9",
                ".cfi_adjust_cfa_offset 8",
                "push r8",
                ".cfi_adjust_cfa_offset 8",
                "push rcx",
                ".cfi_adjust_cfa_offset 8",
                "push rdx",
                ".cfi_adjust_cfa_offset 8",
                "push rsi",
                ".cfi_adjust_cfa_offset 8",
                "push rdi",
                ".cfi_adjust_cfa_offset 8",
                "mov rsi, rsp",
                "sub rsp, 8",
                ".cfi_adjust_cfa_offset 8",
                "mov edi, {hook}",
                "call {find}",
                "add rsp, 8",
                ".cfi_adjust_cfa_offset -8",
                "pop rdi",
                ".cfi_adjust_cfa_offset -8",
                "pop rsi",
                ".cfi_adjust_cfa_offset -8",
                "pop rdx",
                ".cfi_adjust_cfa_offset -8",
                "pop rcx",
                ".cfi_adjust_cfa_offset -8",
                "pop r8",
                ".cfi_adjust_cfa_offset -8",
                "pop r9",
                ".cfi_adjust_cfa_offset -8",
                "jmp rax",
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
                "endbr64",
                "jmp qword ptr [rip + {slots} + {slot}]",
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
/// and an exception must not unwind through a Rust frame. `$size` computes the size into r10. The
/// fast path gets the block, its size and the caller's registers; events that it declines go to
/// `recorded`.
macro_rules! allocate_stub {
    ($hook:ident, $size:literal) => {
        #[unsafe(naked)]
        pub(crate) unsafe extern "C" fn count() {
            core::arch::naked_asm!(
                ".cfi_startproc",
                "endbr64",
                $size,
                "mov rax, qword ptr [rip + heapwise_thread@GOTTPOFF]",
                "sub qword ptr fs:[rax], r10",
                "jb 2f",
                "jmp qword ptr [rip + {slots} + {real}]",
                "2:",
                "add qword ptr fs:[rax], r10",
                "jmp {trace}",
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
                "endbr64",
                $size,
                "sub rsp, 24",
                ".cfi_def_cfa_offset 32",
                "mov qword ptr [rsp + 8], r10",
                "call qword ptr [rip + {slots} + {real}]",
                "mov qword ptr [rsp], rax",
                "mov rdi, rax",
                "mov rsi, qword ptr [rsp + 8]",
                "mov rdx, qword ptr [rsp + 24]",
                "lea rcx, [rsp + 32]",
                "mov r8, rbp",
                "call qword ptr [rip + {fast_path}]",
                "cmp eax, {counted}",
                "jne 2f",
                "mov rax, qword ptr [rsp]",
                "add rsp, 24",
                ".cfi_def_cfa_offset 8",
                "ret",
                "2:",
                ".cfi_def_cfa_offset 32",
                "mov rdi, qword ptr [rsp]",
                "mov rsi, qword ptr [rsp + 8]",
                "mov rdx, qword ptr [rsp + 24]",
                "lea rcx, [rsp + 32]",
                "mov r8, rbp",
                "mov r9d, eax",
                "call {recorded}",
                "add rsp, 24",
                ".cfi_def_cfa_offset 8",
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
        $crate::arch::allocate_stub!($hook, "mov r10, rdi");
    };
}
/// Size is the product of the first two arguments; an overflow fails in the real function anyway.
macro_rules! size_product {
    ($hook:ident) => {
        $crate::arch::allocate_stub!($hook, "mov r10, rdi\n imul r10, rsi");
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
                "endbr64",
                "mov rax, rdi",
                "shr rax, 12",
                "and eax, {pages} - 1",
                "lea rcx, [rip + {filter}]",
                "cmp byte ptr [rcx + rax], 0",
                "jne 2f",
                "3:",
                "jmp qword ptr [rip + {slots} + {real}]",
                "2:",
                "mov rax, rdi",
                "shr rax, {fold}",
                "add rax, rdi",
                "shr rax, 4",
                "and eax, {granules} - 1",
                "cmp byte ptr [rcx + rax + {pages}], 0",
                "je 3b",
                "jmp {trace}",
                ".cfi_endproc",
                pages = const $crate::live::filter::PAGES,
                granules = const $crate::live::filter::GRANULES,
                fold = const $crate::live::filter::FOLD,
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
                "endbr64",
                "sub rsp, 24",
                ".cfi_def_cfa_offset 32",
                $keep,
                "mov rsi, qword ptr [rsp + 24]",
                "call qword ptr [rip + {fast_path}]",
                $restore,
                "add rsp, 24",
                ".cfi_def_cfa_offset 8",
                "mov rdi, rax",
                "jmp qword ptr [rip + {slots} + {real}]",
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
        $crate::arch::release_stub!(
            $hook,
            "mov qword ptr [rsp], rsi\n mov qword ptr [rsp + 8], rdx",
            "mov rsi, qword ptr [rsp]\n mov rdx, qword ptr [rsp + 8]"
        );
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
                "endbr64",
                "sub rsp, 24",
                ".cfi_def_cfa_offset 32",
                "mov rax, qword ptr [rsp + 24]",
                "lea r10, [rsp + 32]",
                "mov qword ptr [rsp], rax",
                "mov qword ptr [rsp + 8], r10",
                "mov qword ptr [rsp + 16], rbp",
                concat!("mov ", $argument, ", rsp"),
                "call {body}",
                "add rsp, 24",
                ".cfi_def_cfa_offset 8",
                "ret",
                ".cfi_endproc",
                body = sym $body,
            )
        }
    };
}
/// Shape `replace` with two arguments, for functions that language runtimes allocate by: the stub's
/// frame has the caller's registers, see [`entry_saves`].
macro_rules! replace_saving_2 {
    ($body:path) => {
        #[unsafe(naked)]
        pub(crate) unsafe extern "C" fn trace() {
            core::arch::naked_asm!(
                ".cfi_startproc",
                "endbr64",
                "sub rsp, 72",
                ".cfi_def_cfa_offset 80",
                "mov rax, qword ptr [rsp + 72]",
                "lea r10, [rsp + 80]",
                "mov qword ptr [rsp], rax",
                "mov qword ptr [rsp + 8], r10",
                "mov qword ptr [rsp + 16], rbp",
                "mov qword ptr [rsp + 24], rbx",
                "mov qword ptr [rsp + 32], r12",
                "mov qword ptr [rsp + 40], r13",
                "mov qword ptr [rsp + 48], r14",
                "mov qword ptr [rsp + 56], r15",
                "mov rdx, rsp",
                "call {body}",
                "add rsp, 72",
                ".cfi_def_cfa_offset 8",
                "ret",
                ".cfi_endproc",
                body = sym $body,
            )
        }
    };
}

/// Where the stub that made `entry` has saved the registers that a function keeps for its caller,
/// in the order of the unwinder. No other stub has its entry at that distance from the caller's
/// stack pointer.
pub(crate) fn entry_saves(entry: &Entry) -> Option<[u64; 6]> {
    let at = (&raw const *entry) as u64;
    (at.wrapping_add(80) == entry.sp).then(|| [24, 16, 32, 40, 48, 56].map(|offset| at + offset))
}

macro_rules! replace_1 {
    ($body:path) => {
        $crate::arch::replace_stub!($body, "rsi");
    };
}
macro_rules! replace_2 {
    ($body:path) => {
        $crate::arch::replace_stub!($body, "rdx");
    };
}
macro_rules! replace_3 {
    ($body:path) => {
        $crate::arch::replace_stub!($body, "rcx");
    };
}
macro_rules! replace_4 {
    ($body:path) => {
        $crate::arch::replace_stub!($body, "r8");
    };
}

macro_rules! replace_5 {
    ($body:path) => {
        $crate::arch::replace_stub!($body, "r9");
    };
}

/// The same where the registers have no room for that argument: it goes to `rsp + $slot`, behind
/// what `$copy` puts there. The caller's state is above both.
macro_rules! replace_stack_stub {
    ($body:path, $slot:literal $(, $copy:literal)*) => {
        #[unsafe(naked)]
        pub(crate) unsafe extern "C" fn trace() {
            core::arch::naked_asm!(
                ".cfi_startproc",
                "endbr64",
                "sub rsp, 40",
                ".cfi_def_cfa_offset 48",
                $($copy,)*
                "mov rax, qword ptr [rsp + 40]",
                "lea r10, [rsp + 48]",
                "mov qword ptr [rsp + 16], rax",
                "mov qword ptr [rsp + 24], r10",
                "mov qword ptr [rsp + 32], rbp",
                "lea rax, [rsp + 16]",
                concat!("mov qword ptr [rsp + ", $slot, "], rax"),
                "call {body}",
                "add rsp, 40",
                ".cfi_def_cfa_offset 8",
                "ret",
                ".cfi_endproc",
                body = sym $body,
            )
        }
    };
}

macro_rules! replace_6 {
    ($body:path) => {
        $crate::arch::replace_stack_stub!($body, 0);
    };
}

/// With seven arguments, as `syscall` has them: the last is on the caller's stack.
macro_rules! replace_7 {
    ($body:path) => {
        $crate::arch::replace_stack_stub!(
            $body,
            8,
            "mov rax, qword ptr [rsp + 48]",
            "mov qword ptr [rsp], rax"
        );
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
                "endbr64",
                "mov rax, rdi",
                "shr rax, 12",
                "and eax, {pages} - 1",
                "lea rcx, [rip + {filter}]",
                "cmp byte ptr [rcx + rax], 0",
                "jne 4f",
                "3:",
                "mov rax, qword ptr [rip + heapwise_thread@GOTTPOFF]",
                "sub qword ptr fs:[rax], rsi",
                "jb 2f",
                "jmp qword ptr [rip + {slots} + {real}]",
                "2:",
                "add qword ptr fs:[rax], rsi",
                "jmp {trace}",
                "4:",
                "mov rax, rdi",
                "shr rax, {fold}",
                "add rax, rdi",
                "shr rax, 4",
                "and eax, {granules} - 1",
                "cmp byte ptr [rcx + rax + {pages}], 0",
                "je 3b",
                "jmp {trace}",
                ".cfi_endproc",
                pages = const $crate::live::filter::PAGES,
                granules = const $crate::live::filter::GRANULES,
                fold = const $crate::live::filter::FOLD,
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
    replace_4, replace_5, replace_6, replace_7, replace_saving_2, replace_stack_stub, replace_stub,
    resize_count_stub, size_first, size_product,
};
