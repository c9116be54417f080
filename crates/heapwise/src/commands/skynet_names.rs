//! Names of a `.pro` file as skynet-mprof has them: `path(symbol+0xoffset) [0xpc]`.

use std::path::Path;

use heapwise_profile::{Function, FunctionId, Line, Profile, name};
use heapwise_symbolize::routines;

use crate::symbols::SymbolArgs;

/// Gives every location in a known function the text of glibc's `backtrace_symbols`.
pub(super) fn add(profile: &mut Profile, symbols: &SymbolArgs) {
    for routine in routines(profile, &symbols.options(), &|_| true) {
        let Profile { locations, functions, modules, .. } = &mut *profile;
        let symbol = name::short(&routine.name);
        for (id, address) in routine.locations {
            let location = &mut locations[id.index()];
            let module = location.module.map_or("", |id| modules[id.index()].path.as_str());
            // The file has return addresses.
            let (offset, pc) = (address.0 - routine.start.0 + 1, location.lookup_address() + 1);
            let system_name = format!("{}({symbol}+{offset:#x}) [{pc:#x}]", file_name(module));
            let known = location.lines.last().map(|line| functions[line.function.index()].clone());
            let known = known.unwrap_or_else(|| Function { name: symbol.clone(), ..Function::default() });
            functions.push(Function { system_name, ..known });
            let function = FunctionId::new(functions.len() - 1);
            match location.lines.last_mut() {
                Some(line) => line.function = function,
                None => location.lines.push(Line { function, line: 0 }),
            }
        }
    }
}

/// Names are cut at 80 bytes, and the directory is the part to omit.
fn file_name(path: &str) -> &str {
    Path::new(path).file_name().and_then(|name| name.to_str()).unwrap_or(path)
}
