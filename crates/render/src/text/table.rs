//! Columns that line up, and the tables that are nothing more.

use heapwise_profile::printable::printable;
use heapwise_profile::view::modules::Modules;
use heapwise_profile::view::threads::Threads;

use super::TextOptions;
use crate::amount::percent;

/// Rows of cells, all but the last column right-aligned.
#[derive(Debug, Default)]
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn push(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().map(|cell| printable(&cell).into_owned()).collect());
    }

    fn widths(&self) -> Vec<usize> {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        (0..columns).map(width).collect()
    }

    /// Columns of a line that is not yet at its end.
    pub(crate) fn width(&self) -> usize {
        self.widths().iter().map(|width| width + 2).sum()
    }

    /// Writes the rows, all of them right-aligned, each with the end of its line.
    pub(crate) fn write_with(&self, out: &mut String, ends: impl Iterator<Item = String>) {
        let widths = self.widths();
        for (row, end) in self.rows.iter().zip(ends) {
            for (cell, width) in row.iter().zip(&widths) {
                *out += &format!("{cell:>width$}  ");
            }
            *out += end.trim_end();
            out.push('\n');
        }
    }

    pub(crate) fn write(&self, out: &mut String, options: &TextOptions) {
        let widths = self.widths();
        let columns = widths.len();
        let start = widths.iter().rev().skip(1).map(|width| width + 2).sum();
        for row in &self.rows {
            for (column, cell) in row.iter().enumerate() {
                let is_last = column + 1 == columns;
                *out += &if is_last {
                    options.fit(cell, start).into_owned()
                } else {
                    format!("{cell:>0$}  ", widths[column])
                };
            }
            out.truncate(out.trim_end_matches(' ').len());
            out.push('\n');
        }
    }
}

/// Binaries with flat, cum and build-id.
#[must_use]
pub fn modules(view: &Modules, options: &TextOptions) -> String {
    let totals = &view.totals;
    let mut out = options.header_lines(totals);
    let mut table = Table::default();
    table.push(["flat", "flat%", "cum", "cum%", "build-id", "module"].map(str::to_owned));
    for module in &view.rows {
        let build_id = module.build_id.to_string();
        let path = if module.path.is_empty() { &module.row.frame.label } else { &module.path };
        table.push([
            options.amount(module.row.flat.value, totals),
            percent(module.row.flat.value, totals.whole()),
            options.amount(module.row.cum.value, totals),
            percent(module.row.cum.value, totals.whole()),
            if build_id.is_empty() { "-".to_owned() } else { build_id },
            path.clone(),
        ]);
    }
    table.write(&mut out, options);
    out
}

/// Threads with what they allocated.
#[must_use]
pub fn threads(view: &Threads, options: &TextOptions) -> String {
    let totals = &view.totals;
    let mut out = options.header_lines(totals);
    let mut table = Table::default();
    table.push(["amount", "%", "objects", "thread", "name"].map(str::to_owned));
    for row in &view.rows {
        table.push([
            options.amount(row.weight.value, totals),
            percent(row.weight.value, totals.whole()),
            format!("{:.0}", row.weight.objects),
            row.tid.map_or_else(|| "-".to_owned(), |tid| tid.to_string()),
            row.name.clone(),
        ]);
    }
    table.write(&mut out, options);
    out
}

#[cfg(test)]
mod tests {
    use heapwise_profile::{Query, view};

    use super::*;
    use heapwise_profile::fixture::profile;

    #[test]
    fn threads_line_up() {
        let program = profile("main;f 1048576 4 7\nmain;g 3145728 100 12");
        let text = threads(
            &view::threads::threads(&program, &Query::default()),
            &TextOptions { coverage: false, ..TextOptions::default() },
        );
        assert_eq!(
            text,
            "Total: 4.0 MB\n\
             amount      %  objects  thread  name\n\
             \x20  3.0  75.0%      100      12  worker-12\n\
             \x20  1.0  25.0%        4       7  worker-7\n"
        );
    }

    #[test]
    fn modules_show_where_the_bytes_are() {
        let program = profile("main;libz.so!inflate 2097152 1");
        let text = modules(
            &view::modules::modules(&program, None, &Query::default()),
            &TextOptions { coverage: false, ..TextOptions::default() },
        );
        assert!(text.contains("\n 2.0  100.0%  2.0  100.0%         -  libz.so\n"), "{text}");
    }
}
