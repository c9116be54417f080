//! The probe in a process: its table of entry hooks, found by the symbols of its file.

use std::path::Path;

use heapwise_format::entry_hooks::{
    CELL_ALIGNMENT, CELL_BYTES, CELL_FAMILY, CELL_SHAPE, FAMILY_BYTES, FamilyWord, ISLAND_BYTES,
    LINKED_FAMILY, MOST_CELLS, MOST_ISLANDS, MOST_PATCHES, MOST_RANGES, Patch, RANGE_BYTES, SLOT_BYTES,
    SLOT_REAL, StateWord, TABLE_MAGIC, TABLE_SYMBOL, TableWord, UNKNOWN_FAMILY,
};
use heapwise_hooks::binary::{self, Binary};
use heapwise_hooks::maps::Maps;
use heapwise_hooks::plan::{Hook, Sizes};

use super::memory::ProcessMemory;
use crate::failure::{Failure, Outcome};

/// What is known of the probe from its file: read before any thread is stopped.
#[derive(Debug)]
pub(crate) struct ProbeFile {
    binary: Binary,
    table: u64,
    /// Where the offset of its words from the thread pointer is.
    thread_words: u64,
    /// Its functions that others are redirected to.
    exports: Vec<(String, u64, u64)>,
}

impl ProbeFile {
    /// Reads a library; `exports` are functions that will be needed.
    pub(crate) fn read(library: &Path, exports: &[&str]) -> Outcome<Self> {
        let problem = |what: &str| Failure::file(library, what);
        let [table] = binary::addresses(library, [TABLE_SYMBOL]);
        Ok(Self {
            binary: Binary::read(library, Path::new("/")).ok_or_else(|| problem("is no ELF file"))?,
            table: table.ok_or_else(|| problem("has no table of hooks"))?,
            thread_words: binary::thread_offset_place(library)
                .ok_or_else(|| problem("has no thread words"))?,
            exports: binary::definitions(library, exports),
        })
    }
}

/// The probe in the memory of a process.
#[derive(Debug)]
pub(crate) struct ProbeImage<'a> {
    memory: &'a ProcessMemory,
    file: &'a ProbeFile,
    /// Address in the process minus address in the file.
    bias: u64,
    words: [u64; TableWord::Count as usize],
    /// Offset of the probe's words from the thread pointer.
    pub(crate) thread_words: i64,
}

impl<'a> ProbeImage<'a> {
    /// Finds the probe that was loaded from `mapped`. `None` while the dynamic linker has not
    /// relocated it.
    pub(crate) fn find(
        memory: &'a ProcessMemory,
        maps: &Maps,
        mapped: &Path,
        file: &'a ProbeFile,
    ) -> Outcome<Option<Self>> {
        let problem = |what: &str| Failure::new(format!("the probe in the process: {what}"));
        let bias = maps.bias(mapped, &file.binary).ok_or_else(|| problem("is not mapped, or another one"))?;
        let read = |address| memory.read_word(address).map_err(|error| problem(&error.to_string()));
        let table = bias.wrapping_add(file.table);
        let mut words = [0; TableWord::Count as usize];
        for (row, word) in words.iter_mut().enumerate() {
            *word = read(table + 8 * row as u64)?;
        }
        let thread_words = read(bias.wrapping_add(file.thread_words))? as i64;
        let image = Self { memory, file, bias, words, thread_words };
        if image.word(TableWord::Magic) != TABLE_MAGIC {
            return Err(problem("is of another version"));
        }
        let is_relocated = maps.span(mapped).is_some_and(|(start, end)| {
            (start..end).contains(&image.word(TableWord::Stub)) && image.thread_words != 0
        });
        Ok(is_relocated.then_some(image))
    }

    pub(crate) fn word(&self, word: TableWord) -> u64 {
        self.words[word as usize]
    }

    pub(crate) fn state(&self, word: StateWord) -> Outcome<u64> {
        self.memory.read_word(self.word(TableWord::State) + 8 * word as u64).map_err(changed)
    }

    pub(crate) fn set_state(&self, word: StateWord, value: u64) -> Outcome {
        self.memory.write_word(self.word(TableWord::State) + 8 * word as u64, value).map_err(changed)
    }

    /// Address of a cell.
    pub(crate) fn cell(&self, index: usize) -> u64 {
        self.word(TableWord::Cells) + (CELL_BYTES * index) as u64
    }

    /// Writes the cell of a function whose moved beginning is at `real`.
    pub(crate) fn set_cell(&self, index: usize, real: u64, hook: &Hook, family: usize) -> Outcome {
        if index >= MOST_CELLS {
            return Err(Failure::new("too many functions to hook"));
        }
        let write = |offset: usize, word: u64| {
            self.memory.write_word(self.cell(index) + offset as u64, word).map_err(changed)
        };
        write(0, real)?;
        write(CELL_SHAPE, hook.shape.word())?;
        write(CELL_FAMILY, family as u64)?;
        write(CELL_ALIGNMENT, hook.alignment.word())
    }

