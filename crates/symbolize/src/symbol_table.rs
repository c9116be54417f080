//! Function extents from symbol tables: which symbol an address belongs to, if any.
//!
//! Never the nearest name: a symbol covers `[start, start + size)`. Symbols without a size
//! (hand-written assembly) reach to the next symbol or the end of their section, but not beyond the
//! start of another function in the unwind table.

use object::{Object, ObjectSection, ObjectSymbol, ObjectSymbolTable, SectionIndex, SymbolIndex, SymbolKind};

use crate::{Svma, elf::Elf, unwind_extent::UnwindExtents};

/// Disjoint extents in order of address.
#[derive(Debug, Default)]
pub(crate) struct SymbolTable {
    extents: Vec<Extent>,
}

/// A piece of one symbol. A symbol has several when others are nested in it.
#[derive(Debug, Clone, Copy)]
struct Extent {
    start: u64,
    end: u64,
    symbol: Symbol,
}

/// One entry of a symbol table.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Symbol {
    pub(crate) start: u64,
    pub(crate) end: u64,
    table: Table,
    index: SymbolIndex,
    is_sized: bool,
}

/// Which table of a file a symbol is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Table {
    Full,
    Dynamic,
}

impl SymbolTable {
    /// Reads the full symbol table of a file, or the dynamic one of a stripped file.
    pub(crate) fn new(elf: &Elf<'_>) -> Self {
        let table = if elf.has_symtab() { Table::Full } else { Table::Dynamic };
        let mut symbols = read_symbols(elf, table);
        symbols.sort_unstable_by_key(|symbol| (symbol.start, !symbol.is_sized));
        drop_nested_labels(&mut symbols);
        let mut symbols = one_per_address(elf, &symbols);
        bound_unsized(elf, &mut symbols);
        Self { extents: disjoint(&symbols) }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.extents.is_empty()
    }

    /// The symbol whose extent holds the address.
    pub(crate) fn find(&self, address: Svma, unwind: &UnwindExtents<'_>) -> Option<Symbol> {
        let after = self.extents.partition_point(|extent| extent.start <= address.0);
        let extent = self.extents.get(after.checked_sub(1)?)?;
        let symbol = extent.symbol;
        let inside = address.0 < extent.end;
        (inside && (symbol.is_sized || unwind.allow(Svma(symbol.start), address))).then_some(symbol)
    }
}

impl Symbol {
    /// Name as the symbol table spells it.
    pub(crate) fn name<'a>(&self, elf: &Elf<'a>) -> Option<&'a [u8]> {
        let table = match self.table {
            Table::Full => elf.file.symbol_table(),
            Table::Dynamic => elf.file.dynamic_symbol_table(),
        };
        table?.symbol_by_index(self.index).ok()?.name_bytes().ok()
    }
}

/// Symbols of code: functions, and labels in executable sections.
fn read_symbols(elf: &Elf<'_>, table: Table) -> Vec<Symbol> {
    let symbols = match table {
        Table::Full => elf.file.symbols(),
        Table::Dynamic => elf.file.dynamic_symbols(),
    };
    let code = CodeSections::new(elf);
    symbols
        .filter(|symbol| {
            matches!(symbol.kind(), SymbolKind::Text | SymbolKind::Unknown)
                && !symbol.is_undefined()
                && symbol.section_index().is_some_and(|at| code.holds(at))
                && !is_marker(symbol)
        })
        .map(|symbol| Symbol {
            start: symbol.address(),
            end: symbol.address().saturating_add(symbol.size()),
            table,
            index: symbol.index(),
            is_sized: symbol.size() > 0,
        })
        .collect()
}

/// The executable sections of a file.
struct CodeSections {
    /// By section index.
    is_code: Vec<bool>,
    /// Address ranges in order.
    ranges: Vec<(u64, u64)>,
}

impl CodeSections {
    fn new(elf: &Elf<'_>) -> Self {
        let mut is_code = Vec::new();
        let mut ranges = Vec::new();
        for section in elf.file.sections() {
            let object::SectionFlags::Elf { sh_flags, .. } = section.flags() else {
                continue;
            };
            if sh_flags.contains(object::elf::SHF_EXECINSTR) {
                let index = section.index().0;
                is_code.resize(is_code.len().max(index + 1), false);
                is_code[index] = true;
                let start = section.address();
                ranges.push((start, start.saturating_add(section.size())));
            }
        }
        ranges.sort_unstable();
        Self { is_code, ranges }
    }

