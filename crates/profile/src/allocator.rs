//! Which frames belong to the allocator, so that reports begin with its caller.
//!
//! The list is jeprof's, plus the entry points of the allocators and runtimes that came since. A
//! match cuts everything leafward of it too: what `malloc` calls is the allocator's business.

use crate::name;

/// Entry points of allocators, by short name.
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
    // mimalloc
    "mi_aligned_alloc",
    "mi_calloc",
    "mi_malloc",
    "mi_malloc_aligned",
    "mi_new",
    "mi_realloc",
    "mi_zalloc",
    // Rust
    "__rdl_alloc",
    "__rdl_alloc_zeroed",
    "__rdl_realloc",
    "__rg_alloc",
    "__rg_alloc_zeroed",
    "__rg_realloc",
    "__rust_alloc",
    "__rust_alloc_zeroed",
    "__rust_realloc",
    "alloc::alloc::alloc",
    "alloc::alloc::alloc_zeroed",
    "alloc::alloc::exchange_malloc",
    "alloc::alloc::realloc",
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

/// Whether a function, given by its full demangled name, is an entry point of an allocator.
#[must_use]
pub(crate) fn is_allocator(full_name: &str) -> bool {
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
pub(crate) fn is_allocator_module(name: &str) -> bool {
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
            "alloc::alloc::alloc",
        ] {
            assert!(is_allocator(name), "{name}");
        }
        for name in ["my_malloc", "xmalloc", "alloc_pages", "Pool::malloc(int)", "main"] {
            assert!(!is_allocator(name), "{name}");
        }
    }
}
