//! Annotated source: bytes per line of the selected functions.

use std::collections::BTreeMap;

use super::Totals;
use super::top::descending;
use crate::call_tree::{CallTree, Visit};
use crate::query::{Granularity, Query, Regex};
use crate::{Profile, Weight};

/// Functions with their lines.
#[derive(Debug, Clone, PartialEq)]
pub struct List {
    /// The whole.
    pub totals: Totals,
    /// Matching functions, largest cum first.
    pub functions: Vec<Listing>,
}

/// One function in one file.
#[derive(Debug, Clone, PartialEq)]
pub struct Listing {
    /// Its name.
    pub function: String,
    /// Its source file, or empty.
    pub file: String,
    /// Allocated in the function.
    pub flat: Weight,
    /// Allocated in the function and its callees.
    pub cum: Weight,
    /// By line number: flat and cum of that line.
    pub lines: BTreeMap<u32, (Weight, Weight)>,
}

/// A source line beside its numbers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AnnotatedLine<'a> {
    /// Line number, from 1.
    pub number: u32,
    /// Allocated in this line.
    pub flat: Weight,
    /// Allocated in this line and in what it calls.
    pub cum: Weight,
    /// The text.
    pub text: &'a str,
}

/// Bytes per line of the functions whose name matches. The query's granularity is not used.
#[must_use]
pub fn list(profile: &Profile, base: Option<&Profile>, pattern: &Regex, query: &Query) -> List {
    let query = Query { granularity: Granularity::Lines, ..query.clone() };
    let tree = CallTree::compare(profile, base, &query);
    let (listing_of, mut functions) = matching(&tree, pattern);
    let totals = tree.frame_totals();
    for (at, frame) in tree.frames.all().iter().enumerate() {
        if let Some(listing) = listing_of[at] {
            let line = functions[listing].lines.entry(frame.line).or_default();
            line.0 += totals.flat[at];
            line.1 += totals.cum[at];
        }
    }
    add_totals(&tree, &listing_of, &mut functions);
    functions.retain(|listing| listing.cum.value != 0.0);
    functions.sort_by(|a, b| descending(a.cum.value, b.cum.value).then_with(|| a.function.cmp(&b.function)));
    functions.truncate(query.limit.unwrap_or(usize::MAX));
    List { totals: Totals::of(&tree), functions }
}

/// For each frame the listing it belongs to, and the listings, still empty.
fn matching(tree: &CallTree, pattern: &Regex) -> (Vec<Option<usize>>, Vec<Listing>) {
    let mut listings: Vec<Listing> = Vec::new();
    let mut known: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    let places = tree.frames.all().iter().map(|frame| {
        pattern.is_match(&frame.function).then(|| {
            *known.entry((&frame.function, &frame.file)).or_insert_with(|| {
                listings.push(Listing {
                    function: frame.function.clone(),
                    file: frame.file.clone(),
                    flat: Weight::default(),
                    cum: Weight::default(),
                    lines: BTreeMap::new(),
                });
                listings.len() - 1
            })
        })
    });
    let places = places.collect();
    (places, listings)
}

/// A function counts once per stack however many of its lines are on it.
fn add_totals(tree: &CallTree, listing_of: &[Option<usize>], functions: &mut [Listing]) {
    let mut open = vec![0_u32; functions.len()];
    tree.walk(|step| {
        let (Visit::Enter(id) | Visit::Leave(id)) = step;
        let node = tree.node(id);
        let Some(at) = listing_of[node.frame.index()] else {
            return;
        };
        if step == Visit::Leave(id) {
            open[at] -= 1;
            return;
        }
        functions[at].flat += node.own;
        if open[at] == 0 {
            functions[at].cum += node.sum;
        }
        open[at] += 1;
    });
}

impl Listing {
    /// The source text beside the numbers, `context` lines around the first and last that count.
    #[must_use]
    pub fn annotate<'a>(&self, source: &'a str, context: u32) -> Vec<AnnotatedLine<'a>> {
        let mut known = self.lines.keys().copied().filter(|line| *line > 0);
        let Some(first) = known.next() else {
            return Vec::new();
        };
        let last = known.next_back().unwrap_or(first);
        let range = first.saturating_sub(context)..=last.saturating_add(context);
        let numbered = (1_u32..).zip(source.lines());
        numbered
            .filter(|(number, _)| range.contains(number))
            .map(|(number, text)| {
                let (flat, cum) = self.lines.get(&number).copied().unwrap_or_default();
                AnnotatedLine { number, flat, cum, text }
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::profile;

    #[test]
    fn lines_of_a_function_and_the_function_once() {
        let program = profile("main:1;f:10;malloc 4 1\nmain:2;f:12;g:30 6 1\nmain:1;f:12;f:10;malloc 1 1");
        let view = list(&program, None, &Regex::new("^f$").unwrap(), &Query::default());
        let [f] = &view.functions[..] else {
            panic!("one function matches");
        };
        assert_eq!((f.file.as_str(), f.flat.value, f.cum.value), ("app.c", 5.0, 11.0));
        let lines: Vec<_> =
            f.lines.iter().map(|(line, (flat, cum))| (*line, flat.value, cum.value)).collect();
        assert_eq!(lines, [(10, 5.0, 5.0), (12, 0.0, 7.0)]);

        let source: String = (1..=20).map(|n| format!("line {n}\n")).collect();
        let text: Vec<_> = f.annotate(&source, 1).iter().map(|line| (line.text, line.cum.value)).collect();
        assert_eq!(
            text,
            [("line 9", 0.0), ("line 10", 5.0), ("line 11", 0.0), ("line 12", 7.0), ("line 13", 0.0)]
        );
    }
}
