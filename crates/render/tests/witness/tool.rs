//! Running an outside tool on a file we wrote.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use heapwise_profile::{Metric, Profile};
use heapwise_render::export::{Format, export};

/// What a tool printed.
pub(crate) struct Output {
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Runs a tool that must succeed.
pub(crate) fn run(program: &str, args: &[&str], install: &str) -> Output {
    let output = Command::new(program)
        .args(args)
        .env("LC_ALL", "C")
        .output()
        .unwrap_or_else(|error| panic!("{program}: {error}; install it with `{install}`"));
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    let (stdout, stderr) = (text(output.stdout), text(output.stderr));
    assert!(
        output.status.success(),
        "{program} {args:?}: {}\n{stdout}\n{stderr}\n(is it installed? `{install}`)",
        output.status
    );
    Output { stdout, stderr }
}

/// A file that is removed with its value.
pub(crate) struct Written {
    pub(crate) path: PathBuf,
}

impl Written {
    /// A profile in a format.
    pub(crate) fn profile(profile: &Profile, format: Format, metric: Metric, name: &str) -> Self {
        let mut bytes = Vec::new();
        export(profile, format, metric, &mut bytes).unwrap();
        Self::bytes(&bytes, &format!("{name}.{}", format.extension()))
    }

    pub(crate) fn bytes(bytes: &[u8], name: &str) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let (process, number) = (std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{process}-{number}-{name}"));
        std::fs::write(&path, bytes).unwrap();
        Self { path }
    }

    pub(crate) fn path(&self) -> &str {
        self.path.to_str().unwrap()
    }
}

impl Drop for Written {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// The flags of jeprof and pprof for the four metrics.
pub(crate) const METRICS: [Metric; 4] = Metric::SHARED;
