//! Lines of `/proc/PID/maps` and `/proc/PID/smaps`, wherever they come from: the kernel, or a copy
//! inside a profile.

/// One mapping: `start-end permissions offset device inode [path]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mapping<'a> {
    /// First address.
    pub start: u64,
    /// First address behind it.
    pub end: u64,
    /// `r-xp`.
    pub permissions: &'a str,
    /// Offset of `start` in the file.
    pub file_offset: u64,
    /// Inode of the file; 0 without one.
    pub inode: u64,
    /// The file, `[heap]`, `[stack]` or nothing.
    pub path: &'a str,
}

impl<'a> Mapping<'a> {
    /// Parses a line; `None` for lines of any other shape.
    #[must_use]
    pub fn parse(line: &'a str) -> Option<Self> {
        let mut rest = line.trim_start();
        let mut field = || {
            let (field, after) = rest.split_once([' ', '\t']).unwrap_or((rest, ""));
            rest = after.trim_start();
            (!field.is_empty()).then_some(field)
        };
        let (start, end) = field()?.split_once('-')?;
        let permissions = field().filter(|text| text.len() == 4)?;
        let file_offset = field()?;
        let (_device, inode) = (field()?, field()?.parse().unwrap_or(0));
        let hex = |text| u64::from_str_radix(text, 16).ok();
        let (start, end) = (hex(start)?, hex(end)?);
        let path = rest.trim_end();
        (start < end).then_some(Self { start, end, permissions, file_offset: hex(file_offset)?, inode, path })
    }

    /// Whether it can hold code.
    #[must_use]
    pub fn is_executable(&self) -> bool {
        self.permissions.as_bytes().get(2) == Some(&b'x')
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_kernel() {
        let line = "559126a10000-559126a11000 r-xp 00001000 fe:00 10011600   /a b/fixture";
        let mapping = Mapping::parse(line).expect("a mapping");
        assert_eq!((mapping.start, mapping.end), (0x5591_26a1_0000, 0x5591_26a1_1000));
        assert_eq!((mapping.path, mapping.file_offset, mapping.inode), ("/a b/fixture", 0x1000, 10_011_600));
        assert!(mapping.is_executable());
        let anonymous = Mapping::parse("7f00-7f10 rw-p 00000000 00:00 0 ").expect("a mapping");
        assert_eq!((anonymous.path, anonymous.is_executable()), ("", false));
        for other in ["", "2000-1000 r-xp 0 0:0 0 /x", "VmPeak: 12 kB", "Rss:    4 kB", "7f00-7f10 r-xp"] {
            assert_eq!(Mapping::parse(other), None, "{other}");
        }
    }
}
