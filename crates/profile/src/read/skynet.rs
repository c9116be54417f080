//! skynet-mprof's `.pro` dump. All numbers are big-endian.
//!
//! ```text
//! u32 length of what follows
//! u32 functions, each: u8 length, name, u64 pc
//! records to the end: u32 alloc objects, u32 alloc bytes, u32 free objects, u32 free bytes,
//!                     u32 depth, depth × u64 pc (leaf first)
//! ```

use std::collections::HashMap;

use super::{error::ReadError, lines::to_text};
use crate::{Function, Line, LocationId, Module, ModuleId, Profile, SizeRange, Values, builder::Builder};

const FORMAT: &str = "skynet-mprof";

/// Whether the first word is the length of the rest, which holds for no other format.
pub(super) fn is_length_prefixed(bytes: &[u8]) -> bool {
    let word = bytes.first_chunk::<4>().map(|word| u32::from_be_bytes(*word));
    bytes.len() >= 8 && word.is_some_and(|length| length as usize == bytes.len() - 4)
}

/// Reads a whole file.
pub(super) fn read(bytes: &[u8]) -> Result<Profile, ReadError> {
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
    line: Line,
}

fn read_functions(cursor: &mut Cursor<'_>, builder: &mut Builder) -> Result<HashMap<u64, Named>, ReadError> {
    let mut modules = HashMap::new();
    let mut names = HashMap::new();
    for _ in 0..cursor.u32()? {
        let [length] = cursor.array()?;
        let text = to_text(cursor.bytes(length.into())?);
        let pc = cursor.u64()?;
        let (path, symbol) = split_backtrace_symbol(&text);
        let module = path.map(|path| {
            *modules
                .entry(path.to_owned())
                .or_insert_with(|| builder.module(Module { path: path.to_owned(), ..Module::default() }))
        });
        let function = builder.function(Function {
            name: symbol.unwrap_or(&text).to_owned(),
            system_name: text.clone(),
            ..Function::default()
        });
        names.insert(pc, Named { module, line: Line { function, line: 0 } });
    }
    Ok(names)
}

/// glibc's `path(symbol+0xoffset) [0xpc]`, possibly cut at 80 bytes, into path and symbol.
fn split_backtrace_symbol(text: &str) -> (Option<&str>, Option<&str>) {
    let Some((path, rest)) = text.split_once('(') else {
        return (None, None);
    };
    let symbol = rest.split(['+', ')']).next().unwrap_or("");
    (Some(path), Some(symbol).filter(|symbol| !symbol.is_empty()))
}

fn name_locations(builder: &mut Builder, names: &HashMap<u64, Named>) {
    for location in builder.locations() {
        if let Some(named) = names.get(&location.address) {
            location.module = named.module;
            location.lines = vec![named.line];
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
        let split = split_backtrace_symbol;
        assert_eq!(split("./skynet(skynet_malloc+0x21) [0x55d0]"), (Some("./skynet"), Some("skynet_malloc")));
        assert_eq!(split("./skynet(+0x21) [0x55d0]"), (Some("./skynet"), None));
        assert_eq!(split("./skynet() [0x55d0]"), (Some("./skynet"), None));
        assert_eq!(split("[0x55d0]"), (None, None));
    }
}
