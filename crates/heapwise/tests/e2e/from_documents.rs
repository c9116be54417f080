//! The tables `command | what happens here | …` of docs/from-*.md, row by row: every command is run
//! by a shell, in order, and every `code` of its second column must be in what it prints or be a
//! file that exists then; `status N` is its exit status.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use crate::harness::{Scratch, victims};
use crate::serve::Server;

/// A row of a table.
struct Row {
    command: String,
    /// Codes of the second column.
    expected: Vec<String>,
}

/// Splits a row of a table at `|`, but not at `\|`.
fn cells(line: &str) -> Vec<String> {
    let line = line.trim().trim_start_matches('|').trim_end_matches('|').replace("\\|", "\u{1}");
    line.split('|').map(|cell| cell.trim().replace('\u{1}', "|")).collect()
}

/// The texts between backticks.
fn codes(cell: &str) -> Vec<String> {
    cell.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// Every row of the tables whose first column is `command`.
fn rows(document: &str) -> Vec<Row> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(document);
    let text = std::fs::read_to_string(path).expect("the document");
    let mut rows = Vec::new();
    let mut inside = false;
    for line in text.lines() {
        let cells = cells(line);
        match (line.starts_with('|'), cells.first().map(String::as_str)) {
            (true, Some("command")) => inside = true,
            (true, Some(first)) if inside && !first.starts_with("---") => {
                let [command] = codes(first).try_into().unwrap_or_else(|_| panic!("{document}: {line}"));
                let expected = codes(cells.get(1).expect("a second column"));
                assert!(!expected.is_empty(), "{document}: nothing to check in {line}");
                rows.push(Row { command, expected });
            }
            (false, _) => inside = false,
            _ => {}
        }
    }
    assert!(rows.len() >= 5, "{document}: {} rows", rows.len());
    rows
}

/// A directory with the tools under their names, and a shell in it.
struct Shell {
    scratch: Scratch,
    variables: Vec<(&'static str, String)>,
}

impl Shell {
    fn new() -> Self {
        let scratch = Scratch::new();
        let bin = scratch.path("bin");
        std::fs::create_dir(&bin).expect("a directory");
        for tool in ["heapwise", "jeprof", "mem_profiler", "mem_parser", "mprof"] {
            let link = std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_heapwise"), bin.join(tool));
            link.expect("a link");
        }
        let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap_or_default());
        let home = scratch.path("").display().to_string();
        Self { scratch, variables: vec![("PATH", path), ("HOME", home)] }
    }

    /// A victim under a name that the document uses.
    fn install(&self, victim: &str, name: &str) -> PathBuf {
        let path = self.scratch.path(name);
        std::fs::copy(victims().join(victim), &path).expect("copied");
        path
    }

    fn run(&self, command: &str) -> Output {
        let mut shell = self.scratch.command("sh");
        shell.args(["-c", command]).envs(self.variables.iter().map(|(name, value)| (name, value)));
        shell.output().expect("a shell")
    }

    /// Runs every row of a document.
    fn follow(&self, document: &str) {
        for Row { command, expected } in rows(document) {
            let output = self.run(&command);
            let said = [output.stdout.as_slice(), b"\n", &output.stderr].concat();
            let said = String::from_utf8_lossy(&said);
            let context = || format!("{document}: `{command}` printed\n{said}");
            let mut status = 0;
            for code in &expected {
                if let Some(number) = code.strip_prefix("status ") {
                    status = number.parse().expect("a status");
                    continue;
                }
                let is_file = || !self.run(&format!("ls -d {code}")).stdout.is_empty();
                assert!(said.contains(code.as_str()) || is_file(), "no `{code}`; {}", context());
            }
            assert_eq!(output.status.code(), Some(status), "{}", context());
        }
    }
}

/// A program of the document that runs with the probe, until the test ends.
struct Running(Child);

impl Running {
    fn start(shell: &Shell, program: &Path) -> Self {
        let library = shell.scratch.output_of(&["preload"]);
        let child = shell
            .scratch
            .command(program)
            .env("LD_PRELOAD", library.trim())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .expect("the program starts");
        let running = Self(child);
        let pid = running.0.id().to_string();
        // Its segment appears when the probe is ready.
        let is_listed = || String::from_utf8_lossy(&shell.run("heapwise ps").stdout).contains(&pid);
        let ready = (0..600).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(50));
            is_listed()
        });
        assert!(ready, "the probe never became ready");
        running
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn from_mem_profiler() {
    let mut shell = Shell::new();
    // A link: files are named after what was started, not after its target.
    let program = shell.scratch.path("server");
    std::os::unix::fs::symlink(victims().join("live_switch"), &program).expect("a link");
    let server = Running::start(&shell, &program);
    shell.variables.push(("PID", server.0.id().to_string()));
    shell.install("leaky", "other");
    shell.follow("from-mem-profiler.md");
}

#[test]
fn from_jeprof() {
    let shell = Shell::new();
    shell.install("jemalloc_guide", "app");
    shell.follow("from-jeprof.md");
}

#[test]
fn from_skynet_mprof() {
    let mut shell = Shell::new();
    let skynet = Running::start(&shell, &shell.install("live_switch", "skynet"));
    shell.variables.push(("PID", skynet.0.id().to_string()));
    shell.follow("from-skynet-mprof.md");
}

#[test]
fn from_gs() {
    let shell = Shell::new();
    shell.install("steps", "game");
    shell.follow("from-gs.md");
}

#[test]
#[ignore = "needs curl and google-pprof"]
fn from_brpc() {
    let mut shell = Shell::new();
    assert!(Command::new("google-pprof").arg("--version").output().is_ok(), "install google-perftools");
    let program = Running::start(&shell, &shell.install("live_switch", "server"));
    let server = Server::start(&shell.scratch, &[&program.0.id().to_string()]);
    shell.variables.push(("ADDRESS", server.address.clone()));
    shell.variables.push(("TOKEN", server.token.clone()));
    shell.follow("from-brpc.md");
}
