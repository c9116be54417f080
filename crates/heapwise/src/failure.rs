//! Errors of commands, and their exit status.

use std::fmt;
use std::path::Path;

use heapwise_capture::failure::Failure as CaptureFailure;
use heapwise_render::{Language, messages};

/// One line that names what was wrong, where, and what to do.
#[derive(Debug)]
pub(crate) enum Failure {
    /// A usage or input error: exit status 2.
    Input(CaptureFailure),
    /// A gate (`heapwise check`) that did not hold: exit status 1.
    Gate(String),
    /// A gate that cannot be decided, because the profile is not complete: exit status 3.
    Undecided(String),
}

/// What commands return.
pub(crate) type Outcome<T = ()> = Result<T, Failure>;

impl Failure {
    /// An input error with this line as its message.
    pub(crate) fn input(line: impl Into<String>) -> Self {
        Failure::Input(CaptureFailure::new(line))
    }

    /// An input error about a file.
    pub(crate) fn file(path: &Path, what: impl fmt::Display) -> Self {
        Failure::Input(CaptureFailure::file(path, what))
    }

    /// The exit status.
    pub(crate) fn status(&self) -> u8 {
        match self {
            Failure::Input(_) => 2,
            Failure::Gate(_) => 1,
            Failure::Undecided(_) => 3,
        }
    }

    /// The line in a language.
    pub(crate) fn line(&self, language: Language) -> String {
        match self {
            Failure::Input(failure) => failure.translated(|text| messages::error(text, language)),
            Failure::Gate(line) | Failure::Undecided(line) => line.clone(),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.line(Language::English))
    }
}

impl From<CaptureFailure> for Failure {
    fn from(failure: CaptureFailure) -> Self {
        Failure::Input(failure)
    }
}

/// Builds an input error from a text with `{}` for each value.
#[macro_export]
macro_rules! input_error {
    ($($text:tt)*) => { $crate::failure::Failure::Input(::heapwise_capture::input_error!($($text)*)) };
}

/// Builds an input error about a file from a text with `{}` for each value.
#[macro_export]
macro_rules! file_error {
    ($path:expr, $($text:tt)*) => {
        $crate::failure::Failure::Input(::heapwise_capture::file_error!($path, $($text)*))
    };
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::PathBuf;

    use super::*;

    fn sources(directory: &Path, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(directory).expect("a directory of sources").flatten() {
            let path = entry.path();
            match path.is_dir() {
                // Other tools' errors have their own words.
                true if path.ends_with("compat") => {}
                true => sources(&path, found),
                false => found.push(path),
            }
        }
    }

    /// The string literal that follows, as the compiler reads it.
    fn literal(code: &str) -> Option<String> {
        let (_, text) = code.split_once('"')?;
        let mut out = String::new();
        let mut rest = text.chars();
        while let Some(character) = rest.next() {
            match character {
                '"' => return Some(out),
                '\\' => match rest.next()? {
                    '\n' => rest = rest.as_str().trim_start().chars(),
                    escaped => out.push(escaped),
                },
                character => out.push(character),
            }
        }
        None
    }

    /// Every text of an error is in the table, and the table has no other.
    #[test]
    fn every_error_has_a_chinese_text() {
        let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let mut files = Vec::new();
        for name in ["capture", "heapwise", "serve"] {
            sources(&crates.join(name).join("src"), &mut files);
        }
        let mut used = BTreeSet::new();
        for file in files.iter().filter(|file| !file.ends_with("failure.rs")) {
            let code = fs::read_to_string(file).expect("a source file");
            for macro_name in ["input_error!(", "file_error!("] {
                used.extend(code.split(macro_name).skip(1).filter_map(literal));
            }
        }
        assert!(used.len() > 40, "{used:#?}");
        let known: BTreeSet<String> = messages::errors().map(|(english, _)| english.to_owned()).collect();
        assert_eq!(used.difference(&known).collect::<Vec<_>>(), Vec::<&String>::new(), "no Chinese text");
        assert_eq!(known.difference(&used).collect::<Vec<_>>(), Vec::<&String>::new(), "never used");
        for (english, chinese) in messages::errors() {
            assert_eq!(english.matches("{}").count(), chinese.matches("{}").count(), "{english}");
            assert!(!chinese.is_ascii(), "{english}: {chinese}");
        }
    }
}
