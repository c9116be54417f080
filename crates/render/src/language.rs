//! The language of messages for people. Machine formats have none.

/// A language of messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Language {
    /// English.
    #[default]
    English,
    /// Simplified Chinese.
    Chinese,
}

impl Language {
    /// The tag in HTML.
    #[must_use]
    pub fn tag(self) -> &'static str {
        match self {
            Language::English => "en",
            Language::Chinese => "zh-CN",
        }
    }

    /// The language of a locale: `zh_CN.UTF-8`, `C`, `en_US`.
    #[must_use]
    pub fn of_locale(locale: &str) -> Self {
        match locale.split(['_', '.', '-', '@']).next() {
            Some("zh") => Language::Chinese,
            _ => Language::English,
        }
    }
}

/// A text with spaces after it up to so many columns of a terminal.
#[must_use]
pub fn padded(text: &str, columns: usize) -> String {
    let used: usize = text.chars().map(columns_of).sum();
    format!("{text}{}", " ".repeat(columns.saturating_sub(used)))
}

/// Columns of a character: Chinese characters and their punctuation take two.
fn columns_of(character: char) -> usize {
    match u32::from(character) {
        0x2e80..=0xa4cf | 0xf900..=0xfaff | 0xff00..=0xff60 => 2,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locales() {
        for locale in ["zh_CN.UTF-8", "zh", "zh_TW"] {
            assert_eq!(Language::of_locale(locale), Language::Chinese, "{locale}");
        }
        for locale in ["", "C", "en_US.UTF-8", "zhx"] {
            assert_eq!(Language::of_locale(locale), Language::English, "{locale}");
        }
    }

    #[test]
    fn chinese_characters_take_two_columns() {
        assert_eq!(padded("peak", 6), "peak  ");
        assert_eq!(padded("\u{5cf0}\u{503c}", 6), "\u{5cf0}\u{503c}  ");
    }
}
