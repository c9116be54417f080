//! The `MAPPED_LIBRARIES:` section of text profiles: a copy of `/proc/PID/maps`.

use super::lines::{fields, parse_hex, skip_blanks, to_text};
use crate::proc_maps::Mapping;
use crate::{BuildId, Module};

/// The mapping of a line, if it can hold code and is named. Lines of any other shape are skipped:
/// the kernel writes the section, and newer kernels add lines.
pub(super) fn parse(line: &[u8]) -> Option<Module> {
    let mut rest = line.trim_ascii();
    let range = take_field(&mut rest)?;
    if let Some(range) = range.strip_suffix(b":") {
        return cooked(range, rest);
    }
    // Only the path may be anything but text.
    let text = to_text(line);
    let mapping = Mapping::parse(&text).filter(Mapping::is_executable)?;
    let (start, end, file_offset) = (mapping.start, mapping.end, mapping.file_offset);
    let path = mapping.path.trim().to_owned();
    (!path.is_empty()).then(|| Module { path, build_id: BuildId::default(), start, end, file_offset })
}

/// gperftools' `--- Memory map:` form, `40000000-40015000: /lib/ld-2.3.2.so`.
fn cooked(range: &[u8], path: &[u8]) -> Option<Module> {
    module(range, 0, path)
}

/// The module at a `start-end` range; `None` when the range or the path is empty.
pub(super) fn module(range: &[u8], file_offset: u64, path: &[u8]) -> Option<Module> {
    let dash = range.iter().position(|byte| *byte == b'-')?;
    let (start, end) = (parse_hex(&range[..dash])?, parse_hex(&range[dash + 1..])?);
    let path = path.trim_ascii();
    (start < end && !path.is_empty()).then(|| Module {
        path: to_text(path),
        build_id: BuildId::default(),
        start,
        end,
        file_offset,
    })
}

fn take_field<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let field = fields(rest).next()?;
    *rest = &rest[field.len()..];
    skip_blanks(rest);
    Some(field)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_named_executable_mappings_are_modules() {
        let code = parse(b"559126a10000-559126a11000 r-xp 00001000 fe:00 10011600   /a b/fixture");
        let code = code.unwrap();
        assert_eq!((code.start, code.end), (0x5591_26a1_0000, 0x5591_26a1_1000));
        assert_eq!((code.path.as_str(), code.file_offset), ("/a b/fixture", 0x1000));
        assert_eq!(parse(b"559126a0f000-559126a10000 r--p 00000000 fe:00 1 /x"), None);
        assert_eq!(parse(b"7f00-7f10 r-xp 00000000 00:00 0 "), None);
        assert_eq!(parse(b"2000-1000 r-xp 0 0:0 0 /x"), None);
        assert_eq!(parse(b"VmPeak: 12 kB"), None);
        assert_eq!(parse(b"40000000-40015000: /lib/ld.so").unwrap().path, "/lib/ld.so");
    }
}
