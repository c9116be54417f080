//! Names and lines inside a recording, so that it opens where the binaries are not.
//!
//! ```text
//! varint functions   each: name, name in the symbol table, file (varint length, bytes),
//!                          varint line of the declaration
//! varint locations   each: varint module + 1 (0: none), varint address,
//!                          u8 whether it is a return address,
//!                          varint lines, each: varint function, varint line
//! ```

use heapwise_format::varint;
use rustc_hash::FxHashMap;

use crate::{Function, FunctionId, Line, Location, ModuleId, Profile};

/// The payload of a symbols frame: all names of the locations of `profile`.
#[must_use]
pub fn encode(profile: &Profile) -> Vec<u8> {
    let mut out = Vec::new();
    varint::put(&mut out, profile.functions.len() as u64);
    for function in &profile.functions {
        for text in [&function.name, &function.system_name, &function.file] {
            varint::put(&mut out, text.len() as u64);
            out.extend_from_slice(text.as_bytes());
        }
        varint::put(&mut out, function.start_line.into());
    }
    let known = profile.locations.iter().filter(|location| !location.lines.is_empty());
    varint::put(&mut out, known.clone().count() as u64);
    for location in known {
        varint::put(&mut out, location.module.map_or(0, |module| module.index() as u64 + 1));
        varint::put(&mut out, location.address);
        out.push(u8::from(location.is_return_address));
        varint::put(&mut out, location.lines.len() as u64);
        for line in &location.lines {
            varint::put(&mut out, line.function.index() as u64);
            varint::put(&mut out, line.line.into());
        }
    }
    out
}

/// Names by place.
#[derive(Debug, Default)]
pub(super) struct Names {
    functions: Vec<Function>,
    lines: FxHashMap<CodeAddress, Vec<Line>>,
}

type CodeAddress = (Option<ModuleId>, u64, bool);

impl Names {
    /// Reads a payload; `None` when it makes no sense.
    pub(super) fn decode(payload: &[u8]) -> Option<Self> {
        let (mut names, mut at) = (Self::default(), 0);
        for _ in 0..varint::decode(payload, &mut at)? {
            names.functions.push(Function {
                name: text(payload, &mut at)?,
                system_name: text(payload, &mut at)?,
                file: text(payload, &mut at)?,
                start_line: number(payload, &mut at)?,
            });
        }
        for _ in 0..varint::decode(payload, &mut at)? {
            let module = (number(payload, &mut at)? as usize).checked_sub(1).map(ModuleId::new);
            let address = varint::decode(payload, &mut at)?;
            let is_return_address = number(payload, &mut at)? != 0;
            let mut lines = Vec::new();
            for _ in 0..varint::decode(payload, &mut at)? {
                let function = number(payload, &mut at)? as usize;
                names.functions.get(function)?;
                lines.push(Line { function: FunctionId::new(function), line: number(payload, &mut at)? });
            }
            names.lines.insert((module, address, is_return_address), lines);
        }
        (at == payload.len()).then_some(names)
    }

    /// Gives the locations of `profile` their names; those that have one, of a script's frames,
    /// keep it.
    pub(super) fn apply(&self, profile: &mut Profile) {
        let first = profile.functions.len();
        profile.functions.extend_from_slice(&self.functions);
        let renumbered =
            |line: &Line| Line { function: FunctionId::new(first + line.function.index()), ..*line };
        for location in profile.locations.iter_mut().filter(|location| location.lines.is_empty()) {
            let Location { module, address, is_return_address, .. } = *location;
            if let Some(lines) = self.lines.get(&(module, address, is_return_address)) {
                location.lines.extend(lines.iter().map(renumbered));
            }
        }
    }
}

fn number(payload: &[u8], at: &mut usize) -> Option<u32> {
    u32::try_from(varint::decode(payload, at)?).ok()
}

fn text(payload: &[u8], at: &mut usize) -> Option<String> {
    let len = usize::try_from(varint::decode(payload, at)?).ok()?;
    let bytes = payload.get(*at..at.checked_add(len)?)?;
    *at += len;
    Some(String::from_utf8_lossy(bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn profile() -> Profile {
        let function = |name: &str| Function {
            name: name.into(),
            system_name: format!("_Z{name}"),
            file: "a.c".into(),
            start_line: 7,
        };
        let line = |function, line| Line { function: FunctionId::new(function), line };
        let location = |address, lines| Location {
            address,
            is_return_address: address % 2 == 0,
            module: (address < 100).then(|| ModuleId::new(address as usize % 3)),
            lines,
        };
        Profile {
            functions: vec![function("f"), function("größe")],
            locations: vec![
                location(10, vec![line(1, 3), line(0, 4)]),
                location(11, vec![]),
                location(200, vec![line(0, 0)]),
            ],
            ..Profile::default()
        }
    }

    #[test]
    fn round_trip() {
        let named = profile();
        let mut plain = Profile { functions: Vec::new(), ..profile() };
        plain.locations.iter_mut().for_each(|location| location.lines.clear());
        Names::decode(&encode(&named)).unwrap().apply(&mut plain);
        assert_eq!((&plain.functions, &plain.locations), (&named.functions, &named.locations));
    }

    #[test]
    fn cut_at_every_byte_is_noticed() {
        let bytes = encode(&profile());
        assert!((0..bytes.len()).all(|cut| Names::decode(&bytes[..cut]).is_none()));
    }
}
