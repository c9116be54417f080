//! skynet-mprof's `.pro` dump. All numbers are big-endian.
//!
//! ```text
//! u32 length of what follows
//! u32 functions, each: u8 length, name, u64 pc
//! records to the end: u32 alloc objects, u32 alloc bytes, u32 free objects, u32 free bytes,
//!                     u32 depth, depth × u64 pc (leaf first)
//! ```

use std::collections::HashMap;

use super::{error::ReadError, limit::Limit, lines::to_text};
use crate::{Function, Line, LocationId, Module, ModuleId, Profile, SizeRange, Values, builder::Builder};

const FORMAT: &str = "skynet-mprof";

/// Where linkers put programs that are not position-independent; below 4 GiB no other code is.
const FIXED_BASE: u64 = 0x40_0000;
const FIXED_END: u64 = 1 << 32;

/// Whether the first word is the length of the rest, which holds for no other format.
pub(super) fn is_length_prefixed(bytes: &[u8]) -> bool {
    let word = bytes.first_chunk::<4>().map(|word| u32::from_be_bytes(*word));
    bytes.len() >= 8 && word.is_some_and(|length| length as usize == bytes.len() - 4)
}

/// Reads a whole file.
pub(super) fn read(bytes: &[u8], limit: Limit) -> Result<Profile, ReadError> {
    // A frame is eight bytes of the file.
    limit.check(FORMAT, (bytes.len() as u64).saturating_mul(4))?;
    let mut cursor = Cursor { bytes, at: 4 };
    let mut builder = Builder::new(FORMAT);
    let names = read_functions(&mut cursor, &mut builder)?;
    let mut frames: Vec<LocationId> = Vec::new();
    while cursor.at < bytes.len() {
        let [alloc_objects, alloc_bytes, free_objects, free_bytes, depth] =
            [cursor.u32()?, cursor.u32()?, cursor.u32()?, cursor.u32()?, cursor.u32()?];
        frames.clear();
        for _ in 0..depth {
            let pc = cursor.u64()?;
            frames.push(builder.address(pc, true));
        }
        let stack = builder.stack(frames.iter().rev().copied());
        let exact = alloc_bytes.checked_div(alloc_objects);
        let block_bytes = exact.filter(|size| size * alloc_objects == alloc_bytes);
        let values = Values {
            alloc_objects: alloc_objects as f64,
            alloc_bytes: alloc_bytes as f64,
            inuse_objects: alloc_objects as f64 - free_objects as f64,
            inuse_bytes: alloc_bytes as f64 - free_bytes as f64,
        };
        builder.add(stack, None, block_bytes.map(SizeRange::one), values, Values::default());
    }
    name_locations(&mut builder, &names);
    Ok(builder.finish())
}

/// Data of a function entry of the file about its pc.
struct Named {
    module: Option<ModuleId>,
    /// Empty where only the offset in the binary is known.
    lines: Vec<Line>,
}

/// A function entry before the binaries are known.
struct Entry {
    text: String,
    pc: u64,
}

fn read_functions(cursor: &mut Cursor<'_>, builder: &mut Builder) -> Result<HashMap<u64, Named>, ReadError> {
    let mut entries = Vec::new();
    for _ in 0..cursor.u32()? {
        let [length] = cursor.array()?;
        let text = to_text(cursor.bytes(length.into())?);
        entries.push(Entry { text, pc: cursor.u64()? });
    }
    let modules = modules(&entries, builder);
    let mut names = HashMap::new();
    for Entry { text, pc } in entries {
        let place = BacktraceSymbol::parse(&text);
        let module = modules.get(place.path).copied();
        // The binary names what has only an offset.
        let is_placed = module.is_some_and(|id| builder.modules()[id.index()].contains(pc));
        let function = |builder: &mut Builder| {
            builder.function(Function {
                name: if place.symbol.is_empty() { text.clone() } else { place.symbol.to_owned() },
                system_name: text.clone(),
                ..Function::default()
            })
        };
        let lines = match place.symbol.is_empty() && is_placed {
            true => Vec::new(),
            false => vec![Line { function: function(builder), line: 0 }],
        };
        names.insert(pc, Named { module, lines });
    }
    Ok(names)
}

/// The binaries of all entries. One with an entry `path(+0xoffset)` is mapped where that offset is
/// at the entry's pc.
fn modules(entries: &[Entry], builder: &mut Builder) -> HashMap<String, ModuleId> {
    let mut modules: HashMap<String, ModuleId> = HashMap::new();
    for Entry { text, pc } in entries {
        let place = BacktraceSymbol::parse(text);
        if place.path.is_empty() {
            continue;
        }
        let id = *modules
            .entry(place.path.to_owned())
            .or_insert_with(|| builder.module(Module { path: place.path.to_owned(), ..Module::default() }));
        let base = match place.offset {
            _ if *pc < FIXED_END => Some(FIXED_BASE),
            Some(offset) if place.symbol.is_empty() => pc.checked_sub(offset),
            _ => None,
        };
        let module = &mut builder.modules()[id.index()];
        if let Some(base) = base.filter(|_| module.start == module.end) {
            (module.start, module.end) = (base, base);
        }
    }
    for Entry { text, pc } in entries {
        let Some(id) = modules.get(BacktraceSymbol::parse(text).path) else { continue };
        let module = &mut builder.modules()[id.index()];
        if module.start != 0 && module.start <= *pc {
            module.end = module.end.max(pc + 1);
        }
    }
    modules
}

