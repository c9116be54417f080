//! The request for the allocator's statistics as text: jemalloc's `malloc_stats_print`. The text is
//! in [`super::SectionKind::StatsText`].

/// Letters of `malloc_stats_print`: `J` is JSON, each other one omits a part.
const LETTERS: [u8; 10] = *b"Jgmdablxeh";

/// A request for the text, with letters of `malloc_stats_print`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StatsText(u64);

impl StatsText {
    /// Marks a request without letters.
    const WANTED: u64 = 1 << 63;

    /// With these letters; others have no effect.
    #[must_use]
    pub fn new(letters: &str) -> Self {
        let bit = |letter: u8| LETTERS.iter().position(|known| *known == letter).map_or(0, |at| 1 << at);
        Self(letters.bytes().fold(Self::WANTED, |bits, letter| bits | bit(letter)))
    }

    /// The request of a control word; `None`: no text is wanted.
    #[must_use]
    pub fn from_word(word: u64) -> Option<Self> {
        (word & Self::WANTED != 0).then_some(Self(word))
    }

    /// The control word.
    #[must_use]
    pub fn word(self) -> u64 {
        self.0
    }

    /// The letters, ended by zeros.
    #[must_use]
    pub fn letters(self) -> [u8; LETTERS.len() + 1] {
        let mut text = [0; LETTERS.len() + 1];
        let given = LETTERS.iter().enumerate().filter(|(at, _)| self.0 & 1 << at != 0);
        for (place, (_, letter)) in text.iter_mut().zip(given) {
            *place = *letter;
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_travel_in_a_word() {
        let letters = |text: &str| StatsText::from_word(StatsText::new(text).word()).map(StatsText::letters);
        assert_eq!(letters("aJ?"), Some(*b"Ja\0\0\0\0\0\0\0\0\0"));
        assert_eq!(letters("Jgmdablxeh"), Some(*b"Jgmdablxeh\0"));
        assert_eq!(letters(""), Some([0; 11]));
        assert_eq!(StatsText::from_word(0), None);
    }
}
