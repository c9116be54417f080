//! Which innermost frames belong to the allocator or the language runtime, so that reports begin
//! with the code that allocates.
//!
//! A frame of the allocator cuts everything leafward of it too: what `malloc` calls is the
//! allocator's business. A frame of the runtime is cut only where nothing but such frames follows:
//! `std::allocator::allocate` may also call an allocator of the program's own.

use crate::name;
use crate::query::LeafCut;

/// Why a function is cut off the leaf of a stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Leaf {
    /// Part of an allocator.
    Allocator,
    /// Part of the language runtime around it.
    Runtime,
}

/// Entry points of allocators, by short name: jeprof's list.
const ENTRY_POINTS: &[&str] = &[
    // the C library
    "aligned_alloc",
    "calloc",
    "cfree",
    "free",
    "free_aligned_sized",
    "free_sized",
    "malloc",
    "memalign",
    "posix_memalign",
    "pvalloc",
    "realloc",
    "reallocarray",
    "reallocf",
    "valloc",
    "__libc_calloc",
    "__libc_malloc",
    "__libc_memalign",
    "__libc_realloc",
    "__libc_reallocarray",
    // C++
    "operator new",
    "operator new[]",
    "__builtin_delete",
    "__builtin_new",
    "__builtin_vec_delete",
    "__builtin_vec_new",
    "__malloc_alloc_template::allocate",
    "simple_alloc::allocate",
    // jemalloc
    "dallocx",
    "mallocx",
    "newImpl",
    "rallocx",
    "sdallocx",
    "sdallocx_noflags",
    "void* newImpl",
    "xallocx",
    // tcmalloc
    "::do_malloc",
    "::do_malloc_or_cpp_alloc",
    "DoSampledAllocation",
    "do_malloc",
    "tc_calloc",
    "tc_cfree",
    "tc_delete",
    "tc_deletearray",
    "tc_free",
    "tc_malloc",
    "tc_memalign",
    "tc_new",
    "tc_new_nothrow",
    "tc_newarray",
    "tc_newarray_nothrow",
    "tc_posix_memalign",
    "tc_pvalloc",
    "tc_realloc",
    "tc_valloc",
    // macOS, and the section marks of gperftools
    "malloc_zone_calloc",
    "malloc_zone_free",
    "malloc_zone_malloc",
    "malloc_zone_memalign",
    "malloc_zone_realloc",
    "malloc_zone_valloc",
    "__start_google_malloc",
    "__start_malloc_hook",
    "__stop_google_malloc",
    "__stop_malloc_hook",
];

/// Functions of allocators that jeprof does not know: mimalloc, and what a jemalloc linked into the
/// program has inside its entry points.
const FURTHER_ALLOCATORS: &[&str] = &[
    "mi_aligned_alloc",
    "mi_calloc",
    "mi_malloc",
    "mi_malloc_aligned",
    "mi_new",
    "mi_realloc",
    "mi_zalloc",
    "arena_malloc",
    "do_rallocx",
    "fallback_impl",
    "ialloc",
    "imalloc",
    "imalloc_body",
    "malloc_default",
    "prof_alloc_prep",
    "prof_backtrace",
    "prof_backtrace_impl",
    "prof_malloc_sample_object",
    "prof_tctx_create",
];

/// Rust's functions between a program and its allocator, by short name without the crate `__rustc`.
const RUST_ALLOCATION: &[&str] = &[
    "__rdl_alloc",
    "__rdl_alloc_zeroed",
    "__rdl_realloc",
    "__rg_alloc",
    "__rg_alloc_zeroed",
    "__rg_realloc",
    "__rust_alloc",
    "__rust_alloc_zeroed",
    "__rust_realloc",
];

/// Modules of Rust's library whose functions only allocate.
const RUST_MODULES: &[&str] = &["alloc::alloc::", "std::alloc::", "std::sys::alloc::"];

/// Why a function, given by its full demangled name, is cut off by `cut`.
#[must_use]
pub(crate) fn leaf(full_name: &str, cut: LeafCut) -> Option<Leaf> {
    match cut {
        LeafCut::Nothing => None,
        LeafCut::Jeprof => is_jeprofs(full_name).then_some(Leaf::Allocator),
        LeafCut::Runtime if is_allocator(full_name) => Some(Leaf::Allocator),
        LeafCut::Runtime => is_runtime(&name::short(full_name)).then_some(Leaf::Runtime),
    }
}

/// Whether a function, given by its full demangled name, is part of an allocator.
#[must_use]
pub fn is_allocator(full_name: &str) -> bool {
    if is_jeprofs(full_name) || full_name.contains("heapwise_probe::") {
        return true;
    }
    let name = unprefixed(full_name);
    FURTHER_ALLOCATORS.contains(&name)
}

