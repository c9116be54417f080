//! The memory report of the gs driver: one source line a row, largest first.

use heapwise_profile::printable::printable;
use heapwise_profile::view::sites::Sites;
use serde_json::{Value, json};

/// Blanks between the columns, as in the driver's document.
const AFTER_FILE: usize = 5;
const AFTER_LINE: usize = 4;

/// `file     line:N    size:BYTES` in columns, one a line of source. Stacks without any source line
/// show their innermost frame, without a line.
#[must_use]
pub fn lines(view: &Sites) -> Vec<String> {
    let place = |site: &heapwise_profile::view::Row| match site.frame.line {
        0 => (printable(&site.frame.label).into_owned(), String::new()),
        line => (printable(&site.frame.file).into_owned(), format!("line:{line}")),
    };
    let places: Vec<(String, String)> = view.rows.iter().map(place).collect();
    let widest = |length: fn(&(String, String)) -> usize| places.iter().map(length).max().unwrap_or(0);
    let file_width = widest(|(file, _)| file.chars().count()) + AFTER_FILE;
    let line_width = widest(|(_, line)| line.len()) + AFTER_LINE;
    let row = |((file, line), site): (&(String, String), &heapwise_profile::view::Row)| {
        format!("{file:<file_width$}{line:<line_width$}size:{}", site.flat.value.round() as i64)
    };
    places.iter().zip(&view.rows).map(row).collect()
}

/// The report as text.
#[must_use]
pub fn report(view: &Sites) -> String {
    lines(view).into_iter().map(|line| line + "\n").collect()
}

/// The report as the driver's script API returns it.
#[must_use]
pub fn report_json(view: &Sites) -> Value {
    json!({
        "total_size": view.totals.total.value.round() as i64,
        "mem_report": lines(view),
    })
}

#[cfg(test)]
mod tests {
    use heapwise_profile::query::Granularity;
    use heapwise_profile::{CallTree, Query, view};

    use super::*;
    use heapwise_profile::fixture::profile;

    #[test]
    fn the_innermost_frame_with_a_line_counts() {
        let program = profile("main:3;f:10;lib.so!helper;malloc 40 1\nmain:3;f:10 2 1\nlib.so!?;malloc 5 1");
        let query = Query { granularity: Granularity::Lines, ..Query::default() };
        let tree = CallTree::new(&program, &query);
        let sites = view::sites::sites(&program, &tree, &query, true);
        assert_eq!(
            report(&sites),
            "app.c            line:10    size:42\nlib.so+0x234                size:5\n"
        );
    }

    #[test]
    fn sites_by_size_with_the_empty_ones_on_request() {
        let program = profile("main:3;f:10;malloc 40 1\nmain:3;f:12 60 2\nmain:4;g:7;malloc 0 0");
        let query = Query { granularity: Granularity::Lines, ..Query::default() };
        let tree = CallTree::new(&program, &query);
        let sites = |zero| view::sites::sites(&program, &tree, &query, zero);
        assert_eq!(report(&sites(false)), "app.c     line:12    size:60\napp.c     line:10    size:40\n");
        assert_eq!(
            report_json(&sites(true)).to_string(),
            r#"{"total_size":100,"mem_report":["app.c     line:12    size:60","app.c     line:10    size:40","app.c     line:7     size:0"]}"#
        );
    }
}