    /// The number of a family, whose row is written unless an earlier attach has: the probe may
    /// know sizes of its blocks.
    pub(crate) fn family(&self, sizes: &Sizes) -> Outcome<usize> {
        if sizes.is_linked {
            return Ok(LINKED_FAMILY);
        }
        let (classes, count) = sizes.classes.unwrap_or_default();
        // In the order of `FamilyWord`.
        let wanted = [sizes.usable_size.unwrap_or(0), classes, count, sizes.natural_alignment];
        if wanted[..2] == [0, 0] {
            return Ok(UNKNOWN_FAMILY);
        }
        for number in LINKED_FAMILY + 1..UNKNOWN_FAMILY {
            let row = self.word(TableWord::Families) + (FAMILY_BYTES * number) as u64;
            let word = |index: usize| self.memory.read_word(row + 8 * index as u64).map_err(changed);
            let known = [word(0)?, word(1)?, word(2)?, word(3)?];
            if known == wanted {
                return Ok(number);
            }
            if known == [0; FamilyWord::Count as usize] {
                let bytes: Vec<u8> = wanted.iter().flat_map(|word| word.to_le_bytes()).collect();
                return self.memory.write(row, &bytes).map_err(changed).map(|()| number);
            }
        }
        Ok(UNKNOWN_FAMILY)
    }

    /// Adds an island to those that the probe switches.
    pub(crate) fn add_island(&self, address: u64, len: u64) -> Outcome {
        let rows = self.word(TableWord::Islands);
        for row in (0..MOST_ISLANDS).map(|row| rows + (ISLAND_BYTES * row) as u64) {
            if self.memory.read_word(row).map_err(changed)? == 0 {
                self.memory.write_word(row + 8, len).map_err(changed)?;
                return self.memory.write_word(row, address).map_err(changed);
            }
        }
        Err(Failure::new("too many binaries with hooked functions"))
    }

    /// Sets the ranges of allocators' code; the first one holds all others.
    pub(crate) fn set_ranges(&self, ranges: &[(u64, u64)]) -> Outcome {
        let start = ranges.iter().map(|(start, _)| *start).min().unwrap_or(0);
        let end = ranges.iter().map(|(start, len)| start + len).max().unwrap_or(0);
        let all = std::iter::once((start, end - start)).chain(ranges.iter().copied()).take(MOST_RANGES);
        for (row, (start, len)) in all.enumerate() {
            let place = self.word(TableWord::Ranges) + (RANGE_BYTES * row) as u64;
            self.memory.write_word(place, start).map_err(changed)?;
            self.memory.write_word(place + 8, len).map_err(changed)?;
        }
        Ok(())
    }

    /// Address and length of each island.
    pub(crate) fn islands(&self) -> Outcome<Vec<(u64, u64)>> {
        let bytes = self.memory.read(self.word(TableWord::Islands), MOST_ISLANDS * ISLAND_BYTES);
        let bytes = bytes.map_err(changed)?;
        let word = |row: &[u8], at: usize| heapwise_format::bytes::u64_at(row, at).unwrap_or(0);
        let rows = bytes.chunks_exact(ISLAND_BYTES).map(|row| (word(row, 0), word(row, 8)));
        Ok(rows.filter(|(address, _)| *address != 0).collect())
    }

    /// Makes `real` the function that the probe's function `name` calls; the address of the latter.
    pub(crate) fn redirect(&self, name: &str, real: u64) -> Outcome<u64> {
        let export = self.file.exports.iter().find(|(known, ..)| known == name);
        let (_, address, _) = export.ok_or_else(|| Failure::new(format!("the probe has no {name}")))?;
        for row in 0..self.word(TableWord::SlotCount) {
            let text = self.memory.read_word(self.word(TableWord::SlotNames) + 8 * row).map_err(changed)?;
            let known = self.memory.read(text, name.len() + 1).map_err(changed)?;
            if known.strip_suffix(b"\0") == Some(name.as_bytes()) {
                let place = self.word(TableWord::Slots) + row * SLOT_BYTES as u64 + SLOT_REAL as u64;
                self.memory.write_word(place, real).map_err(changed)?;
                return Ok(self.bias.wrapping_add(*address));
            }
        }
        Err(Failure::new(format!("the probe does not hook {name}")))
    }

    /// The patches that controllers have applied.
    pub(crate) fn patches(&self) -> Outcome<Vec<Patch>> {
        let bytes = self.memory.read(self.word(TableWord::Patches), MOST_PATCHES * Patch::BYTES);
        let bytes = bytes.map_err(changed)?;
        Ok(bytes.chunks_exact(Patch::BYTES).map_while(Patch::from_bytes).collect())
    }

    /// Notes what will be replaced, before it is.
    pub(crate) fn set_patches(&self, patches: &[Patch]) -> Outcome {
        if patches.len() >= MOST_PATCHES {
            return Err(Failure::new("too many functions to hook"));
        }
        let mut bytes: Vec<u8> = patches.iter().flat_map(Patch::bytes).collect();
        bytes.resize(MOST_PATCHES * Patch::BYTES, 0);
        self.memory.write(self.word(TableWord::Patches), &bytes).map_err(changed)
    }
}

fn changed(error: std::io::Error) -> Failure {
    Failure::new(format!("the memory of the process: {error}"))
}
