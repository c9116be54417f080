//! The vDSO: a binary without a file, found in our own memory when the kernel is the same.

use std::{
    fs::{self, File},
    os::unix::fs::FileExt,
    path::PathBuf,
};

use heapwise_profile::{BuildId, proc_maps::Mapping};

use crate::{elf::Elf, image::Image};

/// How the kernel names it in `/proc/PID/maps`.
pub(crate) const PATH: &str = "[vdso]";

/// Larger than any vDSO (two pages on x86-64), which bounds the read after a misparsed map.
const MAX_BYTES: usize = 1 << 20;

/// This process's vDSO if it has the build-id; without one the kernel of the profile is unknown,
/// which the profile is from.
pub(crate) fn image(build_id: &BuildId) -> Option<Image> {
    let maps = fs::read_to_string("/proc/self/maps").ok()?;
    let mapping = maps.lines().filter_map(Mapping::parse).find(|mapping| mapping.path == PATH)?;
    let size = mapping.end - mapping.start;
    let mut bytes = vec![0; usize::try_from(size).ok()?.min(MAX_BYTES)];
    File::open("/proc/self/mem").ok()?.read_exact_at(&mut bytes, mapping.start).ok()?;
    let found = Elf::parse(&bytes).ok()?.build_id();
    (!found.is_empty() && found == *build_id).then(|| Image::from_bytes(PathBuf::from(PATH), bytes))
}
