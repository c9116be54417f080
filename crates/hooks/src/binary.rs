//! An ELF file: its functions from every symbol table, and its code.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};

use object::read::ReadRef;
use object::read::elf::{Dyn as _, FileHeader as _, ProgramHeader as _};
use object::{Object, ObjectSymbol, RelocationFlags, SymbolKind, elf};

use crate::file_blocks::{Elf, FileBlocks};
use crate::function::{self, Allocator};
use crate::symbol_search;
use crate::texts;

/// Where a symbol is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Table {
    /// `.dynsym`: the dynamic linker sees it.
    Dynamic,
    /// `.symtab`.
    Full,
    /// `.symtab` of a separate debug file.
    DebugFile,
}

/// A defined function whose name may be that of an allocation function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Symbol {
    /// Name without a version.
    pub name: String,
    /// Address in the file's own address space.
    pub address: u64,
    /// Bytes of code; 0 when the file does not say.
    pub size: u64,
    /// The most visible table that has it.
    pub table: Table,
}

/// A piece of a file that is mapped as code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Code {
    /// First address, in the file's own address space.
    pub address: u64,
    /// Where it is in the file.
    pub offset: u64,
    /// Bytes.
    pub bytes: u64,
}

/// What is known of an ELF file.
#[derive(Debug, Clone, Default)]
pub struct Binary {
    /// Functions that may be an allocator's, by address; none when none of them identifies an
    /// allocator.
    pub symbols: Vec<Symbol>,
    /// Arrays of size classes.
    pub classes: Vec<Symbol>,
    /// Whether `.symtab` or a debug file was there.
    pub has_full_table: bool,
    /// Addresses of functions that are certainly not an allocator's.
    pub others: Vec<u64>,
    /// Executable segments.
    pub code: Vec<Code>,
    /// Names of needed libraries.
    pub needed: Vec<String>,
    /// Whether a dynamic linker loads it.
    pub is_dynamic: bool,
    /// Allocators whose messages are among the constants.
    pub texts: Vec<Allocator>,
}

impl Binary {
    /// Reads a file; `None` when it is not a 64-bit ELF file. `root` is the file system in which
    /// separate debug files are looked for.
    #[must_use]
    pub fn read(path: &Path, root: &Path) -> Option<Binary> {
        Self::read_in(path, path.parent().unwrap_or(root), root)
    }

    /// As [`Binary::read`], for a file that is in the directory `folder` of `root`.
    #[must_use]
    pub fn read_in(path: &Path, folder: &Path, root: &Path) -> Option<Binary> {
        let opened = open(path)?;
        let symbol_search::Found { mut has_full_table, may_define } = symbol_search::search(&opened)?;
        let blocks = FileBlocks::new(opened.try_clone().ok()?);
        let file = Elf::parse(&blocks).ok()?;
        let mut symbols = Symbols::default();
        if may_define {
            symbols.add(file.dynamic_symbols(), Table::Dynamic);
            symbols.add(file.symbols(), Table::Full);
        }
        let texts = texts::allocators(&file, &opened);
        let may_have_allocator = !texts.is_empty() || symbols.has("malloc");
        if !has_full_table && may_have_allocator {
            let build_id = file.build_id().ok().flatten();
            let files = debug_files(folder, root, &file);
            has_full_table = files.iter().any(|path| symbols.add_file(path, build_id));
        }
        Some(Binary {
            symbols: symbols.candidates.into_values().flatten().collect(),
            classes: symbols.classes,
            others: symbols.others,
            has_full_table,
            code: code(&file),
            needed: needed(&file).unwrap_or_default(),
            is_dynamic: has_interpreter(&file),
            texts,
        })
    }

    /// The defined function of this name.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<&Symbol> {
        self.symbols.iter().find(|symbol| symbol.name == name)
    }
}

/// Whether a file may define functions of an allocator, in its own symbols or in those of a
/// separate debug file. False is certain, and is found without reading the symbols. The file is in
/// the directory `folder` of `root`.
#[must_use]
pub fn may_define_allocator(path: &Path, folder: &Path, root: &Path) -> bool {
    let search = || {
        let opened = open(path)?;
        let found = symbol_search::search(&opened)?;
        if found.may_define || found.has_full_table {
            return Some(found.may_define);
        }
        let blocks = FileBlocks::new(opened);
        let file = Elf::parse(&blocks).ok()?;
        let files = debug_files(folder, root, &file);
        Some(files.iter().any(|path| path.exists()))
    };
    search().unwrap_or(false)
}

/// Functions by address: those with several names have several.
#[derive(Default)]
struct Symbols {
    candidates: BTreeMap<u64, Vec<Symbol>>,
    classes: Vec<Symbol>,
    others: Vec<u64>,
}

/// Whether a function is certainly not part of an allocator: a Rust function, a C++ function or a
/// visible C function whose name has nothing to do with memory.
fn is_other(name: &str, is_global: bool) -> bool {
    const WORDS: [&str; 10] =
        ["alloc", "heap", "free", "je_", "mi_", "tc_", "mall", "tcmalloc", "Heap", "Span"];
    let is_rust = name.starts_with("_R") || name.starts_with("_ZN") && name.contains("17h");
    let is_cpp = name.starts_with("_Z");
    is_rust || (is_cpp || is_global) && !WORDS.iter().any(|word| name.contains(word))
}

