//! The one font of our pictures: what is measured here is what the renderers draw.

use std::sync::OnceLock;

use ttf_parser::Face;

/// Families in the order browsers should try them; Verdana has the same widths.
pub const FAMILY: &str = "DejaVu Sans, Verdana, sans-serif";

/// The font file, for renderers.
#[must_use]
pub fn data() -> &'static [u8] {
    dejavu::sans::regular()
}

/// Width of a line of text at a font size.
#[must_use]
pub fn width(text: &str, size: f64) -> f64 {
    static FACE: OnceLock<Option<Face<'static>>> = OnceLock::new();
    let Some(face) = FACE.get_or_init(|| Face::parse(data(), 0).ok()) else {
        return text.chars().count() as f64 * size * 0.6;
    };
    let units = f64::from(face.units_per_em());
    let advance = |c: char| {
        let glyph = face.glyph_index(c).or_else(|| face.glyph_index('\u{fffd}'));
        glyph.and_then(|glyph| face.glyph_hor_advance(glyph)).map_or(units * 0.6, f64::from)
    };
    text.chars().map(advance).sum::<f64>() / units * size
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
}
