//! The grammar, which is jemalloc's: `key:value` pairs between commas, keys of letters, digits and
//! underscores, no blanks.

/// What is wrong with a text as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Flaw {
    EndsWithKey,
    EndsWithComma,
    Malformed,
}

impl Flaw {
    /// jemalloc's words.
    pub(super) fn text(self) -> &'static [u8] {
        match self {
            Flaw::EndsWithKey => b"Conf string ends with key",
            Flaw::EndsWithComma => b"Conf string ends with comma",
            Flaw::Malformed => b"Malformed conf string",
        }
    }
}

/// A piece of the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Item<'a> {
    Pair { key: &'a [u8], value: &'a [u8] },
    Flaw(Flaw),
}

/// The pieces of a text. Nothing follows a flaw.
pub(super) struct Pairs<'a> {
    rest: &'a [u8],
    /// The last pair ended in the comma that ends the text.
    dangling: bool,
}

impl<'a> Pairs<'a> {
    pub(super) fn new(text: &'a [u8]) -> Self {
        Self { rest: text, dangling: false }
    }

    fn flaw(&mut self, flaw: Flaw) -> Option<Item<'a>> {
        self.rest = &[];
        self.dangling = false;
        Some(Item::Flaw(flaw))
    }
}

impl<'a> Iterator for Pairs<'a> {
    type Item = Item<'a>;

    fn next(&mut self) -> Option<Item<'a>> {
        if self.rest.is_empty() {
            return if self.dangling { self.flaw(Flaw::EndsWithComma) } else { None };
        }
        let is_key = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
        let Some(colon) = self.rest.iter().position(|byte| !is_key(byte)) else {
            return self.flaw(Flaw::EndsWithKey);
        };
        let (key, after) = self.rest.split_at(colon);
        let Some(after) = after.strip_prefix(b":") else { return self.flaw(Flaw::Malformed) };
        let end = after.iter().position(|byte| *byte == b',').unwrap_or(after.len());
        let (value, rest) = after.split_at(end);
        self.rest = rest.get(1..).unwrap_or(&[]);
        self.dangling = !rest.is_empty() && self.rest.is_empty();
        Some(Item::Pair { key, value })
    }
}

/// Whether a text has keys of jemalloc's: then mistakes are reported, as by jemalloc.
pub(super) fn has_jemalloc_keys(text: &[u8]) -> bool {
    const BEGINNINGS: [&[u8]; 4] = [b"prof", b"lg_prof_", b"confirm_conf", b"abort_conf"];
    text.split(|byte| *byte == b',').any(|piece| BEGINNINGS.iter().any(|word| piece.starts_with(word)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(text: &str) -> Vec<String> {
        let text_of = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Pairs::new(text.as_bytes())
            .map(|item| match item {
                Item::Pair { key, value } => format!("{}={}", text_of(key), text_of(value)),
                Item::Flaw(flaw) => text_of(flaw.text()),
            })
            .collect()
    }

    /// The rows of the table that was observed with jemalloc 5.3.0.
    #[test]
    fn flaws_are_jemallocs() {
        assert_eq!(pieces("prof:true,lg_prof_sample:0x13"), ["prof=true", "lg_prof_sample=0x13"]);
        assert_eq!(pieces("prof"), ["Conf string ends with key"]);
        assert_eq!(pieces("prof:true,"), ["prof=true", "Conf string ends with comma"]);
        assert_eq!(pieces("prof=true"), ["Malformed conf string"]);
        assert_eq!(pieces("prof:true, prof_final:true"), ["prof=true", "Malformed conf string"]);
        assert_eq!(pieces("prof_prefix:a:b,prof:"), ["prof_prefix=a:b", "prof="]);
        assert_eq!(pieces(""), [""; 0]);
    }

    #[test]
    fn our_own_controller_is_not_jemalloc() {
        assert!(!has_jemalloc_keys(b"mode:sampled,rate:512K,depth:64,index:hash,paranoid:true"));
        assert!(has_jemalloc_keys(b"mode:exact,prof_final:true"));
        assert!(has_jemalloc_keys(b"lg_prof_sample:10"));
    }
}