impl Symbols {
    fn add<'data>(&mut self, symbols: impl Iterator<Item = impl ObjectSymbol<'data>>, table: Table) {
        for symbol in symbols.filter(|symbol| symbol.is_definition()) {
            let Ok(name) = symbol.name() else { continue };
            let name = name.split('@').next().unwrap_or(name);
            let found =
                || Symbol { name: name.into(), address: symbol.address(), size: symbol.size(), table };
            if symbol.kind() != SymbolKind::Text {
                if name.ends_with(function::CLASSES) {
                    self.classes.push(found());
                }
            } else if function::is_candidate(name) {
                self.put(found());
            } else if is_other(name, symbol.is_global()) {
                self.others.push(symbol.address());
            }
        }
    }

    fn put(&mut self, symbol: Symbol) {
        let names = self.candidates.entry(symbol.address).or_default();
        if !names.iter().any(|known| known.name == symbol.name) {
            names.push(symbol);
        }
    }

    fn has(&self, name: &str) -> bool {
        self.candidates.values().flatten().any(|symbol| symbol.name == name)
    }

    /// Adds those of a debug file; false when it has none, or is of another build: its addresses
    /// are not those of the program.
    fn add_file(&mut self, path: &Path, build_id: Option<&[u8]>) -> bool {
        let Some(file) = open(path) else { return false };
        let blocks = FileBlocks::new(file);
        let Ok(file) = Elf::parse(&blocks) else { return false };
        let is_other = |own: &[u8]| build_id.is_some_and(|wanted| wanted != own);
        if file.build_id().ok().flatten().is_some_and(is_other) {
            return false;
        }
        self.add(file.symbols(), Table::DebugFile);
        file.symbols().next().is_some()
    }
}

/// Opens a regular file: a pipe would block, and opening a device may have effects.
fn open(path: &Path) -> Option<File> {
    path.metadata().is_ok_and(|data| data.is_file()).then(|| File::open(path).ok())?
}

/// Files that may have the symbols of a stripped one: by build-id, and by the debug link.
fn debug_files<'data, R: ReadRef<'data>>(folder: &Path, root: &Path, file: &Elf<'data, R>) -> Vec<PathBuf> {
    let mut found = Vec::new();
    if let Ok(Some([first, rest @ ..])) = file.build_id() {
        let rest: String = rest.iter().map(|byte| format!("{byte:02x}")).collect();
        found.push(root.join(format!("usr/lib/debug/.build-id/{first:02x}/{rest}.debug")));
    }
    let link = file.gnu_debuglink().ok().flatten().and_then(|(name, _)| std::str::from_utf8(name).ok());
    if let Some(name) = link.filter(|name| !name.contains('/')) {
        found.extend([folder.join(name), folder.join(".debug").join(name)]);
    }
    found
}

fn code<'data, R: ReadRef<'data>>(file: &Elf<'data, R>) -> Vec<Code> {
    let endian = file.endian();
    let headers = file.elf_program_headers().iter();
    let code = headers.filter(|header| {
        header.p_type(endian) == elf::PT_LOAD && header.p_flags(endian).0 & elf::PF_X.0 != 0
    });
    code.map(|header| Code {
        address: header.p_vaddr(endian),
        offset: header.p_offset(endian),
        bytes: header.p_filesz(endian),
    })
    .collect()
}

fn has_interpreter<'data, R: ReadRef<'data>>(file: &Elf<'data, R>) -> bool {
    file.elf_program_headers().iter().any(|header| header.p_type(file.endian()) == elf::PT_INTERP)
}

fn needed<'data, R: ReadRef<'data>>(file: &Elf<'data, R>) -> Option<Vec<String>> {
    let endian = file.endian();
    let sections = file.elf_header().sections(endian, file.data()).ok()?;
    let (entries, link) = sections.dynamic(endian, file.data()).ok()??;
    let strings = sections.strings(endian, file.data(), link).ok()?;
    let names = entries.iter().filter(|entry| entry.tag(endian) == elf::DT_NEEDED);
    let text = |entry: &elf::Dyn64<_>| {
        let name = entry.string(endian, strings).ok()?;
        Some(String::from_utf8_lossy(name).into_owned())
    };
    Some(names.filter_map(text).collect())
}

/// Addresses of symbols by their names, in the file's own address space; `None` for each that the
/// file does not define.
#[must_use]
pub fn addresses<const N: usize>(path: &Path, names: [&str; N]) -> [Option<u64>; N] {
    let found = definitions(path, &names);
    names.map(|name| found.iter().find(|(known, ..)| known == name).map(|(_, address, _)| *address))
}

/// Name, address and size of each of these symbols that a file defines.
#[must_use]
pub fn definitions(path: &Path, names: &[&str]) -> Vec<(String, u64, u64)> {
    let mut found: Vec<(String, u64, u64)> = Vec::new();
    let Ok(file) = File::open(path) else { return found };
    let blocks = FileBlocks::new(file);
    let Ok(file) = Elf::parse(&blocks) else { return found };
    for symbol in file.dynamic_symbols().chain(file.symbols()).filter(ObjectSymbol::is_definition) {
        let name = symbol.name().unwrap_or_default();
        let name = name.split('@').next().unwrap_or(name);
        if names.contains(&name) && !found.iter().any(|(known, ..)| known == name) {
            found.push((name.to_owned(), symbol.address(), symbol.size()));
        }
        if found.len() == names.len() {
            break;
        }
    }
    found
}

/// Where the dynamic linker stores the offset of the file's thread-local block from the thread
/// pointer, for a file that has one such place.
#[must_use]
pub fn thread_offset_place(path: &Path) -> Option<u64> {
    let blocks = FileBlocks::new(File::open(path).ok()?);
    let file = Elf::parse(&blocks).ok()?;
    let wanted = if cfg!(target_arch = "aarch64") { elf::R_AARCH64_TLS_TPREL } else { elf::R_X86_64_TPOFF64 };
    let is_wanted = |flags| matches!(flags, RelocationFlags::Elf { r_type } if r_type == wanted);
    let mut all = file.dynamic_relocations()?;
    all.find(|(_, relocation)| is_wanted(relocation.flags())).map(|(place, _)| place)
}
