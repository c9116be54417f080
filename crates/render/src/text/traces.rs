//! Whole stacks, the allocating frame first.

use heapwise_profile::printable::printable;
use heapwise_profile::view::Totals;
use heapwise_profile::view::traces::{Trace, Traces};

use super::TextOptions;

const RULE: &str = "-----------+-------------------------------------------------------\n";

/// One block a stack, in the layout of `pprof -traces`.
#[must_use]
pub fn traces(view: &Traces, options: &TextOptions) -> String {
    let mut out = options.header_lines(&view.totals);
    for stack in &view.stacks {
        out += RULE;
        push_stack(&mut out, stack, &view.totals, options);
    }
    out += RULE;
    out
}

fn push_stack(out: &mut String, stack: &Trace, totals: &Totals, options: &TextOptions) {
    let mut amount = options.amount(stack.weight.value, totals);
    for frame in &stack.frames {
        *out += &format!("{amount:>10}   {}\n", printable(&frame.label));
        amount.clear();
    }
}

#[cfg(test)]
mod tests {
    use heapwise_profile::{CallTree, Query, view};

    use super::*;
    use heapwise_profile::fixture::profile;

    #[test]
    fn stacks_leaf_first() {
        let query = Query::default();
        let tree = CallTree::new(&profile("main;f 1048576 1"), &query);
        let text = traces(
            &view::traces::traces(&tree, &query, view::traces::StackLimit::NONE),
            &TextOptions { coverage: false, ..TextOptions::default() },
        );
        assert_eq!(text, format!("Total: 1.0 MB\n{RULE}       1.0   f\n             main\n{RULE}"));
    }
}
