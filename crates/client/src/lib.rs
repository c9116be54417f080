//! A program speaks to the heapwise probe inside it; without the probe nothing happens.
//!
//! ```
//! use heapwise_client as heapwise;
//!
//! heapwise::start(heapwise::Recording::Sampled { mean_bytes: 64 * 1024 });
//! {
//!     let _label = heapwise::label("checkout");
//!     let basket = vec![0_u8; 1 << 20]; // reports attribute it to `[checkout]`
//!     drop(basket);
//! }
//! heapwise::mark("basket dropped");
//! if let Some(now) = heapwise::snapshot() {
//!     println!("{} bytes live", now.live_bytes);
//! }
//! heapwise::stop();
//! ```
//!
//! The probe comes with `heapwise run -- PROGRAM` or `LD_PRELOAD=$(heapwise preload)`; its
//! functions are looked up by name on first use, so nothing is linked and this crate depends on
//! nothing. Calls cost a few nanoseconds without the probe.

mod probe;

use std::ffi::CString;
use std::io;
use std::marker::PhantomData;
use std::path::Path;

pub use probe::Snapshot;
use probe::probe;

/// What is recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recording {
    /// One block per so many bytes on average.
    Sampled {
        /// Mean distance of samples; at least 1.
        mean_bytes: u64,
    },
    /// Every block.
    Exact,
}

/// Whether the probe is inside this process.
#[must_use]
pub fn is_present() -> bool {
    probe().is_some()
}

/// Records from now on; also changes kind or rate of a recording under way.
pub fn start(recording: Recording) {
    if let Some(probe) = probe() {
        match recording {
            Recording::Sampled { mean_bytes } => probe.set_mode(probe::Mode::Sampled, mean_bytes.max(1)),
            Recording::Exact => probe.set_mode(probe::Mode::Exact, 0),
        }
    }
}

/// Records no more. What was recorded stays, and frees of it are still counted.
pub fn stop() {
    if let Some(probe) = probe() {
        probe.set_mode(probe::Mode::Off, 0);
    }
}

/// Clears what was counted so far.
pub fn reset() {
    if let Some(probe) = probe() {
        probe.reset();
    }
}

/// What was counted so far; `None` without the probe.
#[must_use]
pub fn snapshot() -> Option<Snapshot> {
    probe().map(probe::Probe::snapshot)
}

/// Writes a heap dump that heapwise and jeprof read. Without the probe nothing is written, and that
/// is not an error.
///
/// # Errors
/// When the file cannot be written, or its name has a NUL.
pub fn dump(path: impl AsRef<Path>) -> io::Result<()> {
    use std::os::unix::ffi::OsStrExt;
    let path = CString::new(path.as_ref().as_os_str().as_bytes())?;
    match probe().map_or(0, |probe| probe.dump(&path)) {
        0 => Ok(()),
        error => Err(io::Error::from_raw_os_error(error)),
    }
}

/// Names this moment, for `heapwise at FILE NAME` and the timeline. What follows a NUL in the name
/// is omitted.
pub fn mark(name: &str) {
    if let Some(probe) = probe() {
        probe.mark(&text(name));
    }
}

/// Blocks that the calling thread allocates are attributed to `[name]`, on top of their native
/// frames, while the label lives. Labels nest; drop the last one first.
#[must_use = "the label ends when it is dropped"]
pub fn label(name: &str) -> Label {
    if let Some(probe) = probe() {
        probe.push_label(&text(name));
    }
    Label { of_this_thread: PhantomData }
}

/// See [`label`].
#[derive(Debug)]
pub struct Label {
    /// Not to be sent: a label is its thread's.
    of_this_thread: PhantomData<*const ()>,
}

impl Drop for Label {
    fn drop(&mut self) {
        if let Some(probe) = probe() {
            probe.pop_label();
        }
    }
}

fn text(name: &str) -> CString {
    let end = name.find('\0').unwrap_or(name.len());
    CString::new(&name[..end]).unwrap_or_default()
}
