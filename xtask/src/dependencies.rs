//! What `cargo deny` would check and a bare machine can in a second: where dependencies come from, under which licences, and
//! how many come twice, by the lists of `deny.toml`. Part of `tidy`. `audit` asks cargo-deny itself.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use heapwise_testkit::failure::Failure;

/// The quoted words of the list `name` in deny.toml.
fn words(rules: &str, name: &str) -> Vec<String> {
    let list = rules.split_once(&format!("\n{name} = [")).and_then(|(_, rest)| rest.split_once(']'));
    let quoted = list.into_iter().flat_map(|(list, _)| list.split('"').skip(1).step_by(2));
    quoted.map(str::to_owned).collect()
}

/// Findings about the dependencies, one a line.
pub(crate) fn check(root: &Path, findings: &mut Vec<String>) -> Result<(), Failure> {
    let read = |name: &str| {
        let path = root.join(name);
        fs::read_to_string(&path).map_err(|error| Failure::at(&path, error))
    };
    let (lock, rules) = (read("Cargo.lock")?, read("deny.toml")?);
    let (licences, known_twice) = (words(&rules, "allow"), words(&rules, "skip"));
    for line in lock.lines().filter(|line| line.starts_with("source = ")) {
        if !line.contains("registry+https://github.com/rust-lang/crates.io-index") {
            findings.push(format!("Cargo.lock: {line}; take dependencies from crates.io"));
        }
    }
    let mut count = BTreeMap::new();
    let packages = packages(root)?;
    for (name, licence) in &packages {
        *count.entry(name.as_str()).or_insert(0) += 1;
        if !is_allowed(licence, &licences) {
            findings.push(format!("{name}: licence `{licence}` is not on the list in deny.toml"));
        }
    }
    for (name, times) in count {
        if times > 1 && !known_twice.iter().any(|known| known == name) {
            findings.push(format!("{name}: {times} versions; agree on one, or say why in deny.toml"));
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
fn is_allowed(licence: &str, allowed: &[String]) -> bool {
    let choice = |part: &str| {
        let words = part.trim_matches(['(', ')', ' ']).replace('/', " OR ");
        words.split(" OR ").any(|name| allowed.iter().any(|allowed| allowed == name.trim()))
    };
    licence.split(" AND ").all(choice)
}

#[cfg(test)]
mod tests {
    use super::{is_allowed, words};

    #[test]
    fn lists_of_the_rules() {
        let rules = "[licenses]\nallow = [\n    \"MIT\",\n    \"Zlib\",\n]\n[bans]\nskip = []\n";
        assert_eq!(words(rules, "allow"), ["MIT", "Zlib"]);
        assert!(words(rules, "skip").is_empty() && words(rules, "other").is_empty());
    }

    #[test]
    fn licence_expressions() {
        let allowed = ["MIT", "Apache-2.0", "Unicode-3.0", "Zlib"].map(str::to_owned);
        for fine in ["MIT", "MIT/Apache-2.0", "(MIT OR GPL-3.0) AND Unicode-3.0", "GPL-2.0 OR Zlib"] {
            assert!(is_allowed(fine, &allowed), "{fine}");
        }
        for bad in ["GPL-3.0", "MIT AND GPL-3.0", ""] {
            assert!(!is_allowed(bad, &allowed), "{bad}");
        }
    }
}
