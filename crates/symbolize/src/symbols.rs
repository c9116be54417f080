//! The result of a lookup: functions, and the lines of each address.

use std::collections::HashMap;

use heapwise_profile::{Function, FunctionId, Line};

use crate::{FileOffset, demangle, dwarf::RawFrame};

/// Answers for a list of addresses of one binary. Ids are rows of `functions`, not of a profile.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Symbols {
    /// Distinct functions. One without a `system_name` is known only by where it begins: its name
    /// is `+0x` and that file offset, for the caller to put the module's name in front.
    pub functions: Vec<Function>,
    /// For each address, in the order of the request, its functions: innermost inlined callee
    /// first, physical function last, empty when unresolved.
    pub places: Vec<Vec<Line>>,
    /// False when files the debug information refers to (`.dwo`, dwz) were not found: asking again
    /// when they are there would give more.
    pub is_whole: bool,
}

/// Collects raw frames, and demangles each distinct function once.
#[derive(Default)]
pub(crate) struct SymbolsBuilder<'a> {
    ids: HashMap<(&'a [u8], Option<&'a str>), FunctionId>,
    unnamed: HashMap<FileOffset, FunctionId>,
    functions: Vec<Function>,
    places: Vec<Vec<Line>>,
}

impl<'a> SymbolsBuilder<'a> {
    /// Adds the result for the next address. Frames without a name are skipped.
    pub(crate) fn push(&mut self, frames: &[RawFrame<'a>]) {
        let named = frames.iter().filter_map(|frame| Some((frame.name?, frame)));
        let lines =
            named.map(|(name, frame)| Line { function: self.function(name, frame.file), line: frame.line });
        let lines = lines.collect();
        self.places.push(lines);
    }

    /// Adds the answer for an address in a function that has no name.
    pub(crate) fn push_unnamed(&mut self, start: FileOffset) {
        let next = FunctionId::new(self.functions.len());
        let function = *self.unnamed.entry(start).or_insert(next);
        if function == next {
            self.functions.push(Function { name: format!("+{:#x}", start.0), ..Function::default() });
        }
        self.places.push(vec![Line { function, line: 0 }]);
    }

    fn function(&mut self, name: &'a [u8], file: Option<&'a str>) -> FunctionId {
        let next = FunctionId::new(self.functions.len());
        let functions = &mut self.functions;
        *self.ids.entry((name, file)).or_insert_with(|| {
            let system_name = String::from_utf8_lossy(name).into_owned();
            functions.push(Function {
                name: demangle(&system_name),
                system_name,
                file: file.unwrap_or_default().to_owned(),
                start_line: 0,
            });
            next
        })
    }

    pub(crate) fn finish(self, is_whole: bool) -> Symbols {
        Symbols { functions: self.functions, places: self.places, is_whole }
    }
}
