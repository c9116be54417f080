//! Messages for people in both languages: one table. `{name}` is replaced by a value.

mod errors;
mod help;
mod table;

pub use table::Text;

use crate::language::Language;

/// Between the English texts for one and for several things.
const ONE_OR_MORE: char = '|';

impl Text {
    /// The message in a language.
    #[must_use]
    pub fn text(self, language: Language) -> &'static str {
        let (english, chinese) = self.pair();
        match language {
            Language::English => english,
            Language::Chinese => chinese,
        }
    }

    /// The message in a language, with values by name.
    #[must_use]
    pub fn with(self, language: Language, values: &[(&str, &str)]) -> String {
        let counts = values.iter().find(|(name, _)| ["n", "blocks"].contains(name));
        fill(self.one_or_more(language, counts.is_some_and(|(_, count)| *count == "1")), values)
    }

    /// A number of things: `1 event`, `2 events`.
    #[must_use]
    pub fn counted(self, language: Language, number: u64) -> String {
        fill(self.one_or_more(language, number == 1), &[("n", &number.to_string())])
    }

    /// The text for one thing or for several.
    fn one_or_more(self, language: Language, is_one: bool) -> &'static str {
        let text = self.text(language);
        match text.split_once(ONE_OR_MORE) {
            Some((one, _)) if is_one => one,
            Some((_, more)) => more,
            None => text,
        }
    }
}

/// A help text of a command or an option in a language; `None` when the table does not have it.
#[must_use]
pub fn help(english: &str, language: Language) -> Option<&'static str> {
    let (english, chinese) = help::HELP.iter().find(|(known, _)| *known == english)?;
    Some(match language {
        Language::English => english,
        Language::Chinese => chinese,
    })
}

/// The text of an error in a language; the English one when the table does not have it.
#[must_use]
pub fn error(english: &'static str, language: Language) -> &'static str {
    let known = || errors().find(|(known, _)| *known == english);
    match language {
        Language::English => english,
        Language::Chinese => known().map_or(english, |(_, chinese)| chinese),
    }
}

/// Every error of the table, in English and Chinese.
pub fn errors() -> impl Iterator<Item = (&'static str, &'static str)> {
    errors::ERRORS.iter().copied()
}

/// Every help text of the table, in English.
pub fn help_texts() -> impl Iterator<Item = &'static str> {
    help::HELP.iter().map(|(english, _)| *english)
}

/// A text with values by name.
fn fill(text: &str, values: &[(&str, &str)]) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('{') {
        let (name, tail) = after.split_once('}').unwrap_or((after, ""));
        out += before;
        out += values.iter().find(|(known, _)| *known == name).map_or("", |(_, value)| *value);
        rest = tail;
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Vec<&str> {
        let mut names: Vec<&str> =
            text.split('{').skip(1).filter_map(|part| Some(part.split_once('}')?.0)).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    #[test]
    fn every_message_has_both_languages_and_the_same_values() {
        for text in Text::ALL {
            let (english, chinese) = text.pair();
            assert!(!english.is_empty() && english.is_ascii(), "{text:?}: {english}");
            assert!(chinese.chars().any(|c| ('\u{4e00}'..='\u{9fff}').contains(&c)), "{text:?}: {chinese}");
            assert_eq!(names(english), names(chinese), "{text:?}");
        }
    }

    #[test]
    fn values_are_inserted_once() {
        let text = Text::AfterMs.with(Language::English, &[("bytes", "{ms}"), ("ms", "2")]);
        assert_eq!(text, "{ms} after 2 ms");
    }
}
