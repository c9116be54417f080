//! Whether ARCHITECTURE.md is still a map of this tree: the files of its table and the functions of
//! its walks exist.

use std::path::Path;

/// What the page names and the tree has not. `sources` is the text of every source file.
pub(crate) fn missing(root: &Path, page: &str, sources: &str) -> Vec<String> {
    let files = quoted(section(page, "## I want to", "## Crates"));
    let mut directory = root.to_owned();
    let mut missing = Vec::new();
    for name in files.filter(|name| name.contains('.') || name.contains('/')) {
        // A bare file name is a neighbor of the file before it.
        let path = if root.join(name).exists() { root.join(name) } else { directory.join(name) };
        if !path.exists() {
            missing.push(format!("ARCHITECTURE.md: no file `{name}`"));
        }
        directory = path.parent().unwrap_or(root).to_owned();
    }
    for call in quoted(section(page, "## Five walks", "## Glossary")).filter(|name| name.contains("::")) {
        let name = call.split(['(', ' ']).next().unwrap_or(call);
        let name = name.rsplit("::").next().unwrap_or(name);
        if !is_defined(name, sources) {
            missing.push(format!("ARCHITECTURE.md: no function or type `{call}`"));
        }
    }
    missing
}

fn section<'a>(page: &'a str, from: &str, to: &str) -> &'a str {
    let rest = page.split_once(from).map_or("", |(_, rest)| rest);
    rest.split_once(to).map_or(rest, |(section, _)| section)
}

fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// Whether a function, type, module or variant has this name.
fn is_defined(name: &str, sources: &str) -> bool {
    let item = ["fn", "struct", "enum", "mod", "type", "trait"].iter().any(|keyword| {
        let start = format!("{keyword} {name}");
        sources.match_indices(&start).any(|(at, _)| {
            let next = sources[at + start.len()..].chars().next();
            next.is_none_or(|next| !next.is_alphanumeric() && next != '_')
        })
    });
    item || sources.contains(&format!("    {name},\n")) || sources.contains(&format!("    {name} {{\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_do_not_exist_are_reported() {
        let page = "## I want to\n`src/main.rs`, `gone.rs`\n## Crates\n## Five walks\n`a::load` → \
                    `a::Kind::Small` → `a::lo`\n## Glossary\n";
        let sources = "pub fn load() {}\nenum Kind {\n    Small,\n}\n";
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        assert_eq!(
            missing(root, page, sources),
            ["ARCHITECTURE.md: no file `gone.rs`", "ARCHITECTURE.md: no function or type `a::lo`"]
        );
    }
}
