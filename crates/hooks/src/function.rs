//! Allocation functions: their names in each allocator, and what their arguments mean.

use heapwise_format::entry_hooks::{Alignment, Shape, Size};

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

use Shape::{Allocate, AllocateTo, Release, Resize, ResizeInHeap, ResizeInPlace, UsableSize};
use Size::{Argument, Product, Text};

/// Functions of C and jemalloc, which have the allocator's prefix.
const PREFIXED: [(&str, Shape); 20] = [
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
    ("sallocx", UsableSize),
    ("mallocx", Allocate(Argument(0))),
    ("rallocx", Resize(Argument(1))),
    ("xallocx", ResizeInPlace),
    ("dallocx", Release),
    ("sdallocx", Release),
];

/// Functions of mimalloc, after `mi_`. Those that allocate also exist with a heap as their first
/// argument ([`OF_HEAP`]).
const OF_MIMALLOC: [(&str, Shape); 57] = [
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
    ("rezalloc_aligned_at", Resize(Argument(1))),
    ("recalloc_aligned", Resize(Product(1))),
    ("recalloc_aligned_at", Resize(Product(1))),
    ("umalloc", Allocate(Argument(0))),
    ("uzalloc", Allocate(Argument(0))),
    ("umalloc_small", Allocate(Argument(0))),
    ("uzalloc_small", Allocate(Argument(0))),
    ("ucalloc", Allocate(Product(0))),
    ("umalloc_aligned", Allocate(Argument(0))),
    ("uzalloc_aligned", Allocate(Argument(0))),
    ("urealloc", Resize(Argument(1))),
    ("alloc_new", Allocate(Argument(0))),
    ("alloc_new_n", Allocate(Product(0))),
    ("free", Release),
    ("free_small", Release),
    ("ufree", Release),
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
    ("strdup", Allocate(Text)),
    ("strndup", Allocate(Text)),
    ("mbsdup", Allocate(Text)),
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
/// Prefixes of mimalloc's functions with a heap as first argument, after `mi_`: a heap, and the
/// part of a heap that belongs to one thread (version 3).
const OF_HEAP: [&str; 2] = ["heap_", "theap_"];
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
    let name = name.strip_prefix(MIMALLOC_PREFIX)?;
    match OF_HEAP.iter().find_map(|prefix| name.strip_prefix(prefix)) {
        // `mi_heap_new` makes a heap; `mi_heap_alloc_new` is C++'s operator.
        Some(name) if name.starts_with("new") => None,
        Some(name) => of_heap(find(&OF_MIMALLOC, name)?),
        None => find(&OF_MIMALLOC, name),
    }
}

/// A shape whose arguments follow a heap. No function frees a block of a given heap.
fn of_heap(shape: Shape) -> Option<Shape> {
    let next = |size| match size {
        Argument(number) => Argument(number + 1),
        Product(number) => Product(number + 1),
        Text => Text,
    };
    match shape {
        Allocate(size) => Some(Allocate(next(size))),
        Resize(size) => Some(ResizeInHeap(next(size))),
        AllocateTo(_) | ResizeInHeap(_) | ResizeInPlace | Release | UsableSize => None,
    }
}

/// Where a function with this name and shape has the alignment of its block.
#[must_use]
pub fn alignment(name: &str, shape: Shape) -> Alignment {
    let Some(size) = shape.size() else { return Alignment::None };
    if name.ends_with("valloc") || name.ends_with("_aligned_at") {
        return Alignment::Other;
    }
    if name.ends_with("mallocx") || name.ends_with("rallocx") {
        return Alignment::Flags(if name.ends_with("mallocx") { 1 } else { 2 });
    }
    if name.ends_with("memalign") || name.ends_with("aligned_alloc") {
        return match shape {
            AllocateTo(_) => Alignment::Argument(1),
            _ => Alignment::Argument(0),
        };
    }
    let behind_size = match size {
        Argument(number) => number + 1,
        Product(number) => number + 2,
        Text => return Alignment::None,
    };
    let is_aligned = name.contains("_aligned") || name.contains("St11align_val_t");
    if is_aligned { Alignment::Argument(behind_size) } else { Alignment::None }
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

/// jemalloc's array of size classes, behind its prefix or that of its internal functions.
pub const CLASSES: &str = "sz_index2size_tab";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_shapes() {
        assert_eq!(prefixed("calloc"), Some(Allocate(Product(0))));
        assert_eq!(of_mimalloc("mi_reallocn"), Some(Resize(Product(1))));
        assert_eq!(of_mimalloc("mi_heap_malloc"), Some(Allocate(Argument(1))));
        assert_eq!(of_mimalloc("mi_heap_calloc_aligned_at"), Some(Allocate(Product(1))));
        assert_eq!(of_mimalloc("mi_theap_realloc"), Some(ResizeInHeap(Argument(2))));
        assert_eq!(of_mimalloc("mi_heap_recalloc"), Some(ResizeInHeap(Product(2))));
        assert_eq!(of_mimalloc("mi_heap_alloc_new_n"), Some(Allocate(Product(1))));
        assert_eq!(of_mimalloc("mi_heap_strdup"), Some(Allocate(Text)));
        for other in ["mi_heap_new", "mi_heap_new_in_arena", "mi_heap_free", "mi_heap_delete"] {
            assert_eq!(of_mimalloc(other), None, "{other}");
        }
        assert_eq!(of_tcmalloc("tc_posix_memalign"), Some(AllocateTo(Argument(2))));
        assert_eq!(of_operator("_ZnwmSt11align_val_t"), Some(Allocate(Argument(0))));
        assert_eq!(of_operator("_ZdlPvm"), Some(Release));
        assert_eq!(of_operator("_ZN3foo6mallocEv"), None);
        assert_eq!(prefixed("mallctl"), None);
        assert!(is_candidate("_rjem_sdallocx") && !is_candidate("main"));
    }

    #[test]
    fn aligned_functions_have_an_alignment() {
        let of = |name: &str| alignment(name, of_mimalloc(name).expect("a function of mimalloc"));
        assert_eq!((of("mi_malloc"), of("mi_strdup")), (Alignment::None, Alignment::None));
        assert_eq!(of("mi_malloc_aligned"), Alignment::Argument(1));
        assert_eq!(of("mi_heap_calloc_aligned"), Alignment::Argument(3));
        assert_eq!(of("mi_new_aligned_nothrow"), Alignment::Argument(1));
        assert_eq!(of("mi_aligned_alloc"), Alignment::Argument(0));
        assert_eq!((of("mi_pvalloc"), of("mi_zalloc_aligned_at")), (Alignment::Other, Alignment::Other));
        let of = |name: &str| alignment(name, prefixed(name).expect("a function of C"));
        assert_eq!((of("posix_memalign"), of("memalign")), (Alignment::Argument(1), Alignment::Argument(0)));
        assert_eq!((of("mallocx"), of("free_aligned_sized")), (Alignment::Flags(1), Alignment::None));
        let operator = "_ZnwmSt11align_val_t";
        assert_eq!(alignment(operator, of_operator(operator).expect("new")), Alignment::Argument(1));
    }
}
