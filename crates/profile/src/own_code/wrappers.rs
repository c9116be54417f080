//! Wrappers of the allocator by shape.
//!
//! A function is one when half of all blocks are allocated in it, it has many callers, and it never
//! calls another function of the program that allocates. A wrapper may have a wrapper.

use std::collections::{HashMap, HashSet};

use super::CodeFrames;
use crate::{Profile, StackId};

/// Callers that a wrapper has at least.
const LEAST_CALLERS: usize = 8;
/// Wrappers around wrappers that are looked for.
const ROUNDS: usize = 4;

/// Marks the frames of wrappers.
pub(super) fn mark(
    frames: &mut CodeFrames,
    profile: &Profile,
    weights: impl Iterator<Item = (StackId, f64)>,
) {
    let mut stacks: HashMap<StackId, f64> = HashMap::new();
    weights.for_each(|(stack, weight)| *stacks.entry(stack).or_default() += weight);
    for _ in 0..ROUNDS {
        let Some(wrapper) = find(frames, profile, &stacks) else { return };
        for frame in frames.by_location.iter_mut().flatten().filter(|frame| frame.function == wrapper) {
            (frame.is_own, frame.is_wrapper) = (false, true);
        }
    }
}

/// The function that is a wrapper by its shape.
fn find(frames: &CodeFrames, profile: &Profile, stacks: &HashMap<StackId, f64>) -> Option<usize> {
    let mut blocks: HashMap<usize, f64> = HashMap::new();
    let first = |stack: StackId| frames.first_of_own_code(profile, stack);
    for (stack, weight) in stacks {
        if let Some(frame) = frames.own(profile, *stack).filter(|frame| !frame.is_declared) {
            *blocks.entry(frame.function).or_default() += weight;
        }
    }
    let total: f64 = stacks.values().sum();
    let (function, most) = blocks.into_iter().max_by(|a, b| a.1.total_cmp(&b.1).then(a.0.cmp(&b.0)))?;
    if most * 2.0 < total {
        return None;
    }
    let mut callers = HashSet::new();
    for stack in stacks.keys() {
        let mut outer = frames.frames(profile, *stack).skip(first(*stack));
        let innermost = outer.next()?.function;
        let Some(caller) = outer.next() else { continue };
        let calls_another = caller.function == function || outer.any(|frame| frame.function == function);
        if calls_another {
            return None;
        }
        if innermost == function {
            callers.insert(caller.function);
        }
    }
    (callers.len() >= LEAST_CALLERS).then_some(function)
}

#[cfg(test)]
mod tests {
    use crate::fixture::profile;
    use crate::own_code::{CodeFrames, OwnRule};

    fn first(text: &str) -> String {
        let program = profile(text);
        let code = CodeFrames::new(&program, &OwnRule::default());
        let mut labels: Vec<String> = program
            .samples
            .iter()
            .map(|sample| code.from_own_code(&program, sample.stack, 1)[0].label.clone())
            .collect();
        labels.sort();
        labels.dedup();
        labels.join(" ")
    }

    #[test]
    fn a_function_with_many_callers_that_allocates_most_is_a_wrapper() {
        let text: String = ["a", "b", "c", "d", "e", "f", "g", "h"]
            .map(|caller| format!("main;{caller};obtain;take;malloc 8 1\n"))
            .concat();
        assert_eq!(first(&text), "take", "one caller");
        let text = text.replace(";take;", ";");
        assert_eq!(first(&text), "a b c d e f g h");
        let recursive = text + "main;obtain;parse;malloc 1 1\n";
        assert_eq!(first(&recursive), "obtain parse", "it calls a function that allocates");
    }
}