/// glibc's `path(symbol+0xoffset) [0xpc]`, possibly cut at 80 bytes.
#[derive(Debug, PartialEq, Eq)]
struct BacktraceSymbol<'a> {
    /// Empty when the text has none.
    path: &'a str,
    /// Empty when only the offset is known, which then counts from the start of the binary.
    symbol: &'a str,
    offset: Option<u64>,
}

impl<'a> BacktraceSymbol<'a> {
    fn parse(text: &'a str) -> Self {
        let Some((path, rest)) = text.split_once('(') else {
            return Self { path: "", symbol: "", offset: None };
        };
        let place = rest.split(')').next().unwrap_or("");
        let (symbol, offset) = place.rsplit_once("+0x").unwrap_or((place, ""));
        // A text that was cut has no whole offset.
        let is_whole = rest.contains(')');
        let offset = u64::from_str_radix(offset, 16).ok().filter(|_| is_whole);
        Self { path, symbol, offset }
    }
}

fn name_locations(builder: &mut Builder, names: &HashMap<u64, Named>) {
    for location in builder.locations() {
        if let Some(named) = names.get(&location.address) {
            location.module = named.module;
            location.lines.clone_from(&named.lines);
        }
    }
}

/// Reads numbers off a slice; every failure names its offset.
struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    fn bytes(&mut self, length: usize) -> Result<&'a [u8], ReadError> {
        let rest = self.bytes.get(self.at..).unwrap_or(&[]);
        let Some(taken) = rest.get(..length) else {
            let what = format!("{length} bytes expected, {} left", rest.len());
            return Err(ReadError::at_byte(FORMAT, self.at, what));
        };
        self.at += length;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], ReadError> {
        let mut array = [0; N];
        array.copy_from_slice(self.bytes(N)?);
        Ok(array)
    }

    fn u32(&mut self) -> Result<u64, ReadError> {
        self.array().map(|word| u32::from_be_bytes(word).into())
    }

    fn u64(&mut self) -> Result<u64, ReadError> {
        self.array().map(u64::from_be_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_of_backtrace_symbols_tells_module_and_function() {
        for (text, path, symbol, offset) in [
            ("./skynet(skynet_malloc+0x21) [0x55d0]", "./skynet", "skynet_malloc", Some(0x21)),
            ("./skynet(+0xb55d) [0x55d0]", "./skynet", "", Some(0xb55d)),
            ("./skynet() [0x55d0]", "./skynet", "", None),
            ("./skynet(a_symbol_that_was_cut+0x2", "./skynet", "a_symbol_that_was_cut", None),
            ("[0x55d0]", "", "", None),
        ] {
            assert_eq!(BacktraceSymbol::parse(text), BacktraceSymbol { path, symbol, offset }, "{text}");
        }
    }

    /// A file with these entries and one block allocated at each pc.
    fn file(entries: &[(&str, u64)]) -> Vec<u8> {
        let mut body = (entries.len() as u32).to_be_bytes().to_vec();
        for (text, pc) in entries {
            body.push(text.len() as u8);
            body.extend(text.as_bytes());
            body.extend(pc.to_be_bytes());
        }
        for (_, pc) in entries {
            [1_u32, 8, 0, 0, 1].iter().for_each(|word| body.extend(word.to_be_bytes()));
            body.extend(pc.to_be_bytes());
        }
        [(body.len() as u32).to_be_bytes().to_vec(), body].concat()
    }

    #[test]
    fn offsets_place_binaries_so_that_they_can_name_addresses() {
        let profile = read(
            &file(&[
                ("./skynet.so(+0xb55d) [0x7f000000b55d]", 0x7f00_0000_b55d),
                ("./skynet.so(f+0x10) [0x7f000000c010]", 0x7f00_0000_c010),
                ("./other.so(g+0x10) [0x7f000100c010]", 0x7f00_0100_c010),
                ("./program(main+0x10) [0x401234]", 0x40_1234),
            ]),
            Limit::default(),
        )
        .unwrap();
        let of = |pc: u64| profile.locations.iter().find(|location| location.address == pc).unwrap();
        let offset = |pc: u64| {
            let module = &profile.modules[of(pc).module.unwrap().index()];
            module.contains(pc).then(|| module.file_offset_of(pc))
        };
        assert_eq!(offset(0x7f00_0000_b55d), Some(0xb55d));
        assert_eq!(offset(0x7f00_0000_c010), Some(0xc010));
        assert_eq!(offset(0x7f00_0100_c010), None);
        assert_eq!(offset(0x40_1234), Some(0x1234));
        assert!(of(0x7f00_0000_b55d).lines.is_empty());
        let name = |pc: u64| &profile.functions[of(pc).lines[0].function.index()];
        assert_eq!(name(0x7f00_0000_c010).name, "f");
        assert!(name(0x7f00_0000_c010).is_backtrace_text() && name(0x40_1234).is_backtrace_text());
    }
}
