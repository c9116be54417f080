//! The documents and comments of the tree: lines that are not too long, and names of files that
//! exist.

use std::fs;
use std::path::{Path, PathBuf};

use heapwise_testkit::failure::Failure;

/// Most columns of a line of prose.
const MOST_COLUMNS: usize = 100;
/// Ends of the names of files that a document may name.
const SOURCES: [&str; 9] = [".rs", ".md", ".ts", ".js", ".c", ".cpp", ".h", ".toml", ".lua"];
/// Ends of the names of other files whose comments are checked.
const COMMENTED: [&str; 5] = [".c", ".cpp", ".h", ".ts", ".js"];
/// Lines that a command reads, which cannot be wrapped (`crates/testkit/src/programs.rs`).
const DIRECTIVE: &str = "// build: ";
/// Written by a command (`cargo xtask bench`), which does not wrap.
const GENERATED: [&str; 1] = ["docs/BENCHMARKS.md"];
/// Directories that are not part of the tree.
const FOREIGN: [&str; 4] = ["target", "node_modules", ".git", "dist"];

/// Findings in every document of the tree.
pub(crate) fn check(root: &Path) -> Result<Vec<String>, Failure> {
    let files = files(root);
    let mut findings = Vec::new();
    let read = |name: &str| {
        let path = root.join(name);
        fs::read_to_string(&path).map_err(|error| Failure::at(&path, error))
    };
    for name in files.iter().filter(|name| name.ends_with(".md")) {
        findings.extend(check_document(name, &read(name)?, &files));
    }
    // Sources in Rust: `tidy.rs`.
    for name in files.iter().filter(|name| COMMENTED.iter().any(|end| name.ends_with(end))) {
        findings.extend(long_comments(name, &read(name)?));
    }
    Ok(findings)
}

/// Findings in one document of a tree with these files.
fn check_document(name: &str, text: &str, files: &[String]) -> Vec<String> {
    let mut findings = Vec::new();
    for (number, line) in prose(text) {
        let is_prose = !line.trim_start().starts_with(['|', '#']) && !GENERATED.contains(&name);
        if is_prose && line.chars().count() > MOST_COLUMNS && is_wrappable(line) {
            findings.push(format!("{name}:{number}: wrap at {MOST_COLUMNS} columns"));
        }
        for path in line.split('`').skip(1).step_by(2).filter(|quoted| is_path(quoted)) {
            if !exists(path, files) {
                findings.push(format!("{name}:{number}: no file `{path}`"));
            }
        }
    }
    findings
}

/// Comments of a source that are too long.
pub(crate) fn long_comments(name: &str, text: &str) -> Vec<String> {
    let is_long = |line: &str| {
        let is_comment =
            line.trim_start().starts_with("//") || line.starts_with("/*") || line.starts_with(" * ");
        is_comment
            && !line.starts_with(DIRECTIVE)
            && line.chars().count() > MOST_COLUMNS
            && is_wrappable(line)
    };
    let lines = (1..).zip(text.lines()).filter(|(_, line)| is_long(line));
    lines.map(|(number, _)| format!("{name}:{number}: wrap at {MOST_COLUMNS} columns")).collect()
}

/// The numbered lines that are not in a block of code.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut in_code = false;
    (1..).zip(text.lines()).filter(move |(_, line)| {
        let is_fence = line.trim_start().starts_with("```");
        in_code ^= is_fence;
        !in_code && !is_fence
    })
}

/// Whether a line has a space in its first columns behind the indentation: an address has none.
fn is_wrappable(line: &str) -> bool {
    let text = line.trim_start().trim_start_matches(['/', '!', '*', '-', '>']).trim_start();
    text.split_whitespace().next().is_some_and(|word| word.chars().count() < MOST_COLUMNS - 20)
        && text.contains(' ')
}

/// Whether a quoted text names a file of this tree.
fn is_path(text: &str) -> bool {
    let is_plain = text.chars().all(|char| char.is_ascii_alphanumeric() || "._-/".contains(char));
    let is_own = !text.starts_with(['/', '.', '-']) && !text.starts_with("target/");
    is_plain && is_own && text.contains('/') && SOURCES.iter().any(|end| text.ends_with(end))
}

/// Whether some file has this name, from the root or from any directory.
fn exists(path: &str, files: &[String]) -> bool {
    files
        .iter()
        .any(|file| file.strip_suffix(path).is_some_and(|before| before.is_empty() || before.ends_with('/')))
}

/// Every file of the tree, relative to its root.
fn files(root: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut open: Vec<PathBuf> = vec![root.to_owned()];
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(&directory).into_iter().flatten().flatten() {
            let path = entry.path();
            if !path.is_dir() {
                found.push(path.strip_prefix(root).unwrap_or(&path).display().to_string());
            } else if !FOREIGN.iter().any(|name| entry.file_name() == *name) {
                open.push(path);
            }
        }
    }
    found.sort();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_and_missing_files_are_reported() {
        let long = "word ".repeat(30);
        let text = format!(
            "{long}\n| {long} |\n```\n{long} `src/gone.rs`\n```\n`src/main.rs`, `xtask/src/main.rs`,\n\
             `src/gone.rs`, `GET /a/b.c`\n"
        );
        let files = ["xtask/src/main.rs".to_owned()];
        assert_eq!(
            check_document("A.md", &text, &files),
            ["A.md:1: wrap at 100 columns", "A.md:7: no file `src/gone.rs`"]
        );
        let source = format!("// {long}\nlet text = \"{long}\";\n    /// https://{}\n", "a".repeat(100));
        assert_eq!(long_comments("a.rs", &source), ["a.rs:1: wrap at 100 columns"]);
    }
}
