//! README.zh-CN.md has what README.md has: the same headings, commands, tables and links.

use std::fs;
use std::path::Path;

use heapwise_testkit::failure::Failure;

const ENGLISH: &str = "README.md";
const CHINESE: &str = "README.zh-CN.md";

/// The first difference between the parts of both that need no translation.
pub(crate) fn check(root: &Path) -> Result<Vec<String>, Failure> {
    let read = |name: &str| {
        let path = root.join(name);
        fs::read_to_string(&path).map_err(|error| Failure::at(&path, error))
    };
    Ok(difference(&read(ENGLISH)?, &read(CHINESE)?).into_iter().collect())
}

fn difference(english: &str, chinese: &str) -> Option<String> {
    let (english, chinese) = (untranslated(english), untranslated(chinese));
    let differs = |at: &usize| english.get(*at) != chinese.get(*at);
    let at = (0..english.len().max(chinese.len())).find(differs)?;
    let part = |parts: &[String]| parts.get(at).map_or("nothing".to_owned(), |part| format!("`{part}`"));
    Some(format!("{CHINESE}: has {} where {ENGLISH} has {}", part(&chinese), part(&english)))
}

/// Level of each heading, lines of code without comments, numbers of cells; then all links.
fn untranslated(text: &str) -> Vec<String> {
    let mut parts = Vec::new();
    let mut in_code = false;
    // Sentences wrap elsewhere in the other language: links are compared behind all else.
    let mut linked = Vec::new();
    for line in text.lines() {
        if line.starts_with("```") {
            in_code = !in_code;
        } else if in_code {
            let code = line.split("# ").next().unwrap_or_default().trim_end();
            parts.push(code.to_owned());
        } else if line.starts_with('#') {
            parts.push(line.chars().take_while(|char| *char == '#').collect());
        } else if line.starts_with('|') {
            parts.push(format!("{} cells", line.matches('|').count()));
        }
        if !in_code {
            linked.extend(links(line));
        }
    }
    parts.extend(linked);
    parts
}

/// Targets of links in a line, without those between the two files.
fn links(line: &str) -> impl Iterator<Item = String> {
    let ends = line.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    ends.filter(|target| !target.starts_with("README")).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_headings_rows_and_links_are_compared() {
        let english = "# A\ntext [x](docs/A.md)\n```\nrun -o a   # what\n```\n| a | b |\n";
        let chinese = "# 甲\n文\n字 [x](docs/A.md)\n```\nrun -o a   # 什么\n```\n| 甲 | 乙 |\n";
        assert_eq!(difference(english, chinese), None);
        for (from, to) in [("-o a", "-o b"), ("| a | b |", "| a |"), ("# A", "## A"), ("A.md", "B.md")] {
            assert!(difference(&english.replace(from, to), chinese).is_some(), "{from}");
        }
        assert!(difference(&format!("{english}## B\n"), chinese).is_some());
    }
}
