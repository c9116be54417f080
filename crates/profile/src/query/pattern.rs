//! Regular expressions in Perl's syntax, as jeprof's users write them.

use std::fmt;

use fancy_regex::{Regex as Backtracking, RegexBuilder};

/// Backtracking steps after which one text counts as not matching. Only patterns with lookaround,
/// backreferences or atomic groups backtrack; every other pattern takes linear time.
const MAX_STEPS: usize = 1_000_000;

/// A pattern of names.
#[derive(Debug, Clone)]
pub struct Regex(Backtracking);

impl Regex {
    /// Compiles a pattern; the error is one line.
    pub fn new(text: &str) -> Result<Self, String> {
        let compiled = RegexBuilder::new(text).backtrack_limit(MAX_STEPS).build();
        compiled.map(Self).map_err(|error| one_line(text, &error))
    }

    /// Whether some part of `text` matches.
    #[must_use]
    pub fn is_match(&self, text: &str) -> bool {
        self.0.is_match(text).unwrap_or(false)
    }

    /// The pattern itself.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }
}

/// The message of the linear-time engine, which names the mistake, where both refuse a pattern.
fn one_line(text: &str, error: &fancy_regex::Error) -> String {
    let message = match regex::Regex::new(text) {
        Err(linear) => linear.to_string(),
        Ok(_) => error.to_string(),
    };
    // `regex` returns a message of several lines with the error in the last one.
    message.lines().last().unwrap_or(&message).trim().to_owned()
}

/// Whether a pattern takes linear time for every text.
#[must_use]
pub fn is_linear(text: &str) -> bool {
    regex::Regex::new(text).is_ok()
}

impl fmt::Display for Regex {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.as_str())
    }
}

impl std::str::FromStr for Regex {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::new(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn perl_patterns_with_lookaround_and_backreferences() {
        let matches = |pattern: &str, text: &str| Regex::new(pattern).unwrap().is_match(text);
        assert!(matches(r"^(?!std::).*alloc", "pool_alloc") && !matches(r"^(?!std::).*alloc", "std::alloc"));
        assert!(matches(r"(?<=app\.)cpp", "app.cpp") && !matches(r"(?<=app\.)cpp", "lib.cpp"));
        assert!(matches(r"^(\w)\1", "aab") && !matches(r"^(\w)\1", "ab"));
        assert!(is_linear("a|b") && !is_linear("(?!a)b"));
    }

    #[test]
    fn mistakes_are_one_line_and_long_searches_end() {
        assert_eq!(Regex::new("(").unwrap_err(), "error: unclosed group");
        assert!(!Regex::new(r"(?:(x+x+)+y)\1").unwrap().is_match(&"x".repeat(60)));
    }
}
