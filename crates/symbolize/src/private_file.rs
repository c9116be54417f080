//! Files that no other user may read or create: a private directory, complete files only.

use std::{
    fs::{self, DirBuilder, File, OpenOptions, Permissions},
    io,
    os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt},
    path::Path,
    process,
    sync::atomic::{AtomicU64, Ordering},
};

/// Writes a file so that readers see all of it or none: a temporary file, then a rename. Creates
/// the directory with mode 0700.
pub(crate) fn write(path: &Path, fill: impl FnOnce(&mut File) -> io::Result<()>) -> io::Result<()> {
    static COUNTER: AtomicU64 = AtomicU64::new(0);
    let directory = path.parent().unwrap_or(Path::new("."));
    DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    if !is_ours(directory) {
        return Err(io::Error::other("directory is open to other users"));
    }
    let unique = COUNTER.fetch_add(1, Ordering::Relaxed);
    let temporary = path.with_added_extension(format!("{}-{unique}.tmp", process::id()));
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary)?;
    let outcome = fill(&mut file)
        .and_then(|()| file.set_permissions(Permissions::from_mode(0o600)))
        .and_then(|()| fs::rename(&temporary, path));
    if outcome.is_err() {
        // The first error is the one to report.
        let _ = fs::remove_file(&temporary);
    }
    outcome
}

/// Whether a directory belongs to this user and no other user may write to it. Names from a
/// directory that others can write to are untrusted.
pub(crate) fn is_ours(directory: &Path) -> bool {
    // The owner of /proc/self is the effective user, without a call that needs `unsafe`.
    let user = fs::metadata("/proc/self").map(|meta| meta.uid());
    fs::metadata(directory)
        .is_ok_and(|meta| user.is_ok_and(|user| meta.uid() == user) && meta.mode() & 0o022 == 0)
}
