//! One binary with everything found about it: addresses in, functions and lines out.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use heapwise_profile::BuildId;

use crate::{
    Detail, FileOffset, Options, Problem, Svma, Symbols,
    debug_file::{PackageFile, UnitFile},
    demangle::{demangle, is_mangled},
    dwarf::{DebugInfo, RawFrame},
    elf::{self, Elf},
    image::Image,
    load_segments::LoadSegments,
    metered::Meter,
    mini_debug, search,
    split_unit::{self, SplitUnits},
    symbol_table::{Symbol, SymbolTable},
    symbols::SymbolsBuilder,
    unwind_extent::UnwindExtents,
};

/// Names and lines of one binary. Opening reads headers and symbol tables; debug information is
/// read as far as lookups need it.
#[derive(Debug)]
pub struct Resolver {
    binary: Arc<Image>,
    build_id: BuildId,
    segments: LoadSegments,
    /// File with the DWARF: the binary itself or a separate one.
    debug: Option<UnitFile>,
    /// What dwz moved out of several debug files into one.
    shared: Option<UnitFile>,
    lacks_shared: bool,
    package: Option<PackageFile>,
    /// Symbol tables in order of preference, each with the file it indexes.
    tables: Vec<(Arc<Image>, SymbolTable)>,
    options: Options,
    problems: Vec<Problem>,
}

impl Resolver {
    /// Opens a binary by path and looks for its debug information.
    ///
    /// # Errors
    /// When the file does not exist or is not an ELF binary.
    pub fn open(path: &Path, options: &Options) -> Result<Self, Problem> {
        let image = Image::open(path).map_err(|_| Problem::NotFound)?;
        Self::new(image, options)
    }

    pub(crate) fn new(binary: Image, options: &Options) -> Result<Self, Problem> {
        let binary = Arc::new(binary);
        let damaged =
            |error: object::Error| Problem::Damaged { path: binary.path.clone(), reason: error.to_string() };
        let elf = Elf::parse(&binary).map_err(damaged)?;
        let mut problems = Vec::new();
        let debug = if elf.has_dwarf() {
            UnitFile::linked(binary.clone())
        } else {
            let found = search::debug_file(&binary.path, &elf, options, &mut problems);
            found.and_then(|image| UnitFile::linked(Arc::new(image)))
        };
        let shared = debug.as_ref().and_then(|debug| {
            let image = search::shared_debug_file(&debug.image, options)?;
            UnitFile::linked(Arc::new(image))
        });
        let wants_shared = debug.as_ref().is_some_and(|debug| elf::has_alt_link(&debug.image));
        Ok(Self {
            build_id: elf.build_id(),
            segments: LoadSegments::new(&elf),
            package: debug.as_ref().and_then(|_| split_unit::open_package(&binary.path)),
            tables: symbol_tables(&binary, debug.as_ref().map(|debug| &debug.image)),
            lacks_shared: wants_shared && shared.is_none(),
            shared,
            debug,
            binary,
            options: options.clone(),
            problems,
        })
    }

    /// Build-id of the binary; empty if it has none.
    #[must_use]
    pub fn build_id(&self) -> &BuildId {
        &self.build_id
    }

    /// The binary's file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.binary.path
    }

    /// The file with the debug information, when it is not the binary itself.
    #[must_use]
    pub fn debug_path(&self) -> Option<PathBuf> {
        let path = &self.debug.as_ref()?.image.path;
        (*path != self.binary.path).then(|| path.clone())
    }

    /// How much this binary contains.
    #[must_use]
    pub fn detail(&self) -> Detail {
        if self.debug.is_some() {
            Detail::Lines
        } else if self.tables.iter().any(|(_, table)| !table.is_empty()) {
            Detail::Names
        } else {
            Detail::None
        }
    }

    /// Problems in the search for debug information.
    #[must_use]
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }

    /// Address of a file offset. `mapped_from` is the offset at which the recorded mapping
    /// begins; it is needed when only the debug file of a binary exists.
    #[must_use]
    pub(crate) fn svma_of(&self, offset: FileOffset, mapped_from: FileOffset) -> Option<Svma> {
        self.segments.svma_of(offset, mapped_from)
    }

    /// Whether the binary itself was found, not only its debug file.
    pub(crate) fn is_whole(&self) -> bool {
        self.segments.have_contents()
    }

    /// Demangled name and extent of the function at an address, by the symbol table.
    pub(crate) fn routine_at(&self, address: Svma) -> Option<(String, Svma, Svma)> {
        let elf = Elf::parse(&self.binary).ok()?;
        let unwind = UnwindExtents::new(&elf);
        self.tables.iter().find_map(|(image, table)| {
            let symbol = table.find(address, &unwind)?;
            let name = symbol.name(&Elf::parse(image).ok()?)?;
            let name = demangle(&String::from_utf8_lossy(name));
            Some((name, Svma(symbol.start), Svma(symbol.end)))
        })
    }

    /// Looks up addresses; fastest when they are in order.
    #[must_use]
    pub fn resolve(&self, addresses: &[Svma]) -> Symbols {
        let meter = Meter::default();
        let split = SplitUnits::new(self.package.as_ref(), &self.options, &meter);
        let debug = self.debug.as_ref();
        let debug = debug.and_then(|file| DebugInfo::new(file, self.shared.as_ref(), &split));
        let tables = self.tables.iter().filter_map(TableView::new);
        let tables: Vec<_> = tables.collect();
        let unwind = Elf::parse(&self.binary).ok().map(|elf| UnwindExtents::new(&elf));
        let unwind = unwind.unwrap_or_default();
        let mut builder = SymbolsBuilder::default();
        let mut frames = Vec::new();
        for address in addresses {
            frames.clear();
            if let Some(debug) = &debug {
                debug.frames(*address, |frame| frames.push(frame));
            }
            let symbol = tables.iter().find_map(|table| table.name_at(*address, &unwind));
            name_physical(&mut frames, symbol);
            let is_named = frames.iter().any(|frame| frame.name.is_some());
            let start = if is_named { None } else { unwind.function_start(*address) };
            match start.and_then(|start| self.segments.offset_of(start)) {
                Some(start) => builder.push_unnamed(start),
                None => builder.push(&frames),
            }
        }
        builder.finish(!split.were_missing() && !self.lacks_shared)
    }
}

