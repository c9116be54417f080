//! What `cargo deny` would check and a bare machine can: where dependencies come from, under which licences, and
//! how many come twice. Part of `tidy`. `audit` asks cargo-deny itself, advisories included; it takes minutes to
//! build, so it is run by hand.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use crate::failure::Failure;

/// Licences that suit MIT OR Apache-2.0 in an executable handed out with its notices.
const LICENCES: [&str; 9] = [
    "MIT",
    "Apache-2.0",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "0BSD",
    "Zlib",
    "BSL-1.0",
    "Unicode-3.0",
    "Unlicense",
];

/// Crates whose two versions are our dependencies' own affair, all of them small.
const KNOWN_TWICE: [&str; 5] = ["base64", "bitflags", "kurbo", "miniz_oxide", "syn"];

/// Findings about the dependencies, one a line.
pub(crate) fn check(root: &Path, findings: &mut Vec<String>) -> Result<(), Failure> {
    let path = root.join("Cargo.lock");
    let lock = fs::read_to_string(&path).map_err(|error| Failure::at(&path, error))?;
    for line in lock.lines().filter(|line| line.starts_with("source = ")) {
        if !line.contains("registry+https://github.com/rust-lang/crates.io-index") {
            findings.push(format!("Cargo.lock: {line}; take dependencies from crates.io"));
        }
    }
    let mut count = BTreeMap::new();
    let packages = packages(root)?;
    for (name, licence) in &packages {
        *count.entry(name.as_str()).or_insert(0) += 1;
        if !is_allowed(licence) {
            findings
                .push(format!("{name}: licence `{licence}` is not on the list in xtask/src/dependencies.rs"));
        }
    }
    for (name, times) in count {
        if times > 1 && !KNOWN_TWICE.contains(&name) {
            findings.push(format!("{name}: {times} versions; agree on one, or say why in KNOWN_TWICE"));
        }
    }
    Ok(())
}

/// Name and licence of every package built on Linux.
fn packages(root: &Path) -> Result<Vec<(String, String)>, Failure> {
    let output = Command::new("cargo")
        .args(["metadata", "--format-version", "1", "--locked"])
        .args(["--filter-platform", "x86_64-unknown-linux-gnu"])
        .current_dir(root)
        .output()
        .map_err(|error| Failure::new(format!("cargo metadata: {error}")))?;
    let text = String::from_utf8_lossy(&output.stdout);
    // A package begins `{"name":…,"version":…,"id":…,"license":…`; nothing else has a licence. A JSON library for
    // two fields would be this tool's largest part.
    let value =
        |text: &str| text.strip_prefix('"').and_then(|rest| rest.split('"').next()).map(str::to_owned);
    let pieces: Vec<&str> = text.split("\"license\":").collect();
    let names = pieces.iter().filter_map(|piece| value(piece.rsplit_once("{\"name\":")?.1));
    let licences = pieces.iter().skip(1).map(|piece| value(piece).unwrap_or_default());
    let found: Vec<_> = names.zip(licences).collect();
    if found.is_empty() { Err(Failure::new("cargo metadata told nothing")) } else { Ok(found) }
}

/// Whether an SPDX expression can be met: one choice of every `AND` part.
fn is_allowed(licence: &str) -> bool {
    let choice = |part: &str| {
        let words = part.trim_matches(['(', ')', ' ']).replace('/', " OR ");
        words.split(" OR ").any(|name| LICENCES.contains(&name.trim()))
    };
    licence.split(" AND ").all(choice)
}

/// The command `audit`: cargo-deny with its advisories, installed when missing.
pub(crate) fn audit(root: &Path) -> Result<(), Failure> {
    let home = root.join("target/audit");
    let run = |command: &mut Command| command.current_dir(root).status().is_ok_and(|status| status.success());
    let tool = home.join("bin/cargo-deny");
    let is_there = tool.exists()
        || run(Command::new("cargo").args(["install", "-q", "--locked", "cargo-deny", "--root"]).arg(&home));
    if is_there && run(Command::new(tool).args(["check", "advisories", "sources", "bans"])) {
        return Ok(());
    }
    Err(Failure::new("audit: cargo-deny found something, or could not be installed"))
}

#[cfg(test)]
mod tests {
    use super::is_allowed;

    #[test]
    fn licence_expressions() {
        for fine in ["MIT", "MIT/Apache-2.0", "(MIT OR GPL-3.0) AND Unicode-3.0", "GPL-2.0 OR Zlib"] {
            assert!(is_allowed(fine), "{fine}");
        }
        for bad in ["GPL-3.0", "MIT AND GPL-3.0", ""] {
            assert!(!is_allowed(bad), "{bad}");
        }
    }
}
