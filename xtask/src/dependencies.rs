//! Every direct dependency has a row in docs/DEPENDENCIES.md, which says what it is for and why it
//! is this one.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use heapwise_testkit::failure::Failure;

const PAGE: &str = "docs/DEPENDENCIES.md";

/// Dependencies without a row, and rows without a dependency.
pub(crate) fn check(root: &Path) -> Result<Vec<String>, Failure> {
    let read = |path: &Path| fs::read_to_string(path).map_err(|error| Failure::at(path, error));
    let page = read(&root.join(PAGE))?;
    let mut used = BTreeSet::new();
    let crates = root.join("crates");
    let members = fs::read_dir(&crates).map_err(|error| Failure::at(&crates, error))?.flatten();
    let members = members.map(|member| member.path()).chain([root.join("xtask"), root.join("fuzz")]);
    for manifest in members.map(|member| member.join("Cargo.toml")).filter(|path| path.exists()) {
        used.extend(direct(&read(&manifest)?));
    }
    let rows = rows(&page);
    let missing = used.difference(&rows).map(|name| format!("{PAGE}: no row for `{name}`"));
    let unused = rows.difference(&used).filter(|name| !is_of_npm(&page, name));
    let unused = unused.map(|name| format!("{PAGE}: no crate depends on `{name}`"));
    Ok(missing.chain(unused).collect())
}

/// Names in the sections of dependencies of a manifest, without our own.
fn direct(manifest: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let mut is_section = false;
    for line in manifest.lines() {
        if line.starts_with('[') {
            is_section = line.ends_with("dependencies]");
        } else if is_section
            && line.starts_with(|char: char| char.is_ascii_alphabetic())
            && let Some(name) = line.split(['.', '=', ' ']).next()
            && !name.starts_with("heapwise")
        {
            names.insert(name.to_owned());
        }
    }
    names
}

/// Quoted names in the first cell of each row.
fn rows(page: &str) -> BTreeSet<String> {
    let cells = page.lines().filter_map(|line| line.strip_prefix("| ")?.split(" |").next());
    cells.flat_map(|cell| cell.split('`').skip(1).step_by(2)).map(str::to_owned).collect()
}

fn is_of_npm(page: &str, name: &str) -> bool {
    let quoted = format!("`{name}`");
    page.lines().any(|line| line.contains(&quoted) && line.contains("(npm)"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn manifests_and_rows_are_read() {
        let manifest = "[package]\nname = \"a\"\n[dependencies]\nheapwise-format.workspace = true\n# c\n\
                        clap = { version = \"4\" }\nserde.workspace = true\n\n\
                        [target.'cfg(loom)'.dev-dependencies]\nloom = \"0.7\"\n[lints]\nworkspace = true\n";
        let names = |set: BTreeSet<String>| set.into_iter().collect::<Vec<_>>();
        assert_eq!(names(direct(manifest)), ["clap", "loom", "serde"]);
        let page = "`x`\n| crate | for |\n|---|---|\n| `a`, `b` | `c` |\n| `esbuild` (npm) | bundles |\n";
        assert_eq!(names(rows(page)), ["a", "b", "esbuild"]);
        assert!(is_of_npm(page, "esbuild") && !is_of_npm(page, "a"));
    }
}