    fn holds(&self, section: SectionIndex) -> bool {
        self.is_code.get(section.0).copied().unwrap_or(false)
    }

    /// One past the last address of the section that holds `address`; the address itself when
    /// none does.
    fn end_of(&self, address: u64) -> u64 {
        let after = self.ranges.partition_point(|(start, _)| *start <= address);
        let section = after.checked_sub(1).map(|at| self.ranges[at]);
        section.map_or(address, |(_, end)| end.max(address))
    }
}

/// Local labels that mark a change of instruction set (`$x`, `$d`), not a function.
fn is_marker<'a>(symbol: &impl ObjectSymbol<'a>) -> bool {
    symbol.size() == 0
        && symbol.is_local()
        && symbol
            .name_bytes()
            .is_ok_and(|name| name.is_empty() || name.starts_with(b"$") || name.starts_with(b".L"))
}

/// Removes labels without a size that lie in a function that has one. Expects symbols by address,
/// sized ones first.
fn drop_nested_labels(symbols: &mut Vec<Symbol>) {
    let mut reach = 0;
    symbols.retain(|symbol| {
        reach = reach.max(if symbol.is_sized { symbol.end } else { 0 });
        symbol.is_sized || symbol.start >= reach
    });
}

/// Keeps one of several names for the same address: the last strong one in byte order, else the
/// first. That equals jeprof's use of `nm -n`, and it prefers `malloc` to `__libc_malloc`.
fn one_per_address(elf: &Elf<'_>, symbols: &[Symbol]) -> Vec<Symbol> {
    let mut chosen = Vec::with_capacity(symbols.len());
    for aliases in symbols.chunk_by(|left, right| left.start == right.start) {
        let end = aliases.iter().map(|symbol| symbol.end).max();
        let Some(best) = (match aliases {
            [only] => Some(*only),
            several => best_alias(elf, several),
        }) else {
            continue;
        };
        chosen.push(Symbol { end: end.unwrap_or(best.end), is_sized: aliases[0].is_sized, ..best });
    }
    chosen
}

fn best_alias(elf: &Elf<'_>, aliases: &[Symbol]) -> Option<Symbol> {
    let table = match aliases[0].table {
        Table::Full => elf.file.symbol_table()?,
        Table::Dynamic => elf.file.dynamic_symbol_table()?,
    };
    let mut strong: Option<(&[u8], Symbol)> = None;
    let mut first: Option<(&[u8], Symbol)> = None;
    for alias in aliases {
        let Ok(symbol) = table.symbol_by_index(alias.index) else {
            continue;
        };
        let name = symbol.name_bytes().unwrap_or_default();
        if !symbol.is_weak() && strong.is_none_or(|(best, _)| name > best) {
            strong = Some((name, *alias));
        }
        if first.is_none_or(|(best, _)| name < best) {
            first = Some((name, *alias));
        }
    }
    strong.or(first).map(|(_, symbol)| symbol)
}

/// Lets symbols without a size reach to the next symbol or the end of their section.
fn bound_unsized(elf: &Elf<'_>, symbols: &mut [Symbol]) {
    let sections = CodeSections::new(elf);
    for at in 0..symbols.len() {
        if !symbols[at].is_sized {
            let next = symbols.get(at + 1).map_or(u64::MAX, |next| next.start);
            symbols[at].end = sections.end_of(symbols[at].start).min(next);
        }
    }
}

/// Cuts overlapping symbols into pieces that each belong to the innermost.
fn disjoint(symbols: &[Symbol]) -> Vec<Extent> {
    let mut extents = Vec::with_capacity(symbols.len());
    let mut open: Vec<Symbol> = Vec::new();
    let mut cursor = 0;
    let mut emit = |start: u64, end: u64, symbol: Symbol| {
        if start < end {
            extents.push(Extent { start, end, symbol });
        }
    };
    for symbol in symbols {
        while let Some(top) = open.pop_if(|top| top.end <= symbol.start) {
            emit(cursor, top.end, top);
            cursor = cursor.max(top.end);
        }
        if let Some(top) = open.last() {
            emit(cursor, symbol.start, *top);
        }
        cursor = symbol.start;
        open.push(*symbol);
    }
    while let Some(top) = open.pop() {
        emit(cursor, top.end, top);
        cursor = cursor.max(top.end);
    }
    extents
}
