//! Finds cycles between the top-level modules of a crate, for `tidy`.
//!
//! A module uses another when its source, tests aside, names `crate::OTHER` (or `super::OTHER` in a
//! file of the crate's root).

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use heapwise_testkit::failure::Failure;

type Uses = BTreeMap<String, BTreeSet<String>>;

/// One cycle as `a → b → a`, if there is one.
pub(crate) fn find(crate_folder: &Path) -> Result<Option<String>, Failure> {
    let source = crate_folder.join("src");
    let mut uses = Uses::new();
    let names = top_level(&source)?;
    for name in &names {
        let mut used = BTreeSet::new();
        collect(&source.join(format!("{name}.rs")), true, &mut used)?;
        collect_folder(&source.join(name), &mut used)?;
        used.retain(|other| other != name && names.contains(other));
        uses.insert(name.clone(), used);
    }
    Ok(cycle(&uses))
}

fn top_level(source: &Path) -> Result<BTreeSet<String>, Failure> {
    let entries = fs::read_dir(source).map_err(|error| Failure::at(source, error))?;
    let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let modules = names.filter_map(|name| name.strip_suffix(".rs").map(str::to_owned));
    Ok(modules.filter(|name| name != "lib" && name != "main").collect())
}

fn collect_folder(folder: &Path, used: &mut BTreeSet<String>) -> Result<(), Failure> {
    let Ok(entries) = fs::read_dir(folder) else { return Ok(()) };
    for path in entries.flatten().map(|entry| entry.path()) {
        if path.is_dir() {
            collect_folder(&path, used)?;
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            collect(&path, false, used)?;
        }
    }
    Ok(())
}

fn collect(file: &Path, is_top_level: bool, used: &mut BTreeSet<String>) -> Result<(), Failure> {
    let text = fs::read_to_string(file).map_err(|error| Failure::at(file, error))?;
    let text = text.split("#[cfg(test)]").next().unwrap_or_default();
    let code: String = text.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
    let prefixes: &[&str] = if is_top_level { &["crate::", "super::"] } else { &["crate::"] };
    for prefix in prefixes {
        for rest in code.split(prefix).skip(1) {
            let list = rest.strip_prefix('{').and_then(|rest| rest.split('}').next());
            let names = list.unwrap_or_else(|| rest.split(|c: char| !is_name(c)).next().unwrap_or_default());
            used.extend(names.split(|c: char| !is_name(c)).map(str::to_owned));
        }
    }
    Ok(())
}

fn is_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// Depth-first search with the path so far.
fn cycle(uses: &Uses) -> Option<String> {
    fn visit<'a>(at: &'a str, uses: &'a Uses, path: &mut Vec<&'a str>, done: &mut BTreeSet<&'a str>) -> bool {
        if let Some(start) = path.iter().position(|name| *name == at) {
            path.drain(..start);
            path.push(at);
            return true;
        }
        if done.contains(at) {
            return false;
        }
        path.push(at);
        if uses.get(at).into_iter().flatten().any(|next| visit(next, uses, path, done)) {
            return true;
        }
        path.pop();
        done.insert(at);
        false
    }
    let (mut path, mut done) = (Vec::new(), BTreeSet::new());
    uses.keys().any(|name| visit(name, uses, &mut path, &mut done)).then(|| path.join(" → "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uses(pairs: &[(&str, &[&str])]) -> Uses {
        let set = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        pairs.iter().map(|(name, used)| ((*name).to_owned(), set(used))).collect()
    }

    #[test]
    fn a_cycle_is_found_and_named() {
        assert_eq!(cycle(&uses(&[("a", &["b", "c"]), ("b", &["c"]), ("c", &[])])), None);
        let found = cycle(&uses(&[("a", &["b"]), ("b", &["c"]), ("c", &["b"])]));
        assert_eq!(found.as_deref(), Some("b → c → b"));
    }
}
