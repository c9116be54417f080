//! `cargo xtask tidy`: the rules a compiler does not check.
//!
//! Each rule says what to do instead. The list of files that may hold `unsafe` is here: extending
//! it is a reviewed change.

use std::fs;
use std::path::{Path, PathBuf};

use crate::{architecture, dependencies, documents, module_cycles, translation};
use heapwise_testkit::failure::Failure;

/// Files longer than this hold more than one concept.
const MOST_LINES: usize = 600;

/// Where `unsafe` may stand: the probe (all of it talks to raw memory), one mapping of binaries,
/// the client's calls of the probe's functions, calls that no safe wrapper has.
const UNSAFE_ALLOWED: [&str; 9] = [
    "crates/probe/",
    "crates/symbolize/src/mmap.rs",
    "crates/client/src/probe.rs",
    "crates/capture/src/attach/ptrace.rs",
    "crates/capture/src/file_writers.rs",
    "crates/capture/src/forward.rs",
    "crates/agent/src/exit_status.rs",
    "crates/agent/src/free_memory.rs",
    "benches/",
];

/// Module names that say nothing.
const EMPTY_NAMES: [&str; 6] = ["util.rs", "utils.rs", "common.rs", "helpers.rs", "misc.rs", "shared.rs"];

/// The dependencies among our own crates; data flows one way.
const EDGES: [(&str, &[&str]); 13] = [
    ("client", &[]),
    ("format", &[]),
    ("probe", &["format"]),
    ("profile", &["format"]),
    ("hooks", &["format"]),
    ("symbolize", &["profile", "hooks"]),
    ("render", &["profile"]),
    ("capture", &["format", "profile", "hooks"]),
    ("serve", &["format", "profile", "symbolize", "render", "capture"]),
    ("agent", &["format", "profile", "symbolize", "render", "capture"]),
    ("heapwise", &["format", "profile", "symbolize", "render", "hooks", "capture", "agent", "serve"]),
    ("fleet", &["agent", "profile", "symbolize", "capture", "serve"]),
    ("testkit", &["format", "probe", "profile", "capture", "serve"]),
];

/// Checks the tree; fails with every finding, one a line.
pub(crate) fn command(root: &Path) -> Result<(), Failure> {
    let mut findings = Vec::new();
    let mut all_sources = String::new();
    for path in sources(root)? {
        let text = fs::read_to_string(&path).map_err(|error| Failure::at(&path, error))?;
        all_sources += &text;
        let name = path.strip_prefix(root).unwrap_or(&path).display().to_string();
        check_source(&name, &text, &mut findings);
    }
    findings.extend(documents::check(root)?);
    findings.extend(dependencies::check(root)?);
    findings.extend(translation::check(root)?);
    let page = root.join("ARCHITECTURE.md");
    let page = fs::read_to_string(&page).map_err(|error| Failure::at(&page, error))?;
    findings.extend(architecture::missing(root, &page, &all_sources));
    for (package, allowed) in EDGES {
        check_edges(root, package, allowed, &mut findings)?;
        // The probe's modules are one state machine; its layout is checked when that is split.
        if package != "probe"
            && let Some(cycle) = module_cycles::find(&root.join("crates").join(package))?
        {
            findings.push(format!("crates/{package}: modules use each other: {cycle}"));
        }
    }
    if findings.is_empty() {
        println!("tidy: clean");
        return Ok(());
    }
    Err(Failure::new(format!("tidy:\n{}", findings.join("\n"))))
}

fn check_source(name: &str, text: &str, findings: &mut Vec<String>) {
    let lines = text.lines().count();
    if lines > MOST_LINES {
        findings.push(format!("{name}: {lines} lines; split it by concept (at most {MOST_LINES})"));
    }
    if !text.starts_with("//!") && !text.starts_with("#![") {
        findings.push(format!("{name}: open the file with a `//!` line that says what it is for"));
    }
    if EMPTY_NAMES.iter().any(|empty| name.ends_with(&format!("/{empty}"))) {
        findings.push(format!("{name}: name the file by the concept it holds"));
    }
    findings.extend(documents::long_comments(name, text));
    let code = |line: &&str| !line.trim_start().starts_with("//");
    let holds_unsafe = text
        .lines()
        .filter(code)
        .any(|line| line.contains(concat!("unsa", "fe {")) || line.contains(concat!("unsa", "fe fn ")));
    if holds_unsafe && !UNSAFE_ALLOWED.iter().any(|place| name.starts_with(place)) {
        findings.push(format!("{name}: no `unsafe` here; use a safe wrapper (std, rustix)"));
    }
    if name.starts_with("crates/probe/src/")
        && !name.starts_with("crates/probe/src/os/atomics")
        && text.contains("core::sync::atomic")
    {
        findings.push(format!("{name}: take atomics from `crate::atomics`, or no model sees them"));
    }
    if text.contains(concat!("#[pa", "th = \"../../")) {
        findings.push(format!("{name}: no `#[path]` across crates; depend on the crate"));
    }
    for (number, line) in text.lines().enumerate() {
        // Split so that this file does not find itself.
        if line.contains(concat!("TO", "DO")) || line.contains(concat!("FIX", "ME")) {
            findings.push(format!("{name}:{}: do it, or file an issue and delete the line", number + 1));
        }
    }
}

fn check_edges(
    root: &Path,
    package: &str,
    allowed: &[&str],
    findings: &mut Vec<String>,
) -> Result<(), Failure> {
    let path = root.join("crates").join(package).join("Cargo.toml");
    let text = fs::read_to_string(&path).map_err(|error| Failure::at(&path, error))?;
    let dependencies = text.lines().skip_while(|line| *line != "[dependencies]").skip(1);
    for line in dependencies.take_while(|line| !line.starts_with('[')) {
        let name = line.split(['.', '=', ' ']).next().unwrap_or_default();
        if let Some(own) = name.strip_prefix("heapwise-").filter(|own| !allowed.contains(own)) {
            findings.push(format!("crates/{package}: must not depend on {own}; data flows the other way"));
        }
        let foreign = package == "probe" && !name.is_empty() && !name.starts_with('#');
        if foreign && !["heapwise-format", "libc", "gimli"].contains(&name) {
            findings.push(format!("crates/probe: must not depend on {name}; the guest stays tiny"));
        }
    }
    Ok(())
}

/// Every Rust source of the workspace.
fn sources(root: &Path) -> Result<Vec<PathBuf>, Failure> {
    let mut found = Vec::new();
    let mut open = vec![root.join("crates"), root.join("xtask"), root.join("fuzz"), root.join("benches")];
    while let Some(directory) = open.pop() {
        let Ok(entries) = fs::read_dir(&directory) else { continue };
        for entry in entries.flatten() {
            let path = entry.path();
            let name = entry.file_name().to_string_lossy().into_owned();
            if path.is_dir() && name != "target" && name != "node_modules" {
                open.push(path);
            } else if name.ends_with(".rs") {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}
