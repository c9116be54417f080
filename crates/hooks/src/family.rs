//! Allocator families: one allocator with one set of functions, as found in a binary.

use std::collections::BTreeSet;
use std::path::Path;

use crate::binary::{Binary, Symbol, Table};
use crate::function::{self, Allocator, MIMALLOC_PREFIX, TCMALLOC_PREFIX};
use heapwise_format::entry_hooks::{Alignment, Shape};

/// Where a family is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// Part of the executable.
    Executable,
    /// A shared library.
    Library,
}

/// How the probe sees calls of a family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// The dynamic linker leads callers to a preloaded probe.
    Linker,
    /// Callers reach the functions directly: the functions have to be hooked at their entry.
    Entry,
    /// No way.
    None(Obstacle),
}

/// Why a family cannot be hooked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Obstacle {
    /// The binary has no symbol table, and no debug file was found.
    Stripped,
    /// The code of the allocator is there, but none of its functions: the compiler inlined them.
    Inlined,
}

/// A function of a family.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Function {
    /// Its name.
    pub name: String,
    /// What it does.
    pub shape: Shape,
    /// Where it has the alignment of its block.
    pub alignment: Alignment,
    /// Address in the file's own address space.
    pub address: u64,
    /// Bytes of code; 0 when the symbol has no size.
    pub size: u64,
}

/// An allocator in a binary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Family {
    /// Which allocator.
    pub allocator: Allocator,
    /// Before the names of its functions: `je_`, `_rjem_`, or nothing.
    pub prefix: String,
    /// Where it is.
    pub place: Place,
    /// How calls are seen.
    pub reach: Reach,
    /// Its functions, one per address.
    pub functions: Vec<Function>,
    /// Address and number of its size classes, where the binary has them as an array of words.
    pub classes: Option<(u64, u64)>,
}

impl Family {
    /// Address of the function that returns the usable size of a block.
    #[must_use]
    pub fn usable_size(&self) -> Option<u64> {
        let function = self.functions.iter().find(|function| function.shape == Shape::UsableSize);
        function.map(|function| function.address)
    }

    /// Largest alignment that does not change the size class of a block which is not smaller. A
    /// class of jemalloc may be a multiple of 8 only. mimalloc 3 may use a larger class for every
    /// block that a function for aligned blocks returns.
    #[must_use]
    pub fn natural_alignment(&self) -> u64 {
        let is_version_3 = || self.functions.iter().any(|function| function.name.starts_with("mi_theap_"));
        match self.allocator {
            Allocator::Mimalloc if is_version_3() => 0,
            Allocator::Libc | Allocator::Tcmalloc | Allocator::Mimalloc => 16,
            Allocator::Jemalloc | Allocator::Other => 8,
        }
    }

    /// The function by which messages name the family.
    #[must_use]
    pub fn representative(&self) -> String {
        let named =
            |is_it: fn(&str) -> bool| self.functions.iter().find(move |function| is_it(&function.name));
        let found = named(|name| name.ends_with("malloc"))
            .or_else(|| named(|name| name.contains("malloc")))
            .or(self.functions.first());
        found.map_or_else(String::new, |function| function.name.clone())
    }
}

impl std::fmt::Display for Family {
    /// Names the family in one phrase of a report.
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let name = self.allocator.name();
        match self.reach {
            Reach::None(Obstacle::Stripped) => write!(out, "{name}, whose symbols were stripped"),
            Reach::None(Obstacle::Inlined) => write!(out, "{name}, whose functions were inlined"),
            Reach::Linker | Reach::Entry => out.write_str(&self.representative()),
        }
    }
}

/// The families of an executable.
#[must_use]
pub fn of_executable(path: &Path) -> Vec<Family> {
    let binary = Binary::read(path, Path::new("/"));
    binary.map_or_else(Vec::new, |binary| families(&binary, Place::Executable))
}

