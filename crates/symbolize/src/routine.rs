//! Functions by their symbols, with the code addresses of a profile inside them: for disassembly.

use std::collections::BTreeMap;
use std::path::PathBuf;

use heapwise_profile::{BuildId, LocationId, Profile};

use crate::module_request::main_module;
use crate::search::{self, Wanted};
use crate::{FileOffset, Options, Resolver, Svma};

/// A function of a binary on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Routine {
    /// Demangled name.
    pub name: String,
    /// The binary's file.
    pub binary: PathBuf,
    /// First address, as the binary states it.
    pub start: Svma,
    /// One past the last address.
    pub end: Svma,
    /// Locations of the profile inside, with their addresses in the binary.
    pub locations: Vec<(LocationId, Svma)>,
}

/// The functions that hold a location of `profile` and whose name is wanted, by binary and address.
/// Binaries that are not found are passed over.
#[must_use]
pub fn routines(profile: &Profile, options: &Options, wants: &dyn Fn(&str) -> bool) -> Vec<Routine> {
    let main = main_module(profile, options);
    let mut binaries: BTreeMap<(&str, &BuildId), Option<Resolver>> = BTreeMap::new();
    let mut found: BTreeMap<(PathBuf, Svma), Routine> = BTreeMap::new();
    for (at, location) in profile.locations.iter().enumerate() {
        let Some(module) = location.module.map(|id| &profile.modules[id.index()]) else { continue };
        let resolver = binaries.entry((&module.path, &module.build_id)).or_insert_with(|| {
            let is_main = main == Some(module.path.as_str());
            let wanted = Wanted {
                path: &module.path,
                build_id: &module.build_id,
                is_main,
                time_unix_ns: profile.meta.time_unix_ns,
            };
            search::binary(&wanted, options).ok().and_then(|image| Resolver::new(image, options).ok())
        });
        let Some(resolver) = resolver.as_ref().filter(|resolver| resolver.is_whole()) else { continue };
        let offset = FileOffset(module.file_offset_of(location.lookup_address()));
        let address = resolver.svma_of(offset, FileOffset(module.file_offset));
        let Some(address) = address.filter(|_| location.address != 0) else { continue };
        let Some((name, start, end)) = resolver.routine_at(address).filter(|(name, ..)| wants(name)) else {
            continue;
        };
        let binary = resolver.path().to_owned();
        let routine = found.entry((binary.clone(), start)).or_insert_with(|| Routine {
            name,
            binary,
            start,
            end,
            locations: Vec::new(),
        });
        routine.locations.push((LocationId::new(at), address));
    }
    found.into_values().collect()
}
