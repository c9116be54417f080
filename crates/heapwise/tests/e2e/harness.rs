//! Running heapwise and victims in a scratch directory of their own.

use std::collections::BTreeMap;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::Value;

/// The compiled victims.
pub fn victims() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/programs");
        let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join("victims");
        heapwise_testkit::programs::build(&sources, &out).expect("victims compile");
        out
    })
}

/// Copies a program so that it can be executed at once. A process of its own writes the copy: a
/// file of this process that is open for writing would be inherited by programs that other tests
/// start meanwhile, and the kernel executes no file that is open for writing (`ETXTBSY`).
pub fn copy_program(from: impl AsRef<Path>, to: impl AsRef<Path>) {
    let copied = Command::new("cp").arg(from.as_ref()).arg(to.as_ref()).status().expect("cp starts");
    assert!(copied.success(), "{} was not copied", from.as_ref().display());
}

/// Writes a script so that it can be executed at once; see [`copy_program`].
pub fn write_script(path: &Path, text: &str) {
    let mut shell = Command::new("sh");
    shell.args(["-c", "printf %s \"$1\" > \"$0\" && chmod 755 \"$0\""]).arg(path).arg(text);
    assert!(shell.status().expect("sh starts").success(), "{} was not written", path.display());
}

/// Whether tests may start programs as other users.
pub fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|data| data.uid() == 0)
}

/// A directory for one test: segments, profiles and caches stay inside and end with it.
pub struct Scratch {
    path: PathBuf,
}

impl Scratch {
    pub fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path =
            Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("scratch-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path).expect("scratch directory");
        let segments = std::fs::DirBuilder::new().mode(0o700).create(path.join("segments"));
        segments.expect("directory for segments");
        Self { path }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// A command that sees only this test's segments.
    pub fn command(&self, program: impl AsRef<Path>) -> Command {
        let mut command = Command::new(program.as_ref());
        command
            .current_dir(&self.path)
            .env("HEAPWISE_DIR", self.path.join("segments"))
            .env("XDG_CONFIG_HOME", self.path.join("no-configuration"))
            // Messages are compared: in English, whatever the language of the machine.
            .env("LC_MESSAGES", "C")
            .env_remove("LD_PRELOAD")
            .stdin(Stdio::null());
        if std::env::var("LC_ALL").is_ok_and(|locale| locale.starts_with("zh")) {
            command.env_remove("LC_ALL");
        }
        command
    }

    pub fn heapwise(&self, arguments: &[&str]) -> Command {
        let mut command = self.command(env!("CARGO_BIN_EXE_heapwise"));
        command.args(arguments);
        command
    }

    /// Runs heapwise; its standard output.
    pub fn output_of(&self, arguments: &[&str]) -> String {
        let output = self.heapwise(arguments).output().expect("heapwise starts");
        assert!(
            output.status.success(),
            "heapwise {arguments:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8(output.stdout).expect("UTF-8")
    }

    pub fn json_of(&self, arguments: &[&str]) -> Value {
        serde_json::from_str(&self.output_of(arguments)).expect("JSON")
    }

    /// Runs a victim under `heapwise run MODE`.
    pub fn capture(&self, mode: &[&str], victim: &str, arguments: &[&str]) -> Capture<'_> {
        let profile = self.path(&format!("{victim}.heap"));
        let program = victims().join(victim);
        let output = self
            .heapwise(&["run", "-f", "-o"])
            .arg(&profile)
            .args(mode)
            .arg("--")
            .arg(program)
            .args(arguments)
            .output()
            .expect("heapwise starts");
        Capture { scratch: self, witness: witness(&output), output, profile }
    }

    /// Records a victim; what it counted.
    pub fn record(&self, victim: &str, arguments: &[&str], recording: &Path) -> BTreeMap<String, i64> {
        let program = victims().join(victim);
        let mut run = self.heapwise(&["run", "-q"]);
        run.args(LOG).arg("-o");
        let output =
            run.arg(recording).arg("--").arg(program).args(arguments).output().expect("heapwise starts");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        witness(&output)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

/// Log mode for a machine that is busy with other things: no event is dropped because the recorder
/// got no turn for a second.
pub const LOG: &[&str] = &["--log", "--block", "60s"];

/// What a victim counted, what heapwise recorded.
pub struct Capture<'a> {
    scratch: &'a Scratch,
    pub output: Output,
    pub witness: BTreeMap<String, i64>,
    pub profile: PathBuf,
}

impl Capture<'_> {
    /// Sum over the victim's own frames. A stack that ends in code of the probe, which a signal
    /// handler interrupted, has them inside of that code: the compiler's unwind information is
    /// wrong for some instructions behind a shared end of a function.
    pub fn total(&self, metric: &str) -> i64 {
        self.sum(metric, &["--keep-allocator", "--focus", "^w_"])
    }

    pub fn total_of(&self, metric: &str, focus: &str) -> i64 {
        self.sum(metric, &["--focus", focus])
    }

    fn sum(&self, metric: &str, options: &[&str]) -> i64 {
        let (metric, profile) = (format!("--{metric}"), self.profile.to_str().expect("UTF-8"));
        let top = self.scratch.json_of(&[&["top", "--json", &metric, profile], options].concat());
        top["total"].as_i64().expect("a total")
    }

    pub fn stderr(&self) -> String {
        String::from_utf8_lossy(&self.output.stderr).into_owned()
    }
}

/// Lines `witness NAME VALUE` of a victim's output.
pub fn witness(output: &Output) -> BTreeMap<String, i64> {
    String::from_utf8_lossy(&output.stdout)
        .lines()
        .filter_map(|line| line.strip_prefix("witness "))
        .filter_map(|rest| rest.split_once(' '))
        .map(|(name, value)| (name.to_owned(), value.trim().parse().expect("a number")))
        .collect()
}
