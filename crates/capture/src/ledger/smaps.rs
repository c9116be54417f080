//! `/proc/PID/smaps`: the mappings of a process and how much of each is resident.

use heapwise_profile::proc_maps::Mapping;

/// One mapping, as the kernel sees it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Area {
    pub(super) start: u64,
    pub(super) end: u64,
    /// `rw-p`.
    pub(super) permissions: String,
    /// File, `[heap]`, `[anon:name]` or nothing; without ` (deleted)`.
    pub(super) path: String,
    /// Inode of the file; 0 without one.
    pub(super) inode: u64,
    /// Resident bytes.
    pub(super) resident: u64,
    /// Resident bytes, shared pages divided by their users.
    pub(super) proportional: u64,
    /// Bytes swapped out.
    pub(super) swapped: u64,
    /// Resident bytes that the kernel may take back.
    pub(super) lazily_free: u64,
    /// Mapped without a reserve of swap space and left out of core dumps, as the probe maps its
    /// tables.
    pub(super) is_like_probe: bool,
}

impl Area {
    pub(super) fn is_executable(&self) -> bool {
        self.permissions.as_bytes().get(2) == Some(&b'x')
    }

    /// Name of the memfd that is mapped: `memfd:pool`.
    pub(super) fn memfd(&self) -> Option<&str> {
        self.path.strip_prefix('/').filter(|path| path.starts_with("memfd:"))
    }

    pub(super) fn is_shared(&self) -> bool {
        self.permissions.ends_with('s')
    }

    pub(super) fn bytes(&self) -> u64 {
        self.end - self.start
    }
}

/// Parses the text; unknown lines are skipped.
pub(super) fn parse(text: &str) -> Vec<Area> {
    let mut areas: Vec<Area> = Vec::new();
    for line in text.lines() {
        if let Some(mapping) = Mapping::parse(line) {
            areas.push(Area {
                start: mapping.start,
                end: mapping.end,
                permissions: mapping.permissions.to_owned(),
                path: mapping.path.trim_end_matches(" (deleted)").to_owned(),
                inode: mapping.inode,
                ..Area::default()
            });
        } else if let (Some(flags), Some(area)) = (line.strip_prefix("VmFlags:"), areas.last_mut()) {
            area.is_like_probe = ["nr", "dd"].iter().all(|flag| flags.split(' ').any(|word| word == *flag));
        } else if let (Some((name, bytes)), Some(area)) = (field(line), areas.last_mut()) {
            match name {
                "Rss" => area.resident = bytes,
                "Pss" => area.proportional = bytes,
                "Swap" => area.swapped = bytes,
                "LazyFree" => area.lazily_free = bytes,
                _ => {}
            }
        }
    }
    areas
}

/// A line `Name:   12 kB`, in bytes.
pub(super) fn field(line: &str) -> Option<(&str, u64)> {
    let (name, rest) = line.split_once(':')?;
    let kilobytes: u64 = rest.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some((name, kilobytes * 1024))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_belong_to_the_mapping_above_them() {
        let text = "\
7f10000-7f12000 rw-s 00000000 08:01 12   /dev/shm/pool (deleted)
Size:                  8 kB
Rss:                   8 kB
Pss:                   4 kB
Swap:                  4 kB
LazyFree:              0 kB
VmFlags: rd wr sh mr mw me ms nr dd sd
7f20000-7f21000 ---p 00000000 00:00 0
Rss:                   0 kB
";
        let areas = parse(text);
        assert_eq!(areas.len(), 2);
        assert_eq!((areas[0].path.as_str(), areas[0].is_shared()), ("/dev/shm/pool", true));
        assert_eq!((areas[0].resident, areas[0].proportional, areas[0].swapped), (8192, 4096, 4096));
        assert_eq!((areas[1].resident, areas[1].bytes()), (0, 4096));
        assert!(areas[0].is_like_probe && !areas[1].is_like_probe);
    }
}