/// Whether a function, given by its short name, is the language's own way to its allocator.
fn is_runtime(short: &str) -> bool {
    let of_crate = short.split_once("__rustc").map_or(short, |(_, rest)| {
        // `__rustc[4794b31dd7191200]::__rust_alloc`
        rest.rsplit("::").next().unwrap_or(rest)
    });
    RUST_ALLOCATION.contains(&of_crate)
        || RUST_MODULES.iter().any(|module| short.starts_with(module))
        || is_cpp_allocator(short)
}

/// `std::allocator::allocate`, `std::allocator_traits::allocate`,
/// `__gnu_cxx::new_allocator::allocate`, …
fn is_cpp_allocator(short: &str) -> bool {
    let scope = short.strip_suffix("::allocate").unwrap_or_default();
    let in_library = ["std::", "__gnu_cxx::", "boost::"].iter().any(|library| scope.starts_with(library));
    in_library && scope.contains("allocator")
}

/// A C name without the prefix that a build gave to its allocator.
fn unprefixed(name: &str) -> &str {
    ["je_", "_rjem_je_", "_rjem_"].iter().find_map(|prefix| name.strip_prefix(prefix)).unwrap_or(name)
}

/// Whether jeprof cuts a function.
fn is_jeprofs(full_name: &str) -> bool {
    let short = name::jeprof_short(full_name);
    if short.contains("TCMalloc") || short.starts_with("tcmalloc::") {
        return true;
    }
    // `je_malloc` is jemalloc built with a prefix; a bare `_` is what Mach adds to every symbol.
    let plain = ["heapwise_", "je_", "_rjem_", "_"].iter().find_map(|prefix| short.strip_prefix(prefix));
    let versionless = short.split('@').next().unwrap_or(&short);
    [Some(short.as_str()), Some(versionless), plain]
        .into_iter()
        .flatten()
        .any(|name| ENTRY_POINTS.contains(&name))
}

/// Whether a binary, given by the last component of its path, is an allocator and nothing else: its
/// inner functions count as the allocator's even without symbols.
#[must_use]
pub fn is_allocator_module(name: &str) -> bool {
    const LIBRARIES: [&str; 4] = ["libjemalloc", "libtcmalloc", "libmimalloc", "libheapwise"];
    LIBRARIES.iter().any(|library| name.starts_with(library)) && name.contains(".so")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entry_points_in_all_spellings() {
        for name in [
            "malloc",
            "malloc@@GLIBC_2.2.5",
            "je_malloc",
            "_rjem_mallocx",
            "operator new(unsigned long)",
            "operator new[](unsigned long, std::align_val_t)",
            "tcmalloc::allocate_full_malloc_oom(unsigned long)",
            "(anonymous namespace)::do_malloc(unsigned long)",
            "void* newImpl<false>(unsigned long)",
            "mi_malloc",
            "prof_backtrace_impl",
            "_rjem_je_prof_tctx_create",
            "heapwise_probe::record::slow_path::allocated",
            "<heapwise_probe::entry::Hook as core::fmt::Debug>::fmt",
        ] {
            assert!(is_allocator(name), "{name}");
        }
        for name in ["my_malloc", "xmalloc", "alloc_pages", "Pool::malloc(int)", "main"] {
            assert!(!is_allocator(name), "{name}");
        }
    }

    #[test]
    fn language_runtimes_between_program_and_allocator() {
        for name in [
            "alloc::alloc::alloc",
            "<alloc::alloc::Global as core::alloc::Allocator>::allocate",
            "<std::alloc::System as core::alloc::global::GlobalAlloc>::alloc",
            "__rust_alloc",
            "__rustc::__rust_alloc",
            "__rustc[4794b31dd7191200]::__rust_realloc",
            "std::__new_allocator<int>::allocate(unsigned long, void const*)",
            "std::allocator_traits<std::allocator<int> >::allocate(std::allocator<int>&, unsigned long)",
            "__gnu_cxx::new_allocator<char>::allocate(unsigned long, void const*)",
        ] {
            assert_eq!(leaf(name, LeafCut::Runtime), Some(Leaf::Runtime), "{name}");
            assert_eq!(leaf(name, LeafCut::Jeprof), None, "{name}");
        }
        for name in
            ["app::pool_allocator::allocate(int)", "alloc::vec::Vec<T>::push", "std::vector::allocate"]
        {
            assert_eq!(leaf(name, LeafCut::Runtime), None, "{name}");
        }
        assert_eq!(leaf("malloc", LeafCut::Nothing), None);
    }
}
