//! A user's rule: patterns of code that is, or is not, the program's own.

use crate::query::{QueryError, Regex, pattern};

/// Patterns that decide before heapwise's own rule does. They match function names, source files
/// and paths of binaries.
#[derive(Debug, Clone, Default)]
pub struct OwnRule {
    own: Vec<Regex>,
    library: Vec<Regex>,
}

impl OwnRule {
    /// Code that matches a pattern of `own` is the program's own; other code that matches one of
    /// `library` is not.
    pub fn new<'a>(
        own: impl IntoIterator<Item = &'a String>,
        library: impl IntoIterator<Item = &'a String>,
    ) -> Result<Self, QueryError> {
        let own = own.into_iter().map(|text| pattern("own", text)).collect::<Result<_, _>>()?;
        let library = library.into_iter().map(|text| pattern("library", text)).collect::<Result<_, _>>()?;
        Ok(Self { own, library })
    }

    /// Adds the lines `own PATTERN` and `library PATTERN` of a configuration file; `#` begins a
    /// comment.
    ///
    /// # Errors
    /// The first line that is neither, in words.
    pub fn add_lines(&mut self, text: &str) -> Result<(), String> {
        for (at, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let failed = |why: String| format!("line {}: {why}", at + 1);
            let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
            let list = match word {
                "own" => &mut self.own,
                "library" => &mut self.library,
                _ => return Err(failed(format!("`{word}` is neither `own` nor `library`"))),
            };
            match rest.trim() {
                "" => return Err(failed(format!("`{word}` needs a pattern"))),
                rest => list.push(Regex::new(rest).map_err(failed)?),
            }
        }
        Ok(())
    }

    /// Whether code known by these texts is the program's own; `None` when no pattern matches.
    pub(super) fn decide(&self, texts: &[&str]) -> Option<bool> {
        let any = |patterns: &[Regex]| {
            patterns.iter().any(|pattern| texts.iter().any(|text| !text.is_empty() && pattern.is_match(text)))
        };
        if any(&self.own) { Some(true) } else { any(&self.library).then_some(false) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_patterns_come_before_library_patterns() {
        let rule = OwnRule::new([&"^app::".to_owned()], [&"app|boost".to_owned()]).unwrap();
        assert_eq!(rule.decide(&["app::parse", ""]), Some(true));
        assert_eq!(rule.decide(&["boost::parse"]), Some(false));
        assert_eq!(rule.decide(&["parse", "/src/app.c"]), Some(false));
        assert_eq!(rule.decide(&["parse", "/src/x.c"]), None);
        assert_eq!(OwnRule::new([&"(".to_owned()], []).unwrap_err().field, "own");
    }

    #[test]
    fn lines_of_a_file() {
        let mut rule = OwnRule::default();
        rule.add_lines("# mine\n\nown ^app::\n  library\t/third_party/\n").unwrap();
        assert_eq!(rule.decide(&["app::x"]), Some(true));
        assert_eq!(rule.decide(&["x", "/src/third_party/x.c"]), Some(false));
        for (text, error) in [
            ("own x\nlibary y", "line 2: `libary` is neither `own` nor `library`"),
            ("own", "line 1: `own` needs a pattern"),
            ("own (", "line 1: error: unclosed group"),
        ] {
            assert_eq!(OwnRule::default().add_lines(text).unwrap_err(), error);
        }
    }
}
