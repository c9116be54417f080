//! Allocators of a program or a process, and how the probe sees them.

use std::fs;
use std::path::{Path, PathBuf};

use heapwise_hooks::binary::Binary;
use heapwise_hooks::family::{Family, Place, families};
use heapwise_profile::proc_maps::Mapping;

use crate::process;
use crate::process_files::{self, MappedFile, Readable};

/// An allocator and the file that it is in.
#[derive(Debug)]
pub struct AllocatorFound {
    /// Path of the file, as the process sees it.
    pub module: PathBuf,
    /// The allocator.
    pub family: Family,
}

/// Libraries that are allocators, by the beginning of their names.
const LIBRARIES: [&str; 3] = ["libjemalloc", "libtcmalloc", "libmimalloc"];

/// Allocators inside a program file, and names of allocator libraries that it needs.
pub fn of_program(path: &Path) -> Option<(Vec<AllocatorFound>, Vec<String>)> {
    let binary = Binary::read(path, Path::new("/"))?;
    let found = families(&binary, Place::Executable);
    let is_allocator = |name: &String| LIBRARIES.iter().any(|library| name.starts_with(library));
    let needed = binary.needed.iter().filter(|name| is_allocator(name)).cloned().collect();
    Some((
        found.into_iter().map(|family| AllocatorFound { module: path.to_owned(), family }).collect(),
        needed,
    ))
}

/// Allocators of a process, in the order of its memory map.
pub fn of_process(pid: u32) -> Vec<AllocatorFound> {
    let root = PathBuf::from(format!("/proc/{pid}/root"));
    let executable = fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
    let mut found = Vec::new();
    for mapped in code_files(pid) {
        let module = mapped.path.clone();
        let place = if module == executable { Place::Executable } else { Place::Library };
        let Ok(file) = Readable::of(&mapped) else { continue };
        let folder = process_files::folder_of(pid, &module);
        let Some(binary) = Binary::read_in(&file.path, &folder, &root) else { continue };
        let families = families(&binary, place);
        found.extend(families.into_iter().map(|family| AllocatorFound { module: module.clone(), family }));
    }
    found
}

/// Files that a process has mapped as code, without the probe and the loader.
fn code_files(pid: u32) -> Vec<MappedFile> {
    let maps = process::memory_map(pid).unwrap_or_default();
    let mut files: Vec<MappedFile> = Vec::new();
    for mapping in maps.lines().filter_map(Mapping::parse).filter(Mapping::is_executable) {
        let Mapping { start, end, inode, path, .. } = mapping;
        let name = path.rsplit('/').next().unwrap_or_default();
        let is_own = name.starts_with("libheapwise") || name.starts_with("ld-linux");
        if path.starts_with('/') && !is_own && !files.iter().any(|file| file.path == Path::new(path)) {
            files.push(MappedFile { pid, start, end, path: path.into(), inode: Some(inode) });
        }
    }
    files
}
