//! Writing SVG: escaping and short numbers.

use std::fmt;

/// Text as XML content or attribute value. Characters XML forbids become `\u{fffd}`.
pub(crate) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out += "&amp;",
            '<' => out += "&lt;",
            '>' => out += "&gt;",
            '"' => out += "&quot;",
            '\u{fffe}' | '\u{ffff}' => out.push('\u{fffd}'),
            c if c.is_control() && c != '\n' && c != '\t' => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

/// A coordinate: at most one decimal, no trailing zero.
#[derive(Clone, Copy)]
pub(crate) struct Short(pub(crate) f64);

impl fmt::Display for Short {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tenths = (self.0 * 10.0).round();
        if tenths % 10.0 == 0.0 {
            write!(out, "{}", (tenths / 10.0) as i64)
        } else {
            write!(out, "{:.1}", tenths / 10.0)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_names_stay_text() {
        assert_eq!(escape("a<b>&\"\u{1}\u{ffff}"), "a&lt;b&gt;&amp;&quot;\u{fffd}\u{fffd}");
    }

    #[test]
    fn numbers_are_short() {
        assert_eq!(format!("{} {} {}", Short(1.0), Short(-0.04), Short(2.26)), "1 0 2.3");
    }
}
