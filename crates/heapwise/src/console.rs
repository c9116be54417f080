//! Lines on standard output and standard error. They hold names that the profiled program chose, so
//! they are escaped here, the last step before the terminal. A closed pipe (`| head`) ends the
//! output, not the command: its exit status stays its own.

use std::fmt;
use std::io::{self, IsTerminal, Write};
use std::sync::OnceLock;

use heapwise_profile::printable::printable;
use heapwise_render::language::padded;
use heapwise_render::{Language, Text};
use serde_json::Value;

/// Prints a line to standard output.
macro_rules! say {
    ($($text:tt)*) => { $crate::console::line(&mut ::std::io::stdout(), format_args!($($text)*)) };
}

/// Prints a line to standard error.
macro_rules! say_err {
    ($($text:tt)*) => { $crate::console::line(&mut ::std::io::stderr(), format_args!($($text)*)) };
}

/// Prints a line about the work of heapwise to standard error.
macro_rules! note {
    ($($text:tt)*) => {
        $crate::console::line(&mut ::std::io::stderr(), format_args!("heapwise: {}", format_args!($($text)*)))
    };
}

/// The language of messages: that of the first locale set, as `setlocale` chooses it.
pub(crate) fn language() -> Language {
    static LANGUAGE: OnceLock<Language> = OnceLock::new();
    *LANGUAGE.get_or_init(|| {
        let set = ["LC_ALL", "LC_MESSAGES", "LANG"].into_iter().filter_map(|name| std::env::var(name).ok());
        Language::of_locale(&{ set }.find(|locale| !locale.is_empty()).unwrap_or_default())
    })
}

/// Whether standard output shows colors: a terminal, unless `NO_COLOR` is set.
pub(crate) fn has_color() -> bool {
    let is_refused = std::env::var_os("NO_COLOR").is_some_and(|set| !set.is_empty())
        || std::env::var_os("TERM").is_some_and(|terminal| terminal == "dumb");
    io::stdout().is_terminal() && !is_refused
}

/// A message in the language of this process.
pub(crate) fn message(text: Text, values: &[(&str, &str)]) -> String {
    text.with(language(), values)
}

/// Prints `  name         text`, a closing line of a command, to standard error.
pub(crate) fn closing_line(name: Text, text: &str) {
    say_err!("  {} {text}", padded(name.text(language()), 12));
}

/// Writes one line; without a reader there is nobody to report an error to.
pub(crate) fn line(out: &mut dyn Write, text: fmt::Arguments<'_>) {
    let line = format!("{}\n", printable(&text.to_string()));
    let _ = out.write_all(line.as_bytes()).and_then(|()| out.flush());
}

/// Writes a fixed text of several lines.
pub(crate) fn text(out: &mut dyn Write, text: &str) {
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// JSON as one line: characters that a terminal obeys are escaped as JSON does.
pub(crate) fn json(value: &Value) -> String {
    let text = value.to_string();
    let mut out = String::with_capacity(text.len() + 1);
    for character in text.chars() {
        match printable(character.encode_utf8(&mut [0; 4])).len() == character.len_utf8() {
            true => out.push(character),
            false => out += &format!("\\u{:04x}", u32::from(character)),
        }
    }
    out.push('\n');
    out
}

/// Prints JSON to standard output.
pub(crate) fn print_json(value: &Value) {
    text(&mut io::stdout(), &json(value));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_one_line() {
        let mut out = Vec::new();
        line(&mut out, format_args!("a {} b", "\x1b[31m\nforged"));
        assert_eq!(String::from_utf8(out).unwrap(), "a \\u{1b}[31m\\nforged b\n");
    }

    #[test]
    fn json_stays_json() {
        let value = Value::from("\x1b\u{9b}\u{202e}\n\u{7f}ü");
        let text = json(&value);
        assert!(!text.trim_end().chars().any(|c| c.is_control() || c == '\u{202e}'), "{text}");
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), value);
    }
}
