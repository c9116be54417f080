//! The one font of our pictures: the widths measured here are those of the glyphs that are drawn.
//!
//! The build script wrote the table that is read here (`build.rs` has its format).

use std::io::Read;
use std::sync::LazyLock;

use tiny_skia::PathBuilder;

/// Families in the order browsers should try them; Verdana has the same widths.
pub(crate) const FAMILY: &str = "DejaVu Sans, Verdana, sans-serif";

/// The glyphs of the font.
pub(crate) struct Font {
    /// Units of its grid in the size of a line.
    pub(crate) units_per_em: f32,
    /// Characters in their order, and the number of the glyph of each.
    characters: Vec<(u32, u32)>,
    glyphs: Vec<Glyph>,
}

/// A glyph, in units of the grid, its vertical axis upwards.
pub(crate) struct Glyph {
    pub(crate) width: f32,
    outline: Vec<u8>,
}

/// The font.
pub(crate) fn font() -> &'static Font {
    static FONT: LazyLock<Font> = LazyLock::new(|| {
        let compressed: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/font.zlib"));
        let mut table = Vec::new();
        let read = flate2::read::ZlibDecoder::new(compressed).read_to_end(&mut table);
        read.expect("the build script compressed it");
        Font::parse(&table).expect("the build script wrote it")
    });
    &FONT
}

/// Width of a line of text at a font size.
#[must_use]
pub fn width(text: &str, size: f64) -> f64 {
    let font = font();
    let units = text.chars().map(|c| f64::from(font.glyphs[font.glyph(c)].width)).sum::<f64>();
    units / f64::from(font.units_per_em) * size
}

impl Font {
    fn parse(mut table: &[u8]) -> Option<Self> {
        let mut word = || {
            let (first, rest) = table.split_first_chunk()?;
            table = rest;
            Some(u32::from_le_bytes(*first))
        };
        let [units, characters, glyphs] = [word()?, word()?, word()?];
        let mut pairs = |count: u32| (0..count).map(|_| Some((word()?, word()?))).collect::<Option<Vec<_>>>();
        let (characters, sizes) = (pairs(characters)?, pairs(glyphs)?);
        let mut glyphs = Vec::with_capacity(sizes.len());
        for (width, length) in sizes {
            let (outline, rest) = table.split_at_checked(length as usize)?;
            table = rest;
            glyphs.push(Glyph { width: width as f32, outline: outline.to_vec() });
        }
        Some(Self { units_per_em: units as f32, characters, glyphs })
    }

    /// The number of the glyph of a character, or of the replacement character.
    pub(crate) fn glyph(&self, c: char) -> usize {
        let find = |c: char| {
            let at = self.characters.binary_search_by_key(&u32::from(c), |(code, _)| *code);
            at.ok().map(|at| self.characters[at].1 as usize)
        };
        find(c).or_else(|| find('\u{fffd}')).unwrap_or(0)
    }

    /// The glyph of a number.
    pub(crate) fn outline_of(&self, number: usize) -> &Glyph {
        &self.glyphs[number]
    }
}

impl Glyph {
    /// Adds the outline to a path, each of its points where `place` puts it.
    pub(crate) fn draw(&self, path: &mut PathBuilder, place: impl Fn(f32, f32) -> (f32, f32)) {
        let mut rest = self.outline.as_slice();
        let mut last = (0, 0);
        while let Some((letter, after)) = rest.split_first() {
            rest = after;
            let mut point = || {
                last.0 += number(&mut rest);
                last.1 += number(&mut rest);
                place(last.0 as f32, last.1 as f32)
            };
            match letter {
                b'M' => {
                    let (x, y) = point();
                    path.move_to(x, y);
                }
                b'L' => {
                    let (x, y) = point();
                    path.line_to(x, y);
                }
                b'Q' => {
                    let ((cx, cy), (x, y)) = (point(), point());
                    path.quad_to(cx, cy, x, y);
                }
                b'C' => {
                    let ((ax, ay), (bx, by), (x, y)) = (point(), point(), point());
                    path.cubic_to(ax, ay, bx, by, x, y);
                }
                _ => path.close(),
            }
        }
    }
}

/// Reads a variable-length integer whose lowest bit is the sign.
fn number(bytes: &mut &[u8]) -> i32 {
    let (mut value, mut shift) = (0_u32, 0);
    while let Some((byte, rest)) = bytes.split_first() {
        *bytes = rest;
        value |= u32::from(byte & 0x7f) << shift;
        shift += 7;
        if byte & 0x80 == 0 || shift > 28 {
            break;
        }
    }
    (value >> 1) as i32 ^ -((value & 1) as i32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn widths_are_those_of_the_face() {
        // DejaVu Sans: `m` is 1995 and `i` 569 units of 2048.
        assert!((width("m", 2048.0) - 1995.0).abs() < 1.0);
        assert!((width("ii", 2048.0) - 1138.0).abs() < 1.0);
    }

    #[test]
    fn outlines_are_those_of_the_face() {
        // The bar of `l` reaches from 193 to 377 and from the baseline to 1556.
        let mut path = PathBuilder::new();
        font().outline_of(font().glyph('l')).draw(&mut path, |x, y| (x, y));
        let bounds = path.finish().unwrap().bounds();
        let edges = [bounds.left(), bounds.top(), bounds.right(), bounds.bottom()];
        assert_eq!(edges, [193.0, 0.0, 377.0, 1556.0]);
        // A character without a glyph is drawn as the replacement character.
        assert_eq!(font().glyph('\u{4e2d}'), font().glyph('\u{fffd}'));
    }
}
