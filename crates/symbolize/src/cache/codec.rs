//! Layout of a cache file: a fixed header, then a body of LEB128 numbers and length-prefixed text.
//!
//! ```text
//! magic[8] version:u32 crc32(body):u32
//! body: build-id, detail, image (path, size, time), functions (name, system name, file, start
//! line),
//!       places (offset as difference to the one before, lines (function, line))
//! ```

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use heapwise_profile::{BuildId, Function, FunctionId, Line};

use super::Remembered;
use crate::{Detail, FileOffset, image::ImageIdentity};

const MAGIC: &[u8; 8] = b"hwsymbol";

/// Incremented whenever the layout changes, or results for the same binary do (demangling, choice
/// of aliases), so that old results are not mixed with new ones.
const VERSION: u32 = 2;

const HEADER_BYTES: usize = 16;

pub(super) fn encode(known: &Remembered, build_id: &BuildId) -> Vec<u8> {
    let mut out = Writer(vec![0; HEADER_BYTES]);
    out.bytes(&build_id.0);
    out.number(known.detail as u64);
    out.bytes(known.image.path.as_os_str().as_bytes());
    out.number(known.image.size);
    out.number(known.image.modified_ns);
    out.number(known.functions.len() as u64);
    for function in &known.functions {
        for text in [&function.name, &function.system_name, &function.file] {
            out.bytes(text.as_bytes());
        }
        out.number(u64::from(function.start_line));
    }
    out.number(known.places.len() as u64);
    let mut previous = 0;
    for (offset, lines) in &known.places {
        out.number(offset.0 - previous);
        previous = offset.0;
        out.number(lines.len() as u64);
        for line in lines {
            out.number(u64::from(line.function.0));
            out.number(u64::from(line.line));
        }
    }
    let mut bytes = out.0;
    let crc = crc32fast::hash(&bytes[HEADER_BYTES..]);
    bytes[..8].copy_from_slice(MAGIC);
    bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
    bytes[12..16].copy_from_slice(&crc.to_le_bytes());
    bytes
}

/// `None` unless every byte is as [`encode`] would have written it for this build-id.
pub(super) fn decode(bytes: &[u8], build_id: &BuildId) -> Option<Remembered> {
    let (header, body) = bytes.split_at_checked(HEADER_BYTES)?;
    let crc = crc32fast::hash(body).to_le_bytes();
    let expected = [&MAGIC[..], &VERSION.to_le_bytes(), &crc].concat();
    if header != expected {
        return None;
    }
    let mut input = Reader(body);
    if input.bytes()? != build_id.0 {
        return None;
    }
    let detail = match input.number()? {
        0 => Detail::None,
        1 => Detail::Names,
        2 => Detail::Lines,
        _ => return None,
    };
    let image = ImageIdentity {
        path: OsStr::from_bytes(input.bytes()?).into(),
        size: input.number()?,
        modified_ns: input.number()?,
    };
    let functions = input.list(|input| {
        Some(Function {
            name: input.text()?,
            system_name: input.text()?,
            file: input.text()?,
            start_line: input.number()?.try_into().ok()?,
        })
    })?;
    let mut previous = 0_u64;
    let places = input.list(|input| {
        previous = previous.checked_add(input.number()?)?;
        let lines = input.list(|input| input.line(functions.len()))?;
        Some((FileOffset(previous), lines))
    })?;
    let places: BTreeMap<_, _> = places.into_iter().collect();
    input.0.is_empty().then_some(Remembered { detail, image, functions, places })
}

struct Writer(Vec<u8>);

impl Writer {
    fn number(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn number(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let (byte, rest) = self.0.split_first()?;
            self.0 = rest;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    fn bytes(&mut self) -> Option<&'a [u8]> {
        let size = usize::try_from(self.number()?).ok()?;
        let (bytes, rest) = self.0.split_at_checked(size)?;
        self.0 = rest;
        Some(bytes)
    }

    fn text(&mut self) -> Option<String> {
        str::from_utf8(self.bytes()?).ok().map(str::to_owned)
    }

    fn line(&mut self, functions: usize) -> Option<Line> {
        let function = FunctionId(self.number()?.try_into().ok()?);
        let line = self.number()?.try_into().ok()?;
        (function.index() < functions).then_some(Line { function, line })
    }

    /// A counted list. Every item takes at least a byte, so the count cannot cause more memory
    /// than the file has bytes.
    fn list<T>(&mut self, mut item: impl FnMut(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let count = usize::try_from(self.number()?).ok()?;
        if count > self.0.len() {
            return None;
        }
        (0..count).map(|_| item(self)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> (Remembered, BuildId) {
        let function = Function {
            name: "f(int)".into(),
            system_name: "_Z1fi".into(),
            file: "f.cc".into(),
            start_line: 7,
        };
        let line = Line { function: FunctionId(0), line: 300 };
        let known = Remembered {
            detail: Detail::Lines,
            image: ImageIdentity { path: "/bin/f".into(), size: 7, modified_ns: 1 << 60 },
            functions: vec![function],
            places: [(FileOffset(0x1234), vec![line, line]), (FileOffset(u64::MAX), vec![])].into(),
        };
        (known, BuildId(vec![0xab; 20]))
    }

    #[test]
    fn what_was_stored_comes_back() {
        let (known, id) = sample();
        assert_eq!(decode(&encode(&known, &id), &id), Some(known));
    }

    #[test]
    fn any_damage_and_any_other_build_is_refused() {
        let (known, id) = sample();
        let good = encode(&known, &id);
        assert_eq!(decode(&good, &BuildId(vec![0xac; 20])), None);
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 0x10;
            assert_eq!(decode(&bad, &id), None, "byte {at}");
            assert_eq!(decode(&good[..at], &id), None, "cut at {at}");
        }
    }

    #[test]
    fn a_right_checksum_does_not_excuse_wrong_content() {
        let (known, id) = sample();
        let good = encode(&known, &id);
        for at in HEADER_BYTES..good.len() {
            for value in [0, 1, 0x7f, 0x80, 0xff] {
                let mut bad = good.clone();
                bad[at] = value;
                let crc = crc32fast::hash(&bad[HEADER_BYTES..]);
                bad[12..16].copy_from_slice(&crc.to_le_bytes());
                if let Some(known) = decode(&bad, &id) {
                    let lines = known.places.values().flatten();
                    assert!(lines.clone().all(|line| line.function.index() < known.functions.len()));
                }
            }
        }
    }
}
