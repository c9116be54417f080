//! Inlined frames, files and lines from DWARF.

use addr2line::{Context, LookupContinuation, LookupResult};
use gimli::AbbreviationsCacheStrategy;

use crate::{Svma, debug_file::UnitFile, metered::Metered, split_unit::SplitUnits};

/// The debug information of one binary, ready for lookups. Units are parsed when first hit.
pub(crate) struct DebugInfo<'a> {
    context: Context<Metered<'a>>,
    split: &'a SplitUnits<'a>,
}

/// One function at an address, as DWARF states it.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct RawFrame<'a> {
    /// Linkage name, or the plain one; `None` for code that belongs to no function.
    pub(crate) name: Option<&'a [u8]>,
    pub(crate) file: Option<&'a str>,
    pub(crate) line: u32,
}

impl<'a> DebugInfo<'a> {
    /// `shared` is the file dwz moved common entries to.
    pub(crate) fn new(
        file: &'a UnitFile,
        shared: Option<&'a UnitFile>,
        split: &'a SplitUnits<'a>,
    ) -> Option<Self> {
        let meter = split.meter;
        meter.extend(file.size());
        let mut dwarf = file.dwarf(meter);
        if let Some(shared) = shared {
            meter.extend(shared.size());
            dwarf.set_sup(shared.dwarf(meter));
        }
        dwarf.populate_abbreviations_cache(AbbreviationsCacheStrategy::Duplicates);
        let context = Context::from_dwarf(dwarf).ok()?;
        Some(Self { context, split })
    }

    /// Calls `visit` with each frame at an address, innermost first.
    pub(crate) fn frames<'s>(&'s self, address: Svma, mut visit: impl FnMut(RawFrame<'s>)) {
        let mut lookup = self.context.find_frames(address.0);
        let found = loop {
            match lookup {
                LookupResult::Output(found) => break found,
                LookupResult::Load { load, continuation } => {
                    lookup = continuation.resume(self.split.load(&load));
                }
            }
        };
        let Ok(mut frames) = found else { return };
        while let Ok(Some(frame)) = frames.next() {
            let location = frame.location.as_ref();
            visit(RawFrame {
                name: frame.function.map(|function| function.name.bytes()),
                file: location.and_then(|location| location.file),
                line: location.and_then(|location| location.line).unwrap_or(0),
            });
        }
    }
}
