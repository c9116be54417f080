//! Signed changes, with both sides.

use heapwise_profile::view::top::Top;

use super::TextOptions;
use super::own_code::NameColumns;
use super::table::Table;
use crate::amount::percent;

/// `change  change%  before  after  cum change  name`; percentages refer to the base's total.
#[must_use]
pub fn diff(view: &Top, options: &TextOptions) -> String {
    let totals = &view.totals;
    let amount = |value: f64| options.amount(value, totals);
    let signed = |value: f64| {
        let text = amount(value);
        if value > 0.0 { format!("+{text}") } else { text }
    };
    let mut out = String::new();
    if options.total {
        let whole = totals.grand_total;
        let unit = options.amounts.unit(totals.unit);
        out += &format!(
            "Total: {} {unit} ({} before, {} after)\n",
            signed(whole.value),
            amount(whole.base),
            amount(whole.base + whole.value),
        );
        out += &options.coverage_lines(totals);
    }
    let mut table = Table::default();
    table.push(["change", "change%", "before", "after", "cum"].map(str::to_owned));
    for row in &view.rows {
        table.push([
            signed(row.flat.value),
            percent(row.flat.value, totals.whole()),
            amount(row.flat.base),
            amount(row.flat.base + row.flat.value),
            signed(row.cum.value),
        ]);
    }
    let names = NameColumns::new(&view.rows, table.width(), options);
    let ends = std::iter::once(names.head()).chain(view.rows.iter().map(|row| names.cells(row)));
    table.write_with(&mut out, ends);
    out
}

#[cfg(test)]
mod tests {
    use heapwise_profile::{CallTree, Query, view};

    use super::*;
    use heapwise_profile::fixture::profile;

    #[test]
    fn largest_change_first_whatever_its_sign() {
        let now = profile("main;grew 3145728 1\nmain;same 1048576 1");
        let before = profile("main;grew 1048576 1\nmain;gone 5242880 1\nmain;same 1048576 1");
        let query = Query::default();
        let tree = CallTree::compare(&now, Some(&before), &query);
        let text =
            diff(&view::top::top(&tree, &query), &TextOptions { coverage: false, ..TextOptions::default() });
        assert_eq!(
            text,
            "Total: -3.0 MB (7.0 before, 4.0 after)\n\
             change  change%  before  after   cum  name\n\
             \x20 -5.0   -71.4%     5.0    0.0  -5.0  gone\n\
             \x20 +2.0    28.6%     1.0    3.0  +2.0  grew\n\
             \x20  0.0     0.0%     0.0    0.0  -3.0  main\n"
        );
    }
}