/// The allocator among those of an executable that the probe does not see, in one phrase;
/// `has_entry_hooks`: functions of the executable are hooked at their entry.
#[must_use]
pub fn unseen(families: &[Family], has_entry_hooks: bool) -> Option<String> {
    let is_unseen = |family: &&Family| !(has_entry_hooks && family.reach == Reach::Entry);
    families.iter().find(is_unseen).map(ToString::to_string)
}

/// The families of a binary.
#[must_use]
pub fn families(binary: &Binary, place: Place) -> Vec<Family> {
    let mut found: Vec<Family> = Vec::new();
    for prefix in jemalloc_prefixes(binary) {
        let shape = |name: &str| function::prefixed(name.strip_prefix(&*prefix)?);
        found.extend(family(binary, place, Allocator::Jemalloc, &prefix, shape));
    }
    // Linkers drop functions that are not called; every program frees.
    if binary.find("mi_free").is_some() {
        found.extend(family(binary, place, Allocator::Mimalloc, MIMALLOC_PREFIX, function::of_mimalloc));
    }
    if binary.find("tc_malloc").or_else(|| binary.find("tc_free")).is_some() {
        found.extend(family(binary, place, Allocator::Tcmalloc, TCMALLOC_PREFIX, function::of_tcmalloc));
    }
    if found.is_empty() && binary.find("malloc").is_some() {
        found.extend(family(binary, place, unprefixed_allocator(binary, place), "", function::prefixed));
    }
    let obstacle = if binary.has_full_table { Obstacle::Inlined } else { Obstacle::Stripped };
    for allocator in &binary.texts {
        if !found.iter().any(|family| family.allocator == *allocator) {
            let (prefix, functions) = (String::new(), Vec::new());
            found.push(Family {
                allocator: *allocator,
                prefix,
                place,
                reach: Reach::None(obstacle),
                functions,
                classes: None,
            });
        }
    }
    found
}

/// The allocator behind functions without a prefix. An executable that loads libc may define
/// `__libc_malloc` to replace libc's, as chromium does.
fn unprefixed_allocator(binary: &Binary, place: Place) -> Allocator {
    let may_be_libc = place == Place::Library || !binary.is_dynamic;
    match binary.texts.first() {
        _ if may_be_libc && binary.find("__libc_malloc").is_some() => Allocator::Libc,
        Some(allocator) => *allocator,
        None => Allocator::Other,
    }
}

/// Prefixes of jemalloc: a binary with `Xsdallocx` and `Xmalloc` or `Xmallocx` has one with prefix
/// `X`. Names of its internal functions have a second prefix.
fn jemalloc_prefixes(binary: &Binary) -> BTreeSet<String> {
    let is_defined = |prefix: &str| {
        ["malloc", "mallocx"].iter().any(|name| binary.find(&format!("{prefix}{name}")).is_some())
    };
    let candidates = binary.symbols.iter().filter_map(|symbol| symbol.name.strip_suffix("sdallocx"));
    let mut prefixes: BTreeSet<String> =
        candidates.filter(|prefix| is_defined(prefix)).map(str::to_owned).collect();
    let all = prefixes.clone();
    prefixes.retain(|prefix| prefix.strip_suffix("je_").is_none_or(|outer| !all.contains(outer)));
    prefixes
}

/// The family of the functions that have a shape. An allocator that replaces `malloc` also has the
/// functions without a prefix, and perhaps operators of C++.
fn family(
    binary: &Binary,
    place: Place,
    allocator: Allocator,
    prefix: &str,
    shape: impl Fn(&str) -> Option<Shape>,
) -> Option<Family> {
    let malloc = binary.find("malloc");
    let replaces_malloc = malloc.is_some() && (allocator != Allocator::Jemalloc || prefix.is_empty());
    let shape_of = |name: &str| {
        let plain = || function::prefixed(name).filter(|_| replaces_malloc);
        let is_operator = replaces_malloc && allocator != Allocator::Libc;
        shape(name).or_else(plain).or_else(|| function::of_operator(name).filter(|_| is_operator))
    };
    let mut functions: Vec<Function> = Vec::new();
    for symbol in &binary.symbols {
        let Symbol { name, address, size, .. } = symbol;
        let is_alias = functions.last().is_some_and(|last| last.address == *address);
        if let Some(shape) = shape_of(name).filter(|_| !is_alias) {
            let alignment = function::alignment(name, shape);
            functions.push(Function { name: name.clone(), shape, alignment, address: *address, size: *size });
        }
    }
    let is_exported = malloc.is_some_and(|malloc| malloc.table == Table::Dynamic);
    let reach = match place {
        Place::Library if replaces_malloc && is_exported => Reach::Linker,
        _ => Reach::Entry,
    };
    let classes = classes(binary, prefix).filter(|_| allocator == Allocator::Jemalloc);
    let prefix = prefix.to_owned();
    (!functions.is_empty()).then_some(Family { allocator, prefix, place, reach, functions, classes })
}

