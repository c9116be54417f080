//! Allocation functions: their names in each allocator, and what their arguments mean.

use heapwise_format::entry_hooks::{Shape, Size};

/// An allocator by its code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Allocator {
    /// The C library's own.
    Libc,
    /// jemalloc, with any prefix.
    Jemalloc,
    /// gperftools' or Google's tcmalloc.
    Tcmalloc,
    /// mimalloc.
    Mimalloc,
    /// One that defines `malloc` and has no known name.
    Other,
}

impl Allocator {
    /// Name in messages.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Allocator::Libc => "libc",
            Allocator::Jemalloc => "jemalloc",
            Allocator::Tcmalloc => "tcmalloc",
            Allocator::Mimalloc => "mimalloc",
            Allocator::Other => "an allocator without a known name",
        }
    }
}

use Shape::{Allocate, AllocateTo, Release, Resize, ResizeInPlace, UsableSize};
use Size::{Argument, Product};

/// Functions of C and jemalloc, which have the allocator's prefix.
const PREFIXED: [(&str, Shape); 19] = [
    ("malloc", Allocate(Argument(0))),
    ("calloc", Allocate(Product(0))),
    ("realloc", Resize(Argument(1))),
    ("reallocarray", Resize(Product(1))),
    ("free", Release),
    ("cfree", Release),
    ("free_sized", Release),
    ("free_aligned_sized", Release),
    ("posix_memalign", AllocateTo(Argument(2))),
    ("aligned_alloc", Allocate(Argument(1))),
    ("memalign", Allocate(Argument(1))),
    ("valloc", Allocate(Argument(0))),
    ("pvalloc", Allocate(Argument(0))),
    ("malloc_usable_size", UsableSize),
    ("mallocx", Allocate(Argument(0))),
    ("rallocx", Resize(Argument(1))),
    ("xallocx", ResizeInPlace),
    ("dallocx", Release),
    ("sdallocx", Release),
];

/// Functions of mimalloc, after `mi_`. Functions of a heap of its own (`mi_heap_malloc`) are not
/// among them: the others are built from those.
const OF_MIMALLOC: [(&str, Shape); 40] = [
    ("malloc", Allocate(Argument(0))),
    ("zalloc", Allocate(Argument(0))),
    ("malloc_small", Allocate(Argument(0))),
    ("zalloc_small", Allocate(Argument(0))),
    ("calloc", Allocate(Product(0))),
    ("mallocn", Allocate(Product(0))),
    ("malloc_aligned", Allocate(Argument(0))),
    ("malloc_aligned_at", Allocate(Argument(0))),
    ("zalloc_aligned", Allocate(Argument(0))),
    ("zalloc_aligned_at", Allocate(Argument(0))),
    ("calloc_aligned", Allocate(Product(0))),
    ("calloc_aligned_at", Allocate(Product(0))),
    ("realloc", Resize(Argument(1))),
    ("reallocf", Resize(Argument(1))),
    ("reallocn", Resize(Product(1))),
    ("reallocarray", Resize(Product(1))),
    ("rezalloc", Resize(Argument(1))),
    ("recalloc", Resize(Product(1))),
    ("realloc_aligned", Resize(Argument(1))),
    ("realloc_aligned_at", Resize(Argument(1))),
    ("rezalloc_aligned", Resize(Argument(1))),
    ("recalloc_aligned", Resize(Product(1))),
    ("free", Release),
    ("free_size", Release),
    ("free_aligned", Release),
    ("free_size_aligned", Release),
    ("cfree", Release),
    ("posix_memalign", AllocateTo(Argument(2))),
    ("memalign", Allocate(Argument(1))),
    ("aligned_alloc", Allocate(Argument(1))),
    ("valloc", Allocate(Argument(0))),
    ("pvalloc", Allocate(Argument(0))),
    ("new", Allocate(Argument(0))),
    ("new_nothrow", Allocate(Argument(0))),
    ("new_aligned", Allocate(Argument(0))),
    ("new_aligned_nothrow", Allocate(Argument(0))),
    ("new_n", Allocate(Product(0))),
    ("new_realloc", Resize(Argument(1))),
    ("new_reallocn", Resize(Product(1))),
    ("usable_size", UsableSize),
];

