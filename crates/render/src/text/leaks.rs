//! Memory that is still held, and its classification.

use heapwise_profile::printable::printable;
use heapwise_profile::view::leaks::{LeakClass, LeakGroup, Leaks};
use heapwise_profile::view::{Totals, traces::Trace};

use super::TextOptions;
use super::own_code::{Ink, place};
use crate::amount::percent;

/// Stacks shown per site; the rest are counted.
const STACKS_SHOWN: usize = 3;

/// Sites with their largest stacks, under a line that explains the numbers.
#[must_use]
pub fn leaks(view: &Leaks, options: &TextOptions) -> String {
    let totals = &view.totals;
    let what = match view.class {
        LeakClass::Live => "Live (in use, not necessarily leaked)",
        LeakClass::StillHeld => "Still held (the program runs: not necessarily leaked)",
        LeakClass::NeverFreed => "Never freed (the program has ended)",
    };
    let mut out = format!(
        "{what}: {}, {}\n",
        options.amounts.with_unit(totals.total.value, totals.unit),
        counted(totals.total.objects, "block"),
    );
    out += &options.coverage_lines(totals);
    for group in &view.groups {
        push_group(&mut out, group, totals, options);
    }
    if view.dropped > 0 {
        out += &format!("\n… and {}; -n 0 shows all\n", counted(view.dropped as f64, "more site"));
    }
    out
}

fn push_group(out: &mut String, group: &LeakGroup, totals: &Totals, options: &TextOptions) {
    let amount = |value: f64| options.amounts.with_unit(value, totals.unit);
    let own = match &group.own {
        Some(own) if own.is_itself && own.file.is_empty() => String::new(),
        Some(own) => options.ink(Ink::Own, &format!(" (your code: {})", place(Some(own)))),
        None => String::new(),
    };
    *out += &format!(
        "\n{} ({}) in {}, {}: {}{own}\n",
        amount(group.weight.value),
        percent(group.weight.value, totals.whole()),
        counted(group.weight.objects, "block"),
        counted(group.stack_count as f64, "stack"),
        printable(&group.site.label),
    );
    for Trace { frames, weight } in group.stacks.iter().take(STACKS_SHOWN) {
        *out += &format!("    {} in {}\n", amount(weight.value), counted(weight.objects, "block"));
        for frame in frames {
            *out += &format!("        {}\n", printable(&frame.label));
        }
    }
    if let Some(more) = group.stack_count.checked_sub(STACKS_SHOWN).filter(|more| *more > 0) {
        *out += &format!("    … and {}\n", counted(more as f64, "more stack"));
    }
}

fn counted(number: f64, noun: &str) -> String {
    let plural = if number.round() == 1.0 { "" } else { "s" };
    format!("{number:.0} {noun}{plural}")
}

#[cfg(test)]
mod tests {
    use heapwise_profile::{CallTree, Query, view};

    use super::*;
    use heapwise_profile::fixture::profile;

    #[test]
    fn the_verdict_comes_first() {
        let query = Query::default();
        let tree = CallTree::new(&profile("main;f;malloc 1048576 1\nmain;g;f 3145728 2"), &query);
        let view = view::leaks::leaks(&tree, LeakClass::NeverFreed, &query, view::traces::StackLimit::NONE);
        assert_eq!(
            leaks(&view, &TextOptions { coverage: false, ..TextOptions::default() }),
            "Never freed (the program has ended): 4.0 MB, 3 blocks\n\n\
             4.0 MB (100.0%) in 3 blocks, 2 stacks: f\n\
             \x20   3.0 MB in 2 blocks\n        f\n        g\n        main\n\
             \x20   1.0 MB in 1 block\n        f\n        main\n"
        );
    }
}
