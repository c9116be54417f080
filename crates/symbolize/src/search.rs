//! Which file on this machine is the binary, and which has its debug information.
//!
//! A recorded build-id decides; names only select where to search. docs/SYMBOLS.md states the
//! order.

use std::{
    ffi::OsStr,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use heapwise_profile::BuildId;

use crate::{
    Options, Problem,
    debuginfod::{self, Artifact},
    elf::Elf,
    image::{Image, ImageIdentity},
    vdso,
};

/// Where distributions install separate debug files.
const SYSTEM_DEBUG_ROOT: &str = "usr/lib/debug";

/// A profile's data about a binary.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted<'a> {
    pub(crate) path: &'a str,
    /// Empty when not recorded.
    pub(crate) build_id: &'a BuildId,
    /// Whether [`Options::main_program`] replaces it, judging by names.
    pub(crate) is_main: bool,
    /// When the profile was taken, nanoseconds since the epoch.
    pub(crate) time_unix_ns: Option<u64>,
}

impl Wanted<'_> {
    /// Whether a file may be another build than the recorded one, which has no build-id.
    fn is_outdated_by(&self, path: &Path, options: &Options) -> bool {
        let is_named = options.main_program.as_deref() == Some(path);
        let modified = || ImageIdentity::of(path).map_or(0, |file| file.modified_ns);
        self.build_id.is_empty() && !is_named && self.time_unix_ns.is_some_and(|time| modified() > time)
    }
}

/// The first file that a search looks at.
pub(crate) fn present(wanted: &Wanted<'_>, options: &Options) -> Option<ImageIdentity> {
    binary_candidates(wanted, options).iter().find_map(|path| ImageIdentity::of(path))
}

/// Finds the binary itself, or the debug file with its build-id to replace it.
pub(crate) fn binary(wanted: &Wanted<'_>, options: &Options) -> Result<Image, Vec<Problem>> {
    if wanted.path == vdso::PATH {
        return vdso::image(wanted.build_id).ok_or(vec![Problem::NotFound]);
    }
    let mut problems = Vec::new();
    for path in binary_candidates(wanted, options) {
        let Ok(image) = Image::open(&path) else {
            continue;
        };
        match Elf::parse(&image).map(|elf| elf.build_id()) {
            Ok(_) if wanted.is_outdated_by(&path, options) => problems.push(Problem::Newer { path }),
            Ok(found) if wanted.build_id.is_empty() || found == *wanted.build_id => {
                return Ok(image);
            }
            // The user's program is tried for every module; a mismatch with a library is expected.
            Ok(_) if !wanted.is_main && options.main_program.as_ref() == Some(&path) => {}
            Ok(found) => problems.push(Problem::BuildIdMismatch { path, found }),
            Err(error) => problems.push(Problem::Damaged { path, reason: error.to_string() }),
        }
    }
    for artifact in [Artifact::Executable, Artifact::DebugInfo] {
        let found = debuginfod::fetch(wanted.build_id, artifact, options, &mut problems);
        if let Some(image) = found {
            return Ok(image);
        }
    }
    if problems.is_empty() {
        problems.push(Problem::NotFound);
    }
    Err(problems)
}

fn binary_candidates(wanted: &Wanted<'_>, options: &Options) -> Vec<PathBuf> {
    let is_deleted = wanted.path.ends_with(" (deleted)");
    let path = wanted.path.strip_suffix(" (deleted)").unwrap_or(wanted.path);
    let recorded = Path::new(path);
    let is_known = !wanted.build_id.is_empty();
    let mut candidates = Vec::new();
    if wanted.is_main && !is_known {
        candidates.extend(options.main_program.clone());
    }
    // `backtrace_symbols` has paths as the program was started with.
    if !recorded.is_absolute() && !is_known {
        candidates.push(recorded.to_owned());
        candidates.extend(options.debug_paths.iter().map(|directory| directory.join(recorded)));
    }
    if recorded.is_absolute() && (is_known || !is_deleted) {
        candidates.extend(options.sysroot.iter().map(|root| under(root, recorded)));
        if is_known || options.sysroot.is_none() {
            candidates.push(recorded.to_owned());
        }
        for directory in &options.debug_paths {
            candidates.push(under(directory, recorded));
            candidates.extend(recorded.file_name().map(|name| directory.join(name)));
        }
    }
    if is_known {
        candidates.extend(options.main_program.clone());
        candidates.extend(by_build_id(wanted.build_id, "", options));
        candidates.extend(by_build_id(wanted.build_id, ".debug", options));
    }
    candidates
}

