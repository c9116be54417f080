//! Your code: the place in the program's own code that the memory of a frame is allocated for.

use std::collections::HashSet;

use rustc_hash::FxHashMap;

use crate::own_code::{CodeFrame, CodeFrames};
use crate::weigh::Weigher;
use crate::{CallTree, Frame, FrameId, Profile, Query, name};

/// A place in the program's own code.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OwnPlace {
    /// The function.
    pub function: String,
    /// Source file, or empty.
    pub file: String,
    /// Source line; 0 when unknown.
    pub line: u32,
    /// Whether the frame is this function itself; otherwise the function calls it.
    pub is_itself: bool,
}

/// The places of the frames of one call tree.
#[derive(Debug)]
pub struct OwnPlaces<'a> {
    tree: &'a CallTree,
    /// By frame: the place with the largest part of what the frame allocates itself.
    largest: FxHashMap<FrameId, &'a CodeFrame>,
    /// Functions of the program's own code, see [`CodeFrames::own_functions`].
    functions: HashSet<(&'a str, &'a str)>,
}

impl<'a> OwnPlaces<'a> {
    /// The places of `tree`, which is that of `profile` and `query`.
    #[must_use]
    pub fn new(profile: &Profile, code: &'a CodeFrames, tree: &'a CallTree, query: &Query) -> Self {
        let weigher = Weigher::new(profile, query.metric, query.usable);
        let mut sums: FxHashMap<(FrameId, usize), Sum<'a>> = FxHashMap::default();
        for (at, sample) in profile.samples.iter().enumerate() {
            let value = weigher.weigh(at).value.abs();
            let Some(node) = tree.node_of(sample.stack).filter(|node| node.index() != 0) else { continue };
            let Some(frame) = code.own(profile, sample.stack).filter(|_| value > 0.0) else { continue };
            let sum = sums.entry((tree.node(node).frame, frame.function)).or_insert(Sum::of(frame));
            sum.value += value;
            if value > sum.largest {
                (sum.largest, sum.frame) = (value, frame);
            }
        }
        let mut most: FxHashMap<FrameId, Sum<'a>> = FxHashMap::default();
        for ((frame, _), sum) in sums {
            let known = most.entry(frame).or_insert(sum);
            if (sum.value, &known.frame.label) > (known.value, &sum.frame.label) {
                *known = sum;
            }
        }
        Self {
            tree,
            largest: most.into_iter().map(|(frame, sum)| (frame, sum.frame)).collect(),
            functions: code.own_functions(),
        }
    }

    /// The place of a frame of the tree; `None` for a frame whose memory is not allocated for code
    /// of the program.
    #[must_use]
    pub fn of(&self, frame: &Frame) -> Option<OwnPlace> {
        let is_same = |label: &str| label == frame.function || label == name::short(&frame.function);
        if let Some(own) = self.tree.frames.find(&frame.label).and_then(|id| self.largest.get(&id)) {
            let CodeFrame { label, file, line, .. } = own;
            let is_itself = is_same(label);
            return Some(OwnPlace { function: label.clone(), file: file.clone(), line: *line, is_itself });
        }
        // A caller, which allocates nothing itself.
        let short = name::short(&frame.function);
        let (function, _) = [(&*frame.function, &*frame.file), (&*frame.function, ""), (&*short, "")]
            .into_iter()
            .find_map(|key| self.functions.get(&key))?;
        let (file, line) = (frame.file.clone(), frame.line);
        Some(OwnPlace { function: (*function).to_owned(), file, line, is_itself: true })
    }
}

#[derive(Clone, Copy)]
struct Sum<'a> {
    value: f64,
    /// Value of the stack of `frame`.
    largest: f64,
    frame: &'a CodeFrame,
}

impl<'a> Sum<'a> {
    fn of(frame: &'a CodeFrame) -> Self {
        Self { value: 0.0, largest: 0.0, frame }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::profile;
    use crate::own_code::OwnRule;
    use crate::view::top::top;

    fn places(text: &str, rule: &OwnRule) -> Vec<(String, String, bool)> {
        let program = profile(text);
        let query = Query::default();
        let code = CodeFrames::new(&program, rule);
        let tree = CallTree::new(&program, &query);
        let rows = top(&tree, &query).with_own(&OwnPlaces::new(&program, &code, &tree, &query)).rows;
        let row = |row: crate::view::Row| {
            let own = row.own.unwrap_or_default();
            (row.frame.label.clone(), own.function, own.is_itself)
        };
        rows.into_iter().map(row).collect()
    }

    #[test]
    fn memory_of_a_library_belongs_to_the_caller_that_holds_most() {
        let text = "main;load;std::vector::grow;malloc 60 1\nmain;parse;std::vector::grow;malloc 40 1\n\
                    main;parse;malloc 5 1\nstd::start;std::run;malloc 1 1";
        let row = |label: &str, own: &str, is_itself| (label.to_owned(), own.to_owned(), is_itself);
        assert_eq!(
            places(text, &OwnRule::default()),
            [
                row("std::vector::grow", "load", false),
                row("parse", "parse", true),
                row("std::run", "", false),
                row("load", "load", true),
                row("main", "main", true),
                row("std::start", "", false),
            ]
        );
        let mine = OwnRule::new([&"vector".to_owned()], [&"^load$".to_owned()]).unwrap();
        let rows = places(text, &mine);
        assert_eq!(rows[0], row("std::vector::grow", "std::vector::grow", true));
        assert_eq!(rows[3], row("load", "", false));
    }
}
