//! The addresses of a profile to look up, binary by binary.

use std::{
    collections::{BTreeSet, HashMap},
    path::Path,
};

use heapwise_profile::{BuildId, Line, Location, Profile};

use crate::{FileOffset, Options};

/// The addresses of one binary that need a result.
pub(crate) struct ModuleRequest {
    pub(crate) path: String,
    pub(crate) build_id: BuildId,
    pub(crate) is_main: bool,
    /// When the profile was taken, nanoseconds since the epoch.
    pub(crate) time_unix_ns: Option<u64>,
    /// Rows of [`Profile::modules`] that map this binary.
    pub(crate) modules: Vec<usize>,
    /// For each address, the offset at which its mapping begins.
    pub(crate) offsets: Vec<(FileOffset, FileOffset)>,
}

/// Groups the profile's unresolved locations by binary.
pub(crate) fn module_requests(profile: &Profile, options: &Options) -> Vec<ModuleRequest> {
    let mut offsets: Vec<BTreeSet<_>> = vec![BTreeSet::new(); profile.modules.len()];
    for location in &profile.locations {
        if let Some((at, offset)) = unresolved(profile, location) {
            let mapped_from = FileOffset(profile.modules[at].file_offset);
            offsets[at].insert((offset, mapped_from));
        }
    }
    let main = main_module(profile, options);
    let mut by_binary: HashMap<(&str, &BuildId), usize> = HashMap::new();
    let mut module_requests: Vec<ModuleRequest> = Vec::new();
    for (at, module) in profile.modules.iter().enumerate() {
        if offsets[at].is_empty() {
            continue;
        }
        let key = (module.path.as_str(), &module.build_id);
        let row = *by_binary.entry(key).or_insert(module_requests.len());
        if row == module_requests.len() {
            module_requests.push(ModuleRequest {
                path: module.path.clone(),
                build_id: module.build_id.clone(),
                is_main: main == Some(module.path.as_str()),
                time_unix_ns: profile.meta.time_unix_ns,
                modules: Vec::new(),
                offsets: Vec::new(),
            });
        }
        module_requests[row].modules.push(at);
        module_requests[row].offsets.extend(&offsets[at]);
    }
    for request in &mut module_requests {
        request.offsets.sort_unstable();
        request.offsets.dedup_by_key(|(offset, _)| *offset);
    }
    module_requests
}

/// Module and file offset of a location that has an address but no lines, or only the text of
/// `backtrace_symbols`.
pub(crate) fn unresolved(profile: &Profile, location: &Location) -> Option<(usize, FileOffset)> {
    let is_text = |line: &Line| profile.functions[line.function.index()].is_backtrace_text();
    if !location.lines.iter().all(is_text) || location.address == 0 {
        return None;
    }
    let at = location.module?.index();
    let module = profile.modules.get(at)?;
    if !location.lines.is_empty() && !module.contains(location.address) {
        return None;
    }
    Some((at, FileOffset(module.file_offset_of(location.lookup_address()))))
}

/// Path of the module that the user's program replaces: the one with its file name, else the first,
/// which is the main program by convention.
pub(crate) fn main_module<'a>(profile: &'a Profile, options: &Options) -> Option<&'a str> {
    let name = options.main_program.as_ref()?.file_name()?;
    let mut modules = profile.modules.iter();
    let named = modules.find(|module| Path::new(&module.path).file_name() == Some(name));
    let first = || profile.modules.first().filter(|it| !it.name().contains(".so"));
    named.or_else(first).map(|module| module.path.as_str())
}