/// Finds the separate debug file of a binary.
pub(crate) fn debug_file(
    binary: &Path,
    elf: &Elf<'_>,
    options: &Options,
    problems: &mut Vec<Problem>,
) -> Option<Image> {
    let build_id = elf.build_id();
    let link = elf.debug_link();
    let crc = link.as_ref().map(|link| link.crc);
    let link = link.map(|link| Path::new(OsStr::from_bytes(link.name)).to_owned());
    debug_candidates(binary, &build_id, link.as_deref(), options)
        .into_iter()
        .find_map(|path| {
            let image = Image::open(&path).ok()?;
            belongs(&image, &build_id, crc).then_some(image)
        })
        .or_else(|| debuginfod::fetch(&build_id, Artifact::DebugInfo, options, problems))
}

/// Whether a debug file is of this build: by build-id, or by the link's checksum when one of the
/// two files has none.
fn belongs(image: &Image, build_id: &BuildId, crc: Option<u32>) -> bool {
    let Ok(elf) = Elf::parse(image) else {
        return false;
    };
    let found = elf.build_id();
    let same = if build_id.is_empty() || found.is_empty() {
        crc.is_some_and(|crc| crc32fast::hash(image) == crc)
    } else {
        found == *build_id
    };
    same && elf.has_dwarf()
}

/// Whether there may be a debug file now for a binary that had none when it was last looked at.
pub(crate) fn may_have_debug_file(path: &str, build_id: &BuildId, options: &Options) -> bool {
    let candidates = debug_candidates(Path::new(path), build_id, None, options);
    candidates.iter().any(|path| path.is_file()) || debuginfod::may_have(build_id, options)
}

fn debug_candidates(
    binary: &Path,
    build_id: &BuildId,
    link: Option<&Path>,
    options: &Options,
) -> Vec<PathBuf> {
    let mut candidates: Vec<_> = by_build_id(build_id, ".debug", options).collect();
    let directory = binary.parent().unwrap_or(Path::new(""));
    if let Some(name) = link {
        candidates.extend([directory.join(name), directory.join(".debug").join(name)]);
        for root in debug_roots(options) {
            candidates.push(under(&root, directory).join(name));
            candidates.push(root.join(name));
        }
    }
    if let Some(name) = binary.file_name() {
        let mut name = name.to_owned();
        name.push(".debug");
        candidates.push(directory.join(&name));
        candidates.extend(options.debug_paths.iter().map(|path| path.join(&name)));
        // The whole binary of a stripped one.
        let whole = |path: &PathBuf| [under(path, binary), path.join(binary.file_name().unwrap_or_default())];
        candidates.extend(options.debug_paths.iter().flat_map(whole));
    }
    candidates
}

/// Finds the file that dwz moved common debug information to.
pub(crate) fn shared_debug_file(debug: &Image, options: &Options) -> Option<Image> {
    let link = Elf::parse(debug).ok()?.alt_link()?;
    let stated = Path::new(OsStr::from_bytes(link.path));
    let directory = debug.path.canonicalize().ok()?;
    let beside = directory.parent()?.join(stated);
    let below = options.sysroot.iter().map(|root| under(root, stated));
    by_build_id(&link.build_id, ".debug", options).chain(below).chain([beside]).find_map(|path| {
        let image = Image::open(&path).ok()?;
        let found = Elf::parse(&image).ok()?.build_id();
        (found == link.build_id).then_some(image)
    })
}

/// `ROOT/.build-id/ab/cdef…SUFFIX` under every root.
fn by_build_id(
    build_id: &BuildId,
    suffix: &'static str,
    options: &Options,
) -> impl Iterator<Item = PathBuf> + use<> {
    let hex = build_id.to_string();
    let relative = (hex.len() > 2).then(|| format!(".build-id/{}/{}{suffix}", &hex[..2], &hex[2..]));
    let roots = debug_roots(options);
    relative.into_iter().flat_map(move |relative| roots.clone().into_iter().map(move |it| it.join(&relative)))
}

fn debug_roots(options: &Options) -> Vec<PathBuf> {
    let user = options.debug_paths.iter().cloned();
    let sysroot = options.sysroot.iter().map(|it| it.join(SYSTEM_DEBUG_ROOT));
    user.chain(sysroot).chain([Path::new("/").join(SYSTEM_DEBUG_ROOT)]).collect()
}

fn under(root: &Path, path: &Path) -> PathBuf {
    root.join(path.strip_prefix("/").unwrap_or(path))
}