/// Functions of tcmalloc, after `tc_`.
const OF_TCMALLOC: [(&str, Shape); 32] = [
    ("malloc", Allocate(Argument(0))),
    ("malloc_skip_new_handler", Allocate(Argument(0))),
    ("calloc", Allocate(Product(0))),
    ("realloc", Resize(Argument(1))),
    ("free", Release),
    ("cfree", Release),
    ("free_sized", Release),
    ("memalign", Allocate(Argument(1))),
    ("posix_memalign", AllocateTo(Argument(2))),
    ("valloc", Allocate(Argument(0))),
    ("pvalloc", Allocate(Argument(0))),
    ("malloc_size", UsableSize),
    ("new", Allocate(Argument(0))),
    ("newarray", Allocate(Argument(0))),
    ("new_nothrow", Allocate(Argument(0))),
    ("newarray_nothrow", Allocate(Argument(0))),
    ("new_aligned", Allocate(Argument(0))),
    ("newarray_aligned", Allocate(Argument(0))),
    ("new_aligned_nothrow", Allocate(Argument(0))),
    ("newarray_aligned_nothrow", Allocate(Argument(0))),
    ("delete", Release),
    ("deletearray", Release),
    ("delete_sized", Release),
    ("deletearray_sized", Release),
    ("delete_nothrow", Release),
    ("deletearray_nothrow", Release),
    ("delete_aligned", Release),
    ("deletearray_aligned", Release),
    ("delete_sized_aligned", Release),
    ("deletearray_sized_aligned", Release),
    ("delete_aligned_nothrow", Release),
    ("deletearray_aligned_nothrow", Release),
];

/// Prefix of mimalloc's functions.
pub const MIMALLOC_PREFIX: &str = "mi_";
/// Prefix of tcmalloc's functions.
pub const TCMALLOC_PREFIX: &str = "tc_";

/// The shape of a function of C or jemalloc, without its prefix.
#[must_use]
pub fn prefixed(name: &str) -> Option<Shape> {
    find(&PREFIXED, name)
}

/// The shape of a function of mimalloc.
#[must_use]
pub fn of_mimalloc(name: &str) -> Option<Shape> {
    find(&OF_MIMALLOC, name.strip_prefix(MIMALLOC_PREFIX)?)
}

/// The shape of a function of tcmalloc.
#[must_use]
pub fn of_tcmalloc(name: &str) -> Option<Shape> {
    find(&OF_TCMALLOC, name.strip_prefix(TCMALLOC_PREFIX)?)
}

/// The shape of a C++ operator, by its symbol.
#[must_use]
pub fn of_operator(symbol: &str) -> Option<Shape> {
    match symbol.get(..5)? {
        "_Znwm" | "_Znam" => Some(Allocate(Argument(0))),
        "_ZdlP" | "_ZdaP" => Some(Release),
        _ => None,
    }
}

fn find(table: &[(&str, Shape)], name: &str) -> Option<Shape> {
    table.iter().find(|(known, _)| *known == name).map(|(_, shape)| *shape)
}

/// Whether a name may be that of an allocation function: a cheap test before the names of a whole
/// file are compared.
#[must_use]
pub fn is_candidate(name: &str) -> bool {
    name.starts_with(MIMALLOC_PREFIX)
        || name.starts_with(TCMALLOC_PREFIX)
        || of_operator(name).is_some()
        || PREFIXED.iter().any(|(known, _)| name.ends_with(known))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_shapes() {
        assert_eq!(prefixed("calloc"), Some(Allocate(Product(0))));
        assert_eq!(of_mimalloc("mi_reallocn"), Some(Resize(Product(1))));
        assert_eq!(of_tcmalloc("tc_posix_memalign"), Some(AllocateTo(Argument(2))));
        assert_eq!(of_operator("_ZnwmSt11align_val_t"), Some(Allocate(Argument(0))));
        assert_eq!(of_operator("_ZdlPvm"), Some(Release));
        assert_eq!(of_operator("_ZN3foo6mallocEv"), None);
        assert_eq!(prefixed("mallctl"), None);
        assert!(is_candidate("_rjem_sdallocx") && !is_candidate("main"));
    }
}
