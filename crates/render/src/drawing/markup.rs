//! The pieces of an SVG that we wrote: tags with attributes, and text.

/// A piece of the file.
pub(super) enum Piece<'a> {
    Open(Tag<'a>),
    Close,
    Text(String),
}

/// The start of an element.
pub(super) struct Tag<'a> {
    pub(super) name: &'a str,
    attributes: Vec<(&'a str, &'a str)>,
    /// The element has no content and no end tag.
    pub(super) is_empty: bool,
}

impl Tag<'_> {
    /// The value of an attribute as it is written; ours have no entities.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.attributes.iter().find(|(key, _)| *key == name).map(|(_, value)| *value)
    }

    /// A number, or 0.
    pub(super) fn number(&self, name: &str) -> f32 {
        self.get(name).and_then(|value| value.parse().ok()).unwrap_or(0.0)
    }
}

/// The pieces in their order. Declarations and the contents of scripts are left out.
pub(super) struct Pieces<'a> {
    rest: &'a str,
}

impl<'a> Pieces<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { rest: text }
    }

    /// Skips to the end of what starts here; all where the end is missing.
    fn skip_past(&mut self, end: &str) {
        self.rest = self.rest.split_once(end).map_or("", |(_, after)| after);
    }

    fn tag(&mut self) -> Option<Tag<'a>> {
        let (name, mut rest) = split_while(&self.rest[1..], |c| c.is_ascii_alphanumeric());
        let mut attributes = Vec::new();
        loop {
            rest = rest.trim_start();
            if let Some(after) = rest.strip_prefix("/>") {
                self.rest = after;
                return Some(Tag { name, attributes, is_empty: true });
            }
            if let Some(after) = rest.strip_prefix('>') {
                self.rest = after;
                return Some(Tag { name, attributes, is_empty: false });
            }
            let (key, after) = rest.split_once("=\"")?;
            let (value, after) = after.split_once('"')?;
            attributes.push((key, value));
            rest = after;
        }
    }
}

impl<'a> Iterator for Pieces<'a> {
    type Item = Piece<'a>;

    fn next(&mut self) -> Option<Piece<'a>> {
        loop {
            let rest = self.rest;
            if rest.is_empty() {
                return None;
            } else if rest.starts_with("<?") {
                self.skip_past("?>");
            } else if rest.starts_with("<![CDATA[") {
                self.skip_past("]]>");
            } else if rest.starts_with("</") {
                self.skip_past(">");
                return Some(Piece::Close);
            } else if rest.starts_with('<') {
                return self.tag().map(Piece::Open);
            } else {
                let (text, after) = split_while(rest, |c| c != '<');
                self.rest = after;
                return Some(Piece::Text(unescape(text)));
            }
        }
    }
}

fn split_while(text: &str, belongs: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(|c| !belongs(c)).unwrap_or(text.len()))
}

/// Text with the entities that `svg::escape` writes, and numbered ones, as characters.
fn unescape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('&') {
        out += before;
        let (entity, after) = after.split_once(';').unwrap_or((after, ""));
        out.push(match entity {
            "amp" => '&',
            "lt" => '<',
            "gt" => '>',
            "quot" => '"',
            number => number
                .strip_prefix('#')
                .and_then(|code| code.parse().ok())
                .and_then(char::from_u32)
                .unwrap_or('\u{fffd}'),
        });
        rest = after;
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::svg::escape;

    #[test]
    fn escaped_text_comes_back() {
        let hostile = "f<&>\"; &amp; </text> é";
        assert_eq!(unescape(&escape(hostile)), hostile);
        assert_eq!(unescape("a&#160;b&nope;&"), "a\u{a0}b\u{fffd}\u{fffd}");
    }

    #[test]
    fn scripts_are_left_out_and_damaged_tags_end_the_file() {
        let names = |text: &str| {
            let open = |piece| match piece {
                Piece::Open(Tag { name, is_empty, .. }) => Some((name.to_owned(), is_empty)),
                _ => None,
            };
            Pieces::new(text).filter_map(open).collect::<Vec<_>>()
        };
        let text = "<?xml?><svg a=\"1\"><script><![CDATA[if (a<b) {}]]></script><rect x=\"2\"/></svg>";
        assert_eq!(names(text), [("svg".into(), false), ("script".into(), false), ("rect".into(), true)]);
        for end in 0..text.len() {
            names(&text[..end]);
        }
    }
}
