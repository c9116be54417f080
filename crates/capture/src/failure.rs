//! Errors: one line that names what was wrong, where, and what to do.

use std::fmt;
use std::path::Path;

/// A line for a user: a text with `{}` for each value. The text is the key of its translations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    text: &'static str,
    values: Vec<String>,
}

/// An error in the input or its surroundings, worded for the user.
#[derive(Debug)]
pub struct Failure {
    /// The file that it is about.
    path: Option<String>,
    message: Message,
}

/// What functions of this crate return.
pub type Outcome<T = ()> = Result<T, Failure>;

impl Message {
    /// A text with its values.
    #[must_use]
    pub fn new(text: &'static str, values: Vec<String>) -> Self {
        Self { text, values }
    }

    /// A line as it is, without translations.
    pub fn line(line: impl Into<String>) -> Self {
        Self { text: "{}", values: vec![line.into()] }
    }

    /// The line with the text that `translate` has for the English one.
    pub fn translated(&self, translate: impl Fn(&'static str) -> &'static str) -> String {
        let mut values = self.values.iter();
        let mut parts = translate(self.text).split("{}");
        let mut out = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            out += values.next().map_or("", |value| value);
            out += part;
        }
        out
    }
}

impl Failure {
    /// A failure with this line as its message.
    pub fn new(line: impl Into<String>) -> Self {
        Message::line(line).into()
    }

    /// A failure about a file.
    pub fn file(path: &Path, what: impl fmt::Display) -> Self {
        Self::of_file(path, Message::line(what.to_string()))
    }

    /// A failure about a file, with a message that has translations.
    #[must_use]
    pub fn of_file(path: &Path, message: Message) -> Self {
        Self { path: Some(path.display().to_string()), message }
    }

    /// The line with the text that `translate` has for the English one.
    pub fn translated(&self, translate: impl Fn(&'static str) -> &'static str) -> String {
        let line = self.message.translated(translate);
        match &self.path {
            Some(path) => format!("{path}: {line}"),
            None => line,
        }
    }
}

impl From<Message> for Failure {
    fn from(message: Message) -> Self {
        Self { path: None, message }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.translated(|text| text))
    }
}

impl std::error::Error for Failure {}

/// Builds a [`Message`] from a text with `{}` for each value.
#[macro_export]
macro_rules! message {
    ($text:literal $(, $value:expr)* $(,)?) => {
        $crate::failure::Message::new($text, vec![$($value.to_string()),*])
    };
}

/// Builds a [`Failure`] from a text with `{}` for each value.
#[macro_export]
macro_rules! input_error {
    ($($text:tt)*) => { $crate::failure::Failure::from($crate::message!($($text)*)) };
}

/// Builds a [`Failure`] about a file from a text with `{}` for each value.
#[macro_export]
macro_rules! file_error {
    ($path:expr, $($text:tt)*) => {
        $crate::failure::Failure::of_file($path, $crate::message!($($text)*))
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_inserted_in_order_and_once() {
        let failure = file_error!(Path::new("a"), "{} of {} missing", "{}", 2);
        assert_eq!(failure.to_string(), "a: {} of 2 missing");
        assert_eq!(failure.translated(|_| "lacks {}, {}"), "a: lacks {}, 2");
        assert_eq!(Failure::new("{} as it is").to_string(), "{} as it is");
    }
}
