//! `/proc/PID/pagemap`: which pages of a process are resident.

use std::fs::File;
use std::os::unix::fs::FileExt;

use super::smaps::Area;

/// Page is in memory.
const PRESENT: u64 = 1 << 63;
/// Page is in memory and mapped by no other page table entry.
const EXCLUSIVE: u64 = 1 << 56;
/// Entries read at once: 128 MiB of addresses.
const BLOCK_PAGES: u64 = 1 << 15;

/// Resident pages as runs of addresses, in order.
pub(super) type Runs = Vec<(u64, u64)>;

/// The page map of a process.
#[derive(Debug)]
pub(super) struct PageMap {
    file: Option<File>,
    /// Bytes of a page.
    pub(super) page_bytes: u64,
}

impl PageMap {
    /// Opens the map; without permission every area is approximated by its first bytes.
    pub(super) fn open(pid: u32) -> Self {
        let file = File::open(format!("/proc/{pid}/pagemap")).ok();
        Self { file, page_bytes: rustix::param::page_size() as u64 }
    }

    /// The resident pages of an area. The zero page, which the kernel maps where a program only
    /// read, is present and not counted as resident; it is never exclusive.
    pub(super) fn resident(&self, area: &Area) -> Runs {
        if area.resident == 0 {
            return Vec::new();
        }
        if area.resident == area.bytes() {
            return vec![(area.start, area.end)];
        }
        let present = self.runs(area, PRESENT);
        if bytes(&present) <= area.resident {
            return present;
        }
        let exclusive = self.runs(area, PRESENT | EXCLUSIVE);
        let distance = |runs: &Runs| bytes(runs).abs_diff(area.resident);
        if distance(&exclusive) < distance(&present) { exclusive } else { present }
    }

    fn runs(&self, area: &Area, wanted: u64) -> Runs {
        let Some(file) = &self.file else {
            return vec![(area.start, area.start + area.resident.min(area.bytes()))];
        };
        let mut runs = Runs::new();
        let mut buffer = vec![0; (BLOCK_PAGES * 8) as usize];
        let mut page = area.start / self.page_bytes;
        let end = area.end / self.page_bytes;
        while page < end {
            let bytes = ((end - page).min(BLOCK_PAGES) * 8) as usize;
            let got = file.read_at(&mut buffer[..bytes], page * 8).unwrap_or(0) / 8 * 8;
            if got == 0 {
                break;
            }
            for entry in buffer[..got].chunks_exact(8) {
                let entry = u64::from_le_bytes(entry.try_into().unwrap_or_default());
                if entry & wanted == wanted {
                    push(&mut runs, page * self.page_bytes, (page + 1) * self.page_bytes);
                }
                page += 1;
            }
        }
        runs
    }
}

fn push(runs: &mut Runs, start: u64, end: u64) {
    match runs.last_mut() {
        Some(last) if last.1 == start => last.1 = end,
        _ => runs.push((start, end)),
    }
}

/// Bytes of all runs.
pub(super) fn bytes(runs: &[(u64, u64)]) -> u64 {
    runs.iter().map(|(start, end)| end - start).sum()
}

/// The parts of runs between two addresses.
pub(super) fn clip(runs: &[(u64, u64)], start: u64, end: u64) -> Runs {
    let first = runs.partition_point(|run| run.1 <= start);
    let inside = runs[first..].iter().take_while(|run| run.0 < end);
    inside.map(|run| (run.0.max(start), run.1.min(end))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_clipped() {
        let runs = [(0x1000, 0x3000), (0x5000, 0x6000), (0x8000, 0x9000)];
        assert_eq!(clip(&runs, 0x2000, 0x8000), [(0x2000, 0x3000), (0x5000, 0x6000)]);
        assert_eq!(bytes(&clip(&runs, 0x3000, 0x5000)), 0);
    }

    #[test]
    fn touched_pages_of_this_process_are_resident() {
        let map = PageMap::open(std::process::id());
        let page = map.page_bytes;
        let memory = vec![1_u8; 64 << 10];
        let start = (memory.as_ptr() as u64).next_multiple_of(page);
        let area = Area { start, end: start + 8 * page, resident: 7 * page, ..Area::default() };
        assert_eq!(bytes(&map.runs(&area, PRESENT)), 8 * page);
        drop(memory);
    }
}
