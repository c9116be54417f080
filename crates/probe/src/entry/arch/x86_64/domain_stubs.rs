//! The stubs of the domains of CPython that are wrapped.

/// Allocation in a domain of CPython: the first argument is the domain's context, `$size` computes
/// the size into r10, and `$function` is the offset of the interpreter's own function in the
/// context. Sizes that no arena serves reach `malloc`, which records them. While samples are
/// counted down, other sizes are counted here.
macro_rules! domain_allocate_stub {
    ($size:literal, $function:expr) => {
        #[unsafe(naked)]
        pub(crate) unsafe extern "C" fn count() {
            core::arch::naked_asm!(
                ".cfi_startproc",
                "endbr64",
                $size,
                "cmp r10, {most}",
                "ja 3f",
                "cmp byte ptr [rip + {mode}], {tracing}",
                "je 2f",
                "cmp byte ptr [rip + {service}], {arenas}",
                "jne 2f",
                "mov rax, qword ptr [rip + heapwise_thread@GOTTPOFF]",
                "sub qword ptr fs:[rax], r10",
                "jb 4f",
                "3:",
                "mov rax, qword ptr [rdi + {function}]",
                "mov rdi, qword ptr [rdi]",
                "jmp rax",
                "4:",
                "add qword ptr fs:[rax], r10",
                "2:",
                "jmp {trace}",
                ".cfi_endproc",
                mode = sym $crate::hooks::MODE,
                tracing = const $crate::hooks::HookMode::Tracing as u8,
                service = sym $crate::runtimes::python::counting::SERVICE,
                arenas = const $crate::runtimes::python::counting::Service::Arenas as u8,
                most = const $crate::runtimes::python::counting::MOST_IN_ARENA,
                function = const $function,
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
                "mov rax, qword ptr [rip + heapwise_thread@GOTTPOFF]",
                "inc byte ptr fs:[rax + {in_domain}]",
                "mov rax, qword ptr [rdi + {function}]",
                "mov rdi, qword ptr [rdi]",
                "call rax",
                "mov rcx, qword ptr [rip + heapwise_thread@GOTTPOFF]",
                "dec byte ptr fs:[rcx + {in_domain}]",
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
        $crate::arch::domain_allocate_stub!("mov r10, rsi", $function);
    };
}
/// Size is the product of the second and the third argument; the interpreter refuses an overflow.
macro_rules! domain_size_product {
    ($function:expr) => {
        $crate::arch::domain_allocate_stub!("mov r10, rsi\n imul r10, rdx", $function);
    };
}

/// Free in a domain of CPython. While samples are looked up in the
/// page filter, and the interpreter is not being finalized, a block that is neither a sample nor a
/// named code object is freed without a call.
macro_rules! domain_release_stub {
    ($function:expr) => {
        #[unsafe(naked)]
        pub(crate) unsafe extern "C" fn count() {
            core::arch::naked_asm!(
                ".cfi_startproc",
                "endbr64",
                "cmp byte ptr [rip + {mode}], {counting}",
                "jne 2f",
                "mov rax, qword ptr [rip + {ending}]",
                "cmp qword ptr [rax], 0",
                "jne 2f",
                "mov rax, rsi",
                "shr rax, 4",
                "mov r8, rax",
                "shr r8, 6",
                "and r8d, {code_words} - 1",
                "lea rcx, [rip + {codes} + {code_filter}]",
                "mov rcx, qword ptr [rcx + r8 * 8]",
                "bt rcx, rax",
                "jc 2f",
                "mov rax, rsi",
                "shr rax, 12",
                "and eax, {pages} - 1",
                "lea rcx, [rip + {filter}]",
                "cmp byte ptr [rcx + rax], 0",
                "jne 4f",
                "3:",
                "mov rax, qword ptr [rdi + {function}]",
                "mov rdi, qword ptr [rdi]",
                "jmp rax",
                "4:",
                "mov rax, rsi",
                "shr rax, {fold}",
                "add rax, rsi",
                "shr rax, 4",
                "and eax, {granules} - 1",
                "cmp byte ptr [rcx + rax + {pages}], 0",
                "je 3b",
                "2:",
                "jmp {trace}",
                ".cfi_endproc",
                mode = sym $crate::hooks::MODE,
                counting = const $crate::hooks::HookMode::Counting as u8,
                ending = sym $crate::runtimes::python::counting::ENDING,
                codes = sym $crate::runtimes::python::codes::CODES,
                code_filter = const $crate::runtimes::python::codes::FILTER_OFFSET,
                code_words = const $crate::runtimes::python::codes::FILTER_WORDS,
                pages = const $crate::live::filter::PAGES,
                granules = const $crate::live::filter::GRANULES,
                fold = const $crate::live::filter::FOLD,
                filter = sym $crate::live::filter::FILTER,
                function = const $function,
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
                "mov qword ptr [rsp], rdi",
                "mov rdi, rsi",
                "mov rsi, qword ptr [rsp + 24]",
                "call qword ptr [rip + {fast_path}]",
                "mov rsi, rax",
                "mov rax, qword ptr [rsp]",
                "add rsp, 24",
                ".cfi_def_cfa_offset 8",
                "mov rdi, qword ptr [rax]",
                "jmp qword ptr [rax + {function}]",
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
                "endbr64",
                "mov rax, qword ptr [rip + {ending}]",
                "cmp qword ptr [rax], 0",
                "jne 2f",
                "mov rax, rsi",
                "shr rax, 4",
                "mov r8, rax",
                "shr r8, 6",
                "and r8d, {code_words} - 1",
                "lea rcx, [rip + {codes} + {code_filter}]",
                "mov rcx, qword ptr [rcx + r8 * 8]",
                "bt rcx, rax",
                "jc 2f",
                "jmp qword ptr [rip + {real}]",
                "2:",
                "push rdi",
                ".cfi_adjust_cfa_offset 8",
                "push rsi",
                ".cfi_adjust_cfa_offset 8",
                "sub rsp, 8",
                ".cfi_adjust_cfa_offset 8",
                "mov rdi, rsi",
                "call {note}",
                "add rsp, 8",
                ".cfi_adjust_cfa_offset -8",
                "pop rsi",
                ".cfi_adjust_cfa_offset -8",
                "pop rdi",
                ".cfi_adjust_cfa_offset -8",
                "jmp qword ptr [rip + {real}]",
                ".cfi_endproc",
                ending = sym $crate::runtimes::python::counting::ENDING,
                codes = sym $crate::runtimes::python::codes::CODES,
                code_filter = const $crate::runtimes::python::codes::FILTER_OFFSET,
                code_words = const $crate::runtimes::python::codes::FILTER_WORDS,
                real = sym $real,
                note = sym $note,
            )
        }
    };
}

pub(crate) use {
    domain_allocate_stub, domain_release_stub, domain_size_product, domain_size_second, domain_watch_stub,
};
