//! Text and size of a box.

use heapwise_profile::view::{Row, Totals};

use super::GraphOptions;
use crate::amount::percent;
use crate::font;
use crate::layout::BoxSize;

/// A box of the picture.
pub(super) struct NodeBox {
    /// The name, broken into lines, then the amounts.
    pub(super) lines: Vec<Line>,
    pub(super) size: BoxSize,
}

pub(super) struct Line {
    pub(super) text: String,
    pub(super) font_size: f64,
}

/// Characters after which a name continues on the next line, at `::`.
const LINE_LENGTH: usize = 22;
/// Longer lines are cut; the tooltip has all.
const LINE_LIMIT: usize = 44;
const LEAST_FONT: f64 = 9.0;
const FONT_GROWTH: f64 = 21.0;
const LINE_SPACING: f64 = 1.2;

pub(super) fn node_box(row: &Row, totals: &Totals, options: &GraphOptions) -> NodeBox {
    let whole = totals.whole().abs();
    let (flat, cum) = (row.flat.value, row.cum.value);
    let share = if whole == 0.0 { 0.0 } else { (flat / whole).abs().min(1.0) };
    let name_size = LEAST_FONT + FONT_GROWTH * share.sqrt();
    let amount_size = LEAST_FONT + (name_size - LEAST_FONT) * 0.55;
    let mut lines: Vec<Line> =
        break_name(&row.frame.label).into_iter().map(|text| Line { text, font_size: name_size }).collect();
    let mut amount = |text: String| lines.push(Line { text, font_size: amount_size });
    amount(format!("{} ({})", options.label(flat, totals.unit), percent(flat, whole)));
    if flat != cum {
        amount(format!("of {} ({})", options.label(cum, totals.unit), percent(cum, whole)));
    }
    let width = |line: &Line| font::width(&line.text, line.font_size);
    let padding = 6.0 + name_size * 0.5;
    let size = BoxSize {
        width: (lines.iter().map(width).fold(0.0, f64::max) + padding * 1.6).ceil(),
        height: (lines.iter().map(|line| line.font_size * LINE_SPACING).sum::<f64>() + padding).ceil(),
    };
    NodeBox { lines, size }
}

impl NodeBox {
    /// Each line with the distance of its baseline from the top of the box.
    pub(super) fn baselines(&self) -> impl Iterator<Item = (&Line, f64)> {
        let text: f64 = self.lines.iter().map(|line| line.font_size * LINE_SPACING).sum();
        let mut top = (self.size.height - text) / 2.0;
        self.lines.iter().map(move |line| {
            let height = line.font_size * LINE_SPACING;
            let baseline = top + height / 2.0 + line.font_size * 0.36;
            top += height;
            (line, baseline)
        })
    }
}

/// Lines of a name, broken at blanks and after `::`.
fn break_name(name: &str) -> Vec<String> {
    let mut lines = vec![String::new()];
    for part in name.split_inclusive(' ').flat_map(|word| word.split_inclusive("::")) {
        let last = lines.len() - 1;
        let fits = lines[last].chars().count() + part.trim_end().chars().count() <= LINE_LENGTH;
        if fits || lines[last].is_empty() {
            lines[last] += part;
        } else {
            lines.push(part.to_owned());
        }
    }
    lines.iter().map(|line| shorten(line.trim_end())).collect()
}

fn shorten(line: &str) -> String {
    let length = line.chars().count();
    if length <= LINE_LIMIT {
        return line.to_owned();
    }
    let half = LINE_LIMIT / 2;
    let head = line.chars().take(half);
    let tail = line.chars().skip(length - half);
    head.chain(['…']).chain(tail).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_break_at_scopes() {
        assert_eq!(break_name("main"), ["main"]);
        assert_eq!(
            break_name("llvm::SmallVectorTemplateBase::grow"),
            ["llvm::", "SmallVectorTemplateBase::", "grow"]
        );
        assert_eq!(break_name("a::b::c operator new"), ["a::b::c operator new"]);
        assert_eq!(break_name(&"x".repeat(80))[0].chars().count(), LINE_LIMIT + 1);
    }
}
