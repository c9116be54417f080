//! The ranking as jeprof prints it.

use heapwise_profile::view::top::Top;

use super::TextOptions;
use super::own_code::NameColumns;
use crate::amount::percent;

/// Columns of a terminal that has room for `sum%`.
const LEAST_WIDTH: usize = 80;

/// `flat flat% sum% cum cum% name`, one row a frame; with errors a `±` column after each amount.
#[must_use]
pub fn top(view: &Top, options: &TextOptions) -> String {
    let totals = &view.totals;
    let whole = totals.whole();
    let mut out = options.header_lines(totals);
    let taken = match (options.errors, is_narrow(options)) {
        (true, _) => 57,
        (false, true) => 32,
        (false, false) => 39,
    };
    let names = NameColumns::new(&view.rows, taken, options);
    if options.header {
        let head = ["flat", "±", "flat%", "sum%", "cum", "±", "cum%"].map(str::to_owned);
        push_row(&mut out, head, &names.head(), options);
    }
    let mut sum = 0.0;
    for row in &view.rows {
        sum += row.flat.value;
        let cells = [
            options.amount(row.flat.value, totals),
            options.amount(row.flat.standard_error(), totals),
            percent(row.flat.value, whole),
            percent(sum, whole),
            options.amount(row.cum.value, totals),
            options.amount(row.cum.standard_error(), totals),
            percent(row.cum.value, whole),
        ];
        push_row(&mut out, cells, &names.cells(row), options);
    }
    out
}

fn push_row(out: &mut String, cells: [String; 7], name: &str, options: &TextOptions) {
    let [flat, flat_error, flat_percent, sum, cum, cum_error, cum_percent] = cells;
    *out += &if options.errors {
        format!(
            "{flat:>8} {flat_error:>8} {flat_percent:>6} {sum:>6} {cum:>8} {cum_error:>8} {cum_percent:>6} {name}\n"
        )
    } else if is_narrow(options) {
        format!("{flat:>8} {flat_percent:>6} {cum:>8} {cum_percent:>6} {name}\n")
    } else {
        format!("{flat:>8} {flat_percent:>6} {sum:>6} {cum:>8} {cum_percent:>6} {name}\n")
    };
}

/// Whether the terminal has no room for every column. jeprof's layout has them in any case.
fn is_narrow(options: &TextOptions) -> bool {
    options.header && options.width.is_some_and(|width| width < LEAST_WIDTH)
}

#[cfg(test)]
mod tests {
    use heapwise_profile::own_code::{CodeFrames, OwnRule};
    use heapwise_profile::view::OwnPlaces;
    use heapwise_profile::view::top::top as rank;
    use heapwise_profile::{CallTree, Query};

    use super::*;
    use crate::amount::Amounts;
    use heapwise_profile::fixture::profile;

    fn text(folded: &str, options: &TextOptions) -> String {
        let query = Query::default();
        top(&rank(&CallTree::new(&profile(folded), &query), &query), options)
    }

    #[test]
    fn equal_to_jeprof_to_the_byte() {
        // The replay of the jemalloc guide: 6 926 352 bytes, of which 2 831 152 in one function.
        let folded = "main;do_something;malloc 4095200 100\nmain;do_something_else;malloc 2831152 20";
        assert_eq!(
            text(folded, &TextOptions { coverage: false, ..TextOptions::default() }),
            "Total: 6.6 MB\n\
             \x20    3.9  59.1%  59.1%      3.9  59.1% do_something\n\
             \x20    2.7  40.9% 100.0%      2.7  40.9% do_something_else\n\
             \x20    0.0   0.0% 100.0%      6.6 100.0% main\n"
        );
        let bytes = TextOptions { amounts: Amounts::Bytes, total: false, ..TextOptions::default() };
        assert_eq!(
            text(folded, &bytes).lines().next(),
            Some(" 4095200  59.1%  59.1%  4095200  59.1% do_something")
        );
    }

    #[test]
    fn an_empty_profile_says_so() {
        assert_eq!(text("", &TextOptions { coverage: false, ..TextOptions::default() }), "Total: 0.0 MB\n");
    }

    #[test]
    fn a_narrow_terminal_shortens_names_in_the_middle() {
        let options = TextOptions { width: Some(60), coverage: false, ..TextOptions::default() };
        let text = text("a_function_with_quite_a_long_name_indeed 1048576 1", &options);
        let line = text.lines().nth(1).unwrap_or_default();
        assert_eq!(line, "     1.0 100.0% 100.0%      1.0 100.0% a_function…ame_indeed");
        assert!(line.chars().count() <= 60);
    }

    #[test]
    fn your_code_is_beside_the_names() {
        let program =
            profile("main:3;load:8;std::vector::grow;malloc 2097152 1\nmain:3;parse:5;malloc 1048576 1");
        let (query, rule) = (Query::default(), OwnRule::default());
        let tree = CallTree::new(&program, &query);
        let code = CodeFrames::new(&program, &rule);
        let view = rank(&tree, &query).with_own(&OwnPlaces::new(&program, &code, &tree, &query));
        let options = TextOptions { header: true, own: true, coverage: false, ..TextOptions::default() };
        let text = top(&view, &options);
        let lines: Vec<&str> = text.lines().skip(1).map(|line| &line[39..]).collect();
        assert_eq!(
            lines[..3],
            ["name               your code", "std::vector::grow  load app.c:8", "parse              app.c:5"]
        );
        let narrow = top(&view, &TextOptions { width: Some(60), ..options });
        assert!(narrow.lines().all(|line| line.chars().count() <= 60), "{narrow}");
        assert!(narrow.contains("name              your code\n"), "{narrow}");
        assert!(narrow.contains("66.7% std::ve\u{2026}or::grow  load\u{2026}p.c:8\n"), "{narrow}");
        assert!(!narrow.contains("sum%"), "{narrow}");
        let colored = top(&view, &TextOptions { color: true, ..options });
        assert!(
            colored.contains("\x1b[2mstd::vector::grow\x1b[0m  \x1b[36mload app.c:8\x1b[0m"),
            "{colored}"
        );
    }

    #[test]
    fn header_and_errors_line_up() {
        let options = TextOptions { header: true, errors: true, coverage: false, ..TextOptions::default() };
        let text = text("main 1048576 1", &options);
        let lines: Vec<&str> = text.lines().skip(1).collect();
        assert_eq!(lines[0], "    flat        ±  flat%   sum%      cum        ±   cum% name");
        assert_eq!(lines[1], "     1.0      0.0 100.0% 100.0%      1.0      0.0 100.0% main");
    }
}