/// The size classes of the jemalloc with a prefix: its internal names have a second prefix, or the
/// default one.
fn classes(binary: &Binary, prefix: &str) -> Option<(u64, u64)> {
    let names = [format!("{prefix}je_"), prefix.to_owned(), "je_".to_owned()];
    let mut found = names.iter().filter_map(|prefix| {
        let name = format!("{prefix}{}", function::CLASSES);
        binary.classes.iter().find(|symbol| symbol.name == name)
    });
    found.next().map(|symbol| (symbol.address, symbol.size / 8))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A binary with functions of these names, one every 64 bytes.
    fn binary(names: &[&str]) -> Binary {
        let table = Table::Full;
        let symbol = |(row, name): (usize, &&str)| Symbol {
            name: (*name).to_owned(),
            address: 0x1000 + 64 * row as u64,
            size: 64,
            table,
        };
        let symbols = names.iter().enumerate().map(symbol).collect();
        Binary { symbols, has_full_table: true, is_dynamic: true, ..Binary::default() }
    }

    /// `allocator prefix reach functions` of each family.
    fn check(binary: &Binary, place: Place, expected: &[(Allocator, &str, Reach, usize)]) {
        let found = families(binary, place);
        let found: Vec<_> =
            found.iter().map(|f| (f.allocator, &*f.prefix, f.reach, f.functions.len())).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn prefixes_of_jemalloc_are_found_by_its_own_calls() {
        let names = ["_rjem_malloc", "_rjem_sdallocx", "_rjem_je_malloc", "_rjem_je_sdallocx", "malloc_more"];
        check(&binary(&names), Place::Executable, &[(Allocator::Jemalloc, "_rjem_", Reach::Entry, 2)]);
        check(&binary(&["je_malloc"]), Place::Executable, &[]);
        let wrapped = ["je_malloc", "je_sdallocx", "malloc", "free"];
        check(&binary(&wrapped), Place::Executable, &[(Allocator::Jemalloc, "je_", Reach::Entry, 2)]);
    }

    #[test]
    fn an_allocator_that_replaces_malloc_has_operators() {
        let names = ["tc_malloc", "malloc", "_Znwm", "_ZdlPv", "free", "mallopt"];
        check(&binary(&names), Place::Executable, &[(Allocator::Tcmalloc, "tc_", Reach::Entry, 5)]);
        let own = ["malloc", "free"];
        check(&binary(&own), Place::Executable, &[(Allocator::Other, "", Reach::Entry, 2)]);
        let libc = ["malloc", "free", "__libc_malloc", "_Znwm"];
        check(&binary(&libc), Place::Library, &[(Allocator::Libc, "", Reach::Entry, 2)]);
        check(&binary(&libc), Place::Executable, &[(Allocator::Other, "", Reach::Entry, 3)]);
    }

    #[test]
    fn code_without_functions_is_named() {
        let mut stripped = binary(&[]);
        stripped.texts = vec![Allocator::Jemalloc];
        let inlined = Reach::None(Obstacle::Inlined);
        check(&stripped, Place::Executable, &[(Allocator::Jemalloc, "", inlined, 0)]);
        stripped.has_full_table = false;
        let hidden = Reach::None(Obstacle::Stripped);
        check(&stripped, Place::Executable, &[(Allocator::Jemalloc, "", hidden, 0)]);
    }
}