/// Build-id of the ELF binary at `path`; empty if it has none.
///
/// # Errors
/// When the file does not exist or is not an ELF binary.
pub fn build_id_of(path: &Path) -> Result<BuildId, Problem> {
    let image = Image::open(path).map_err(|_| Problem::NotFound)?;
    let damaged =
        |error: object::Error| Problem::Damaged { path: path.to_owned(), reason: error.to_string() };
    Elf::parse(&image).map(|elf| elf.build_id()).map_err(damaged)
}

/// Lets the symbol table name the physical function where DWARF does not, or names it without its
/// scope (`-g1`, `-gmlt`), as binutils' addr2line does.
fn name_physical<'a>(frames: &mut Vec<RawFrame<'a>>, symbol: Option<&'a [u8]>) {
    match (frames.last_mut(), symbol) {
        (None, Some(name)) => frames.push(RawFrame { name: Some(name), ..RawFrame::default() }),
        (Some(physical), Some(name)) => match physical.name {
            None => physical.name = Some(name),
            Some(plain) if is_mangled(name) && !is_mangled(plain) => {
                physical.name = Some(without_cold_suffix(name));
            }
            Some(_) => {}
        },
        (_, None) => {}
    }
}

/// The unlikely part of a function has a symbol of its own (`f.cold`); in DWARF it is `f`.
fn without_cold_suffix(name: &[u8]) -> &[u8] {
    let digits = name.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    let unnumbered = &name[..name.len() - digits];
    let unnumbered = unnumbered.strip_suffix(b".").filter(|_| digits > 0).unwrap_or(name);
    unnumbered.strip_suffix(b".cold").unwrap_or(name)
}

/// A symbol table with the parsed file its names are in.
struct TableView<'a> {
    table: &'a SymbolTable,
    elf: Elf<'a>,
}

impl<'a> TableView<'a> {
    fn new((image, table): &'a (Arc<Image>, SymbolTable)) -> Option<Self> {
        let elf = Elf::parse(image).ok()?;
        Some(Self { table, elf })
    }

    fn name_at(&self, address: Svma, unwind: &UnwindExtents<'_>) -> Option<&'a [u8]> {
        let symbol: Symbol = self.table.find(address, unwind)?;
        symbol.name(&self.elf)
    }
}

/// A full symbol table if there is one, else the dynamic one and what `.gnu_debugdata` adds.
fn symbol_tables(binary: &Arc<Image>, debug: Option<&Arc<Image>>) -> Vec<(Arc<Image>, SymbolTable)> {
    let parsed = |image: &Arc<Image>| {
        let elf = Elf::parse(image).ok()?;
        Some((elf.has_symtab(), SymbolTable::new(&elf)))
    };
    let mut dynamic = Vec::new();
    for image in debug.into_iter().chain([binary]) {
        let Some((is_full, table)) = parsed(image) else {
            continue;
        };
        if is_full && !table.is_empty() {
            return vec![(image.clone(), table)];
        }
        dynamic.push((image.clone(), table));
    }
    let mini = Elf::parse(binary).ok().and_then(|elf| mini_debug::unpack(&binary.path, &elf));
    if let Some(image) = mini.map(Arc::new)
        && let Some((_, table)) = parsed(&image)
    {
        dynamic.push((image, table));
    }
    dynamic
}
