//! The heap of a Java virtual machine that was there before an attach: the machine reserves it at
//! its start, and has a table of its fields for debuggers.

use std::fs::File;
use std::os::unix::fs::FileExt;

use heapwise_format::bytes::u64_at;
use heapwise_hooks::binary;

use super::smaps::Area;
use super::span::{Claim, Owner};
use crate::process_files::{MappedFile, Readable};

/// A row of the table: name of the type, name of the field, its type, whether it is static, its
/// offset, its address.
const ROW_BYTES: usize = 48;
const OFFSET: usize = 32;
const ADDRESS: usize = 40;
/// Larger than the table of any version.
const MOST_ROWS: u64 = 20_000;

/// Finds it; `None` for other programs.
pub(super) fn find(pid: u32, areas: &[Area]) -> Option<Claim> {
    let library = areas.iter().find(|area| area.path.ends_with("/libjvm.so"))?;
    let Area { start, end, inode, .. } = *library;
    let mapped = MappedFile { pid, start, end, path: library.path.clone().into(), inode: Some(inode) };
    let [table] = binary::addresses(&Readable::of(&mapped).ok()?.path, ["gHotSpotVMStructs"]);
    let memory = Memory(File::open(format!("/proc/{pid}/mem")).ok()?);
    let (heap, bytes) = memory.reserved(memory.word(start.checked_add(table?)?)?)?;
    let owner = Some(Owner::Runtime("JVM heap".into()));
    (bytes > 0).then_some(Claim { start: heap, end: heap.checked_add(bytes)?, owner, node: None })
}

/// Memory of the process.
struct Memory(File);

impl Memory {
    fn word(&self, at: u64) -> Option<u64> {
        let mut bytes = [0; 8];
        self.0.read_exact_at(&mut bytes, at).ok()?;
        Some(u64::from_le_bytes(bytes))
    }

    fn is_text(&self, at: u64, text: &str) -> bool {
        let mut bytes = vec![0; text.len() + 1];
        self.0.read_exact_at(&mut bytes, at).is_ok() && bytes.strip_suffix(b"\0") == Some(text.as_bytes())
    }

    /// Start and length of the heap, by the table at an address.
    fn reserved(&self, table: u64) -> Option<(u64, u64)> {
        let (mut heap, mut offset) = (None, None);
        for row in 0..MOST_ROWS {
            let mut bytes = [0; ROW_BYTES];
            self.0.read_exact_at(&mut bytes, table.checked_add(row * ROW_BYTES as u64)?).ok()?;
            let word = |at| u64_at(&bytes, at);
            let (kind, field) = (word(0)?, word(8)?);
            if kind == 0 {
                break;
            }
            let is = |name: &str, of: &str| self.is_text(field, name) && self.is_text(kind, of);
            if is("_collectedHeap", "Universe") {
                heap = self.word(word(ADDRESS)?);
            } else if is("_reserved", "CollectedHeap") {
                offset = word(OFFSET);
            }
            if let (Some(heap), Some(offset)) = (heap, offset) {
                // A first address and a number of words.
                let words = self.word(heap.checked_add(offset)?.checked_add(8)?)?;
                return Some((self.word(heap + offset)?, words.checked_mul(8)?));
            }
        }
        None
    }
}
