//! Allocators that are part of an executable: calls of their functions do not go through the
//! dynamic linker, so a preloaded probe does not see them.

use std::path::Path;

use heapwise_hooks::family;
use heapwise_profile::{Began, Profile, script};

use crate::resolver::build_id_of;

/// Notes an allocator inside the executable of a profile that the probe recorded.
pub(crate) fn note(profile: &mut Profile) {
    if profile.meta.recorded.began == Began::Unknown || !profile.meta.recorded.own_allocator.is_empty() {
        return;
    }
    // CPython contains mimalloc, and uses it in free-threaded builds only.
    if script::is_followed(profile) {
        return;
    }
    if let Some(description) = find(Path::new(&profile.meta.program), profile) {
        profile.meta.recorded.own_allocator = description;
    }
}

/// The allocator in a file; `None` without one, and for another file than the recorded one.
fn find(path: &Path, profile: &Profile) -> Option<String> {
    let recorded = profile.modules.iter().find(|module| Path::new(&module.path) == path)?;
    if build_id_of(path).unwrap_or_default() != recorded.build_id {
        return None;
    }
    family::unseen(path, profile.meta.recorded.entry_hooks > 0)
}
