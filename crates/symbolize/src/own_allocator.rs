//! Allocators that are part of an executable: calls of their functions do not go through the
//! dynamic linker, so a preloaded probe does not see them.

use std::path::Path;
use std::sync::{Mutex, PoisonError};

use heapwise_hooks::family;
use heapwise_profile::{Began, Profile, script};

use crate::image::ImageIdentity;
use crate::resolver::build_id_of;

/// Most files whose allocators are remembered.
const MOST_REMEMBERED: usize = 256;

/// The allocator of a file, for profiles with and without entry hooks.
struct Remembered {
    image: ImageIdentity,
    is_hooked: bool,
    found: Option<String>,
}

/// Files that were read. An agent takes a profile of every process each minute, and searching the
/// names and constants of Node.js takes 20 ms.
static REMEMBERED: Mutex<Vec<Remembered>> = Mutex::new(Vec::new());

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
    unseen(path, profile.meta.recorded.entry_hooks > 0)
}

/// As [`family::unseen`]; a file that has not changed is read once.
fn unseen(path: &Path, is_hooked: bool) -> Option<String> {
    let image = ImageIdentity::of(path)?;
    let files = || REMEMBERED.lock().unwrap_or_else(PoisonError::into_inner);
    let is_same = |file: &&Remembered| file.image == image && file.is_hooked == is_hooked;
    if let Some(file) = files().iter().find(is_same) {
        return file.found.clone();
    }
    let found = family::unseen(&family::of_executable(path), is_hooked);
    let mut files = files();
    if files.len() == MOST_REMEMBERED {
        files.clear();
    }
    files.push(Remembered { image, is_hooked, found: found.clone() });
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(path: &Path) -> usize {
        REMEMBERED.lock().unwrap().iter().filter(|file| file.image.path == path).count()
    }

    #[test]
    fn a_file_is_read_again_when_it_has_changed() {
        let path = std::env::temp_dir().join(format!("heapwise-own-allocator-{}", std::process::id()));
        std::fs::copy(std::env::current_exe().unwrap(), &path).unwrap();
        let found = unseen(&path, false);
        assert_eq!((unseen(&path, false), count(&path)), (found, 1));
        std::fs::write(&path, "another file").unwrap();
        assert_eq!((unseen(&path, false), count(&path)), (None, 2));
        let _ = std::fs::remove_file(&path);
    }
}
