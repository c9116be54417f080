//! The last columns of a ranking: names, and beside them the program's own code.

use heapwise_profile::printable::printable;
use heapwise_profile::view::{OwnPlace, Row};

use super::{TextOptions, shorten};

/// Columns that names are padded to at most, where the terminal's width is not known.
const MOST_PADDED: usize = 48;
const HEAD: &str = "your code";

/// Colors of a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ink {
    Head,
    /// Code of libraries.
    Library,
    /// A place in the program's own code.
    Own,
}

impl TextOptions {
    /// The text in a color, where the terminal has colors.
    pub(super) fn ink(&self, ink: Ink, text: &str) -> String {
        let code = match ink {
            Ink::Head => 1,
            Ink::Library => 2,
            Ink::Own => 36,
        };
        if self.color { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

/// How names and places are laid out.
#[derive(Debug)]
pub(super) struct NameColumns<'a> {
    options: &'a TextOptions,
    /// Column of the line where names start.
    start: usize,
    /// Width of names.
    width: usize,
}

impl<'a> NameColumns<'a> {
    /// The columns of `rows` in lines of which `start` columns are taken.
    pub(super) fn new(rows: &[Row], start: usize, options: &'a TextOptions) -> Self {
        let widest = |lengths: &mut dyn Iterator<Item = usize>| lengths.max().unwrap_or(0);
        let names = widest(&mut rows.iter().map(|row| row.frame.label.chars().count()));
        let places = widest(&mut rows.iter().map(|row| place(row.own.as_ref()).chars().count()));
        let width = match options.width {
            None => names.min(MOST_PADDED),
            Some(width) => {
                let room = width.saturating_sub(start + 2);
                let least = places.max(HEAD.len()).min(room * 2 / 5);
                names.min(room.saturating_sub(places.max(HEAD.len())).max(room.saturating_sub(least)))
            }
        };
        Self { options, start, width: width.max("name".len()) }
    }

    /// The names of the columns.
    pub(super) fn head(&self) -> String {
        let text =
            if self.options.own { format!("{:<1$}  {HEAD}", "name", self.width) } else { "name".into() };
        self.options.ink(Ink::Head, &text)
    }

    /// The end of the line of a row.
    pub(super) fn cells(&self, row: &Row) -> String {
        let options = self.options;
        let name = printable(&row.frame.label);
        if !options.own {
            return options.fit(&name, self.start).into_owned();
        }
        let name = if options.width.is_some() { shorten(&name, self.width) } else { name };
        let padded = format!("{name:<0$}", self.width);
        let is_own = row.own.as_ref().is_some_and(|own| own.is_itself);
        let padded = if is_own { padded } else { options.ink(Ink::Library, &padded) };
        let place = place(row.own.as_ref());
        let used = self.start + self.width + 2;
        let room = options.width.map_or(usize::MAX, |width| width.saturating_sub(used).max(1));
        format!("{padded}  {}", options.ink(Ink::Own, &shorten(&place, room)))
    }
}

/// `cache.cc:12` in the function itself, `get cache.cc:12` in a caller.
#[must_use]
pub fn place(own: Option<&OwnPlace>) -> String {
    let Some(own) = own else { return "-".to_owned() };
    let file = own.file.rsplit('/').next().unwrap_or_default();
    let source = match (file, own.line) {
        ("", _) => String::new(),
        (file, 0) => file.to_owned(),
        (file, line) => format!("{file}:{line}"),
    };
    let text = match (own.is_itself, &*source) {
        (true, "") => "yes".to_owned(),
        (true, source) => source.to_owned(),
        (false, "") => own.function.clone(),
        (false, source) => format!("{} {source}", own.function),
    };
    printable(&text).into_owned()
}
