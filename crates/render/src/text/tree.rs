//! Callers and callees, in the layout of `pprof -tree` and `-peek`.

use heapwise_profile::printable::printable;
use heapwise_profile::view::peek::{Neighbour, Neighbourhoods};

use super::TextOptions;
use crate::amount::percent;

const RULE: &str = "----------------------------------------------------------+-------------\n";

/// One block a frame: its callers above, its callees below. Percentages of neighbours refer to the
/// frame's own cum.
#[must_use]
pub fn tree(view: &Neighbourhoods, options: &TextOptions) -> String {
    let totals = &view.totals;
    let whole = totals.whole();
    let mut out = options.header_lines(totals);
    out += RULE;
    out += "      flat  flat%   sum%        cum   cum%   calls calls% + context\n";
    out += RULE;
    let mut sum = 0.0;
    for entry in &view.entries {
        let cum = entry.row.cum.value;
        let push_neighbour = |out: &mut String, neighbour: &Neighbour| {
            let value = neighbour.weight.value;
            let (amount, share) = (options.amount(value, totals), percent(value, cum));
            *out += &format!("{amount:>50} {share:>6} |   {}\n", printable(&neighbour.label));
        };
        entry.callers.iter().for_each(|caller| push_neighbour(&mut out, caller));
        sum += entry.row.flat.value;
        out += &format!(
            "{:>10} {:>6} {:>6} {:>10} {:>6}                | {}\n",
            options.amount(entry.row.flat.value, totals),
            percent(entry.row.flat.value, whole),
            percent(sum, whole),
            options.amount(cum, totals),
            percent(cum, whole),
            printable(&entry.row.frame.label),
        );
        entry.callees.iter().for_each(|callee| push_neighbour(&mut out, callee));
        out += RULE;
    }
    out
}

#[cfg(test)]
mod tests {
    use heapwise_profile::{CallTree, Query, query::Regex, view};

    use super::*;
    use heapwise_profile::fixture::profile;

    #[test]
    fn a_frame_between_its_neighbours() {
        let program = profile("main;f;g 1048576 1\nmain;f 3145728 1");
        let query = Query::default();
        let peek = view::peek::peek(&CallTree::new(&program, &query), &Regex::new("f").unwrap(), &query);
        let text = tree(&peek, &TextOptions { coverage: false, ..TextOptions::default() });
        let lines: Vec<&str> = text.lines().skip(4).collect();
        assert_eq!(
            lines,
            [
                "                                               4.0 100.0% |   main",
                "       3.0  75.0%  75.0%        4.0 100.0%                | f",
                "                                               1.0  25.0% |   g",
                RULE.trim_end(),
            ]
        );
    }
}
