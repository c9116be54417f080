//! Annotated source, in jeprof's layout.

use heapwise_profile::Weight;
use heapwise_profile::printable::printable;
use heapwise_profile::view::list::List;

use super::TextOptions;

/// Lines shown around those that count.
const CONTEXT: u32 = 5;

/// Every function with its source beside its numbers. `source` returns the text of a file; without
/// it, the lines that count are listed without text.
#[must_use]
pub fn list(view: &List, source: &dyn Fn(&str) -> Option<String>, options: &TextOptions) -> String {
    let totals = &view.totals;
    let unit = match options.amounts.unit(totals.unit) {
        "" => String::new(),
        unit => format!(" {unit}"),
    };
    let mut out = options.header_lines(totals);
    for function in &view.functions {
        let file = if function.file.is_empty() { "??" } else { &function.file };
        out += &format!(
            "ROUTINE ====================== {} in {}\n",
            printable(&function.function),
            printable(file)
        );
        out += &format!(
            "{:>6} {:>6} Total{unit} (flat / cumulative)\n",
            options.amount(function.flat.value, totals),
            options.amount(function.cum.value, totals),
        );
        let text = source(&function.file);
        let mut push_line = |number: u32, flat: Weight, cum: Weight, text: &str| {
            let amount = |weight: Weight| match weight.value {
                0.0 => ".".to_owned(),
                value => options.amount(value, totals),
            };
            out += &format!("{:>6} {:>6} {number:>4}: {}\n", amount(flat), amount(cum), printable(text));
        };
        match &text {
            Some(text) => {
                for line in function.annotate(text, CONTEXT) {
                    push_line(line.number, line.flat, line.cum, line.text);
                }
            }
            None => {
                for (number, (flat, cum)) in &function.lines {
                    push_line(*number, *flat, *cum, "");
                }
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use heapwise_profile::{Query, query::Regex, view};

    use super::*;
    use heapwise_profile::fixture::profile;

    #[test]
    fn numbers_beside_the_source() {
        let program = profile("main:1;f:7;malloc 1048576 1\nmain:1;f:8;g:1 2097152 1");
        let view = view::list::list(&program, None, &Regex::new("^f$").unwrap(), &Query::default());
        let source: String = (1..=30).map(|n| format!("text {n}\n")).collect();
        let text = list(
            &view,
            &|_| Some(source.clone()),
            &TextOptions { coverage: false, ..TextOptions::default() },
        );
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[1], "ROUTINE ====================== f in app.c");
        assert_eq!(lines[2], "   1.0    3.0 Total MB (flat / cumulative)");
        assert_eq!(lines[3], "     .      .    2: text 2");
        assert_eq!(lines[8], "   1.0    1.0    7: text 7");
        assert_eq!(lines[9], "     .    2.0    8: text 8");
        assert_eq!(lines.last(), Some(&"     .      .   13: text 13"));
    }
}
