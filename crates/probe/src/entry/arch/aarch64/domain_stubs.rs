//! The stubs of the domains of CPython that are wrapped.

/// Allocation in a domain of CPython: the first argument is the domain's context, `$size` computes
/// the size into x10, and `$function` is the offset of the interpreter's own function in the
/// context. Sizes that no arena serves reach `malloc`, which records them; the fast path counts the
/// bytes of others.
macro_rules! domain_allocate_stub {
    ($size:literal, $function:expr) => {
        #[unsafe(naked)]
        pub(crate) unsafe extern "C" fn count() {
            core::arch::naked_asm!(
                ".cfi_startproc",
                "hint #34",
                $size,
                "cmp x10, {most}",
                "b.ls {trace}",
                "ldr x16, [x0, {function}]",
                "ldr x0, [x0]",
                "br x16",
                ".cfi_endproc",
                most = const $crate::runtimes::python::counting::MOST_IN_ARENA,
                function = const $function,
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
                "mrs x17, tpidr_el0",
                "adrp x16, :gottprel:heapwise_thread",
                "ldr x16, [x16, :gottprel_lo12:heapwise_thread]",
                "add x17, x17, x16",
                "ldrb w9, [x17, {in_domain}]",
                "add w9, w9, #1",
                "strb w9, [x17, {in_domain}]",
                "ldr x16, [x0, {function}]",
                "ldr x0, [x0]",
                "blr x16",
                "mrs x17, tpidr_el0",
                "adrp x16, :gottprel:heapwise_thread",
                "ldr x16, [x16, :gottprel_lo12:heapwise_thread]",
                "add x17, x17, x16",
                "ldrb w9, [x17, {in_domain}]",
                "sub w9, w9, #1",
                "strb w9, [x17, {in_domain}]",
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
                function = const $function,
                in_domain = const core::mem::offset_of!($crate::threads::ThreadWords, in_domain),
                fast_path = sym $crate::record::ON_ALLOCATED_IN_ARENA,
                counted = const $crate::record::Counted::Done as u32,
                recorded = sym $crate::record::recorded,
            )
        }
    };
}
/// Size in the second argument.
macro_rules! domain_size_second {
    ($function:expr) => {
        $crate::arch::domain_allocate_stub!("mov x10, x1", $function);
    };
}
/// Size is the product of the second and the third argument; the interpreter refuses an overflow.
macro_rules! domain_size_product {
    ($function:expr) => {
        $crate::arch::domain_allocate_stub!("mul x10, x1, x2", $function);
    };
}

/// Free in a domain of CPython: the fast path looks the block up.
macro_rules! domain_release_stub {
    ($function:expr) => {
        pub(crate) use trace as count;

        #[unsafe(naked)]
        pub(crate) unsafe extern "C" fn trace() {
            core::arch::naked_asm!(
                ".cfi_startproc",
                "hint #34",
                "stp x29, x30, [sp, #-32]!",
                ".cfi_def_cfa_offset 32",
                ".cfi_offset x29, -32",
                ".cfi_offset x30, -24",
                "str x0, [sp, #16]",
                "mov x0, x1",
                "mov x1, x30",
                "adrp x16, {fast_path}",
                "ldr x16, [x16, #:lo12:{fast_path}]",
                "blr x16",
                "mov x1, x0",
                "ldr x0, [sp, #16]",
                "ldp x29, x30, [sp], #32",
                ".cfi_def_cfa_offset 0",
                ".cfi_restore x29",
                ".cfi_restore x30",
                "ldr x16, [x0, {function}]",
                "ldr x0, [x0]",
                "br x16",
                ".cfi_endproc",
                function = const $function,
                fast_path = sym $crate::record::ON_RELEASING_IN_ARENA,
            )
        }
    };
}
/// Free in a domain of CPython whose blocks are those of `malloc`: only the end of code objects and
/// of the interpreter is noticed. The function that `$real` names gets the arguments as they came.
macro_rules! domain_watch_stub {
    ($real:path, $note:path) => {
        #[unsafe(naked)]
        pub(crate) unsafe extern "C" fn watch() {
            core::arch::naked_asm!(
                ".cfi_startproc",
                "hint #34",
                "stp x29, x30, [sp, #-32]!",
                ".cfi_def_cfa_offset 32",
                ".cfi_offset x29, -32",
                ".cfi_offset x30, -24",
                "stp x0, x1, [sp, #16]",
                "mov x0, x1",
                "bl {note}",
                "ldp x0, x1, [sp, #16]",
                "ldp x29, x30, [sp], #32",
                ".cfi_def_cfa_offset 0",
                ".cfi_restore x29",
                ".cfi_restore x30",
                "adrp x16, {real}",
                "ldr x16, [x16, #:lo12:{real}]",
                "br x16",
                ".cfi_endproc",
                real = sym $real,
                note = sym $note,
            )
        }
    };
}

pub(crate) use {
    domain_allocate_stub, domain_release_stub, domain_size_product, domain_size_second, domain_watch_stub,
};
