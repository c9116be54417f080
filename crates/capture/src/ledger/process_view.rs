//! The kernel's view of a process: its mappings, its threads, the start of its large blocks.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;

use super::page_map::PageMap;
use super::smaps::{self, Area};
use super::span::{Claim, Owner, Span};

/// A thread.
#[derive(Debug)]
pub(super) struct Thread {
    /// Name and id.
    pub(super) name: String,
    /// Stack pointer; `None` while the thread runs, or without permission.
    pub(super) stack_pointer: Option<u64>,
}

/// What `/proc` shows of a process.
#[derive(Debug)]
pub(super) struct ProcessView {
    pub(super) pid: u32,
    pub(super) areas: Vec<Area>,
    pub(super) threads: Vec<Thread>,
    pub(super) pages: PageMap,
}

impl ProcessView {
    /// Reads it; `None` when the process has ended or may not be read.
    pub(super) fn read(pid: u32) -> Option<Self> {
        let threads = threads(pid);
        let areas = smaps::parse(&fs::read_to_string(format!("/proc/{pid}/smaps")).ok()?);
        (!areas.is_empty()).then(|| Self { pid, areas, threads, pages: PageMap::open(pid) })
    }

    /// Large blocks of glibc in spans of unknown origin. Each has a mapping of its own, which
    /// starts with 0 and its size, marked as mapped.
    pub(super) fn large_blocks(&self, spans: &[Span]) -> Vec<Claim> {
        let Ok(memory) = File::open(format!("/proc/{}/mem", self.pid)) else { return Vec::new() };
        let page = self.pages.page_bytes;
        let mut claims = Vec::new();
        for span in spans.iter().filter(|span| span.owner == Owner::Unknown) {
            let area = &self.areas[span.area];
            if area.resident == 0 || area.permissions != "rw-p" {
                continue;
            }
            for (start, end) in self.pages.resident(area) {
                let mut at = start.max(span.start);
                while at < end.min(span.end) {
                    let bytes = large_block(&memory, at, span.end - at, page);
                    let size = bytes.unwrap_or(page);
                    if bytes.is_some() {
                        claims.push(Claim {
                            start: at,
                            end: at + size,
                            owner: Some(Owner::Heap),
                            node: None,
                        });
                    }
                    at += size;
                }
            }
        }
        claims
    }

    /// The thread whose stack pointer is in a range.
    pub(super) fn thread_in(&self, start: u64, end: u64) -> Option<&str> {
        let is_inside = |thread: &&Thread| thread.stack_pointer.is_some_and(|sp| (start..end).contains(&sp));
        self.threads.iter().find(is_inside).map(|thread| thread.name.as_str())
    }
}

/// Bytes of the large block that starts at an address, at most `room`.
fn large_block(memory: &File, at: u64, room: u64, page: u64) -> Option<u64> {
    /// In the size word of glibc: the block has a mapping of its own.
    const IS_MAPPED: u64 = 2;
    let mut words = [0; 16];
    memory.read_exact_at(&mut words, at).ok()?;
    let [before, size] =
        [0, 8].map(|at| u64::from_le_bytes(words[at..at + 8].try_into().unwrap_or_default()));
    let bytes = size & !7;
    (before == 0 && size & 7 == IS_MAPPED && bytes.is_multiple_of(page) && (1..=room).contains(&bytes))
        .then_some(bytes)
}

fn threads(pid: u32) -> Vec<Thread> {
    let Ok(entries) = fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    let read = |tid: &str| {
        let file = |name: &str| fs::read_to_string(format!("/proc/{pid}/task/{tid}/{name}")).ok();
        let name = file("comm").unwrap_or_default();
        // `number arguments… sp pc`, or `running`.
        let stack_pointer = file("syscall").and_then(|line| {
            let word = line.split_whitespace().rev().nth(1)?.strip_prefix("0x")?.to_owned();
            u64::from_str_radix(&word, 16).ok()
        });
        Thread { name: format!("{} {tid}", name.trim_end()), stack_pointer }
    };
    entries.flatten().filter_map(|entry| Some(read(entry.file_name().to_str()?))).collect()
}
