//! The memory map of a process: where binaries are, and where there is room near them.

use std::path::{Path, PathBuf};

use crate::binary::Binary;

/// A line of `/proc/PID/maps`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mapping {
    /// First address.
    pub start: u64,
    /// Address behind the last.
    pub end: u64,
    /// Whether it is executable.
    pub is_code: bool,
    /// Place in the file.
    pub offset: u64,
    /// File, or a name in brackets; empty for anonymous memory.
    pub path: String,
}

/// All lines.
#[derive(Debug, Clone, Default)]
pub struct Maps(pub Vec<Mapping>);

const PAGE: u64 = 4096;
/// Farthest distance of an island from the code that jumps to it, with room for the island.
const REACH: u64 = if cfg!(target_arch = "aarch64") { 0x700_0000 } else { 0x7000_0000 };
/// Kept free beside other mappings, which may grow.
const MARGIN: u64 = 0x1_0000;

impl Maps {
    /// Parses the text of `/proc/PID/maps`.
    #[must_use]
    pub fn parse(text: &str) -> Maps {
        Maps(text.lines().filter_map(line).collect())
    }

    /// Files that are mapped as code, in the order of addresses.
    #[must_use]
    pub fn code_files(&self) -> Vec<PathBuf> {
        let mut files: Vec<PathBuf> = Vec::new();
        for mapping in self.0.iter().filter(|mapping| mapping.is_code && mapping.path.starts_with('/')) {
            if !files.iter().any(|file| file == Path::new(&mapping.path)) {
                files.push(mapping.path.clone().into());
            }
        }
        files
    }

    /// Address in the process minus address in the file. By executable segments only: linkers share
    /// pages of the file between the others.
    #[must_use]
    pub fn bias(&self, path: &Path, binary: &Binary) -> Option<u64> {
        let of_file = self.0.iter().filter(|mapping| mapping.is_code && Path::new(&mapping.path) == path);
        of_file.into_iter().find_map(|mapping| {
            let is_there = |offset: u64| offset & !(PAGE - 1) == mapping.offset;
            let code = binary.code.iter().find(|code| is_there(code.offset))?;
            Some(mapping.start.wrapping_sub(code.address & !(PAGE - 1)))
        })
    }

    /// First address and end of everything that is mapped of a file.
    #[must_use]
    pub fn span(&self, path: &Path) -> Option<(u64, u64)> {
        let of_file = || self.0.iter().filter(|mapping| Path::new(&mapping.path) == path);
        Some((of_file().map(|m| m.start).min()?, of_file().map(|m| m.end).max()?))
    }

    /// A place for `len` bytes that code in `span` can jump to, the nearest first. Not right behind
    /// the heap nor right below the stack, which grow.
    #[must_use]
    pub fn room_near(&self, span: (u64, u64), len: u64) -> Vec<u64> {
        let mut places: Vec<u64> = Vec::new();
        let mut last_end = PAGE * 16;
        let mut last_path = "";
        for mapping in &self.0 {
            // The heap may grow by a quarter of what is in reach.
            let below = if last_path == "[heap]" { REACH / 4 } else { MARGIN };
            let gap = mapping.start.saturating_sub(last_end);
            if gap >= len + below + MARGIN {
                places.push(last_end + below);
                if mapping.path != "[stack]" {
                    places.push(mapping.start - len - MARGIN);
                }
            }
            (last_end, last_path) = (mapping.end, &mapping.path);
        }
        let distance = |place: u64| place.abs_diff(span.0).max((place + len).abs_diff(span.1));
        let mut places: Vec<u64> = places.into_iter().map(|place| place & !(PAGE - 1)).collect();
        places.retain(|place| distance(*place) < REACH);
        places.sort_by_key(|place| distance(*place));
        places
    }
}

fn line(text: &str) -> Option<Mapping> {
    let mut fields = text.splitn(6, ' ');
    let (start, end) = fields.next()?.split_once('-')?;
    let hex = |text: &str| u64::from_str_radix(text, 16).ok();
    let protection = fields.next()?;
    let offset = hex(fields.next()?)?;
    let path = fields.nth(2).unwrap_or("").trim().to_owned();
    Some(Mapping { start: hex(start)?, end: hex(end)?, is_code: protection.contains('x'), offset, path })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
00400000-00401000 r--p 00000000 fe:00 1    /bin/a b
00401000-00410000 r-xp 00001000 fe:00 1    /bin/a b
01000000-02000000 rw-p 00000000 00:00 0    [heap]
7f0000000000-7f0000010000 r-xp 00002000 fe:00 2    /lib/c.so
7ffc00000000-7ffc00021000 rw-p 00000000 00:00 0    [stack]
";

    #[test]
    fn lines_are_read() {
        let maps = Maps::parse(TEXT);
        assert_eq!(maps.0.len(), 5);
        assert_eq!(maps.code_files(), [Path::new("/bin/a b"), Path::new("/lib/c.so")]);
        assert_eq!(maps.span(Path::new("/bin/a b")), Some((0x40_0000, 0x41_0000)));
    }

    #[test]
    fn there_is_room_near_code_but_not_where_memory_grows() {
        let maps = Maps::parse(TEXT);
        for path in ["/bin/a b", "/lib/c.so"] {
            let span = maps.span(Path::new(path)).expect("mapped");
            let places = maps.room_near(span, 0x4000);
            assert!(!places.is_empty(), "{path}");
            for place in places {
                let overlaps =
                    maps.0.iter().any(|mapping| place < mapping.end && place + 0x4000 > mapping.start);
                assert!(!overlaps && place.is_multiple_of(PAGE), "{place:x}");
                assert!(!(0x200_0000..0x300_0000).contains(&place), "{place:x}: behind the heap");
            }
        }
    }
}
