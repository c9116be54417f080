//! The one font of our pictures: what is measured here is what the renderers draw.

use std::io::Read;
use std::sync::LazyLock;

use skrifa::instance::{LocationRef, Size};
use skrifa::{FontRef, MetadataProvider};

/// Families in the order browsers should try them; Verdana has the same widths.
pub(crate) const FAMILY: &str = "DejaVu Sans, Verdana, sans-serif";

/// The font file, for renderers.
#[must_use]
pub fn data() -> &'static [u8] {
    static FONT: LazyLock<Vec<u8>> = LazyLock::new(|| {
        let compressed: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/font.zlib"));
        let mut font = Vec::new();
        flate2::read::ZlibDecoder::new(compressed)
            .read_to_end(&mut font)
            .expect("the build script compressed it");
        font
    });
    &FONT
}

/// The parsed font.
pub(crate) fn face() -> FontRef<'static> {
    FontRef::new(data()).expect("the font that is built in is whole")
}

/// Width of a line of text at a font size.
#[must_use]
pub fn width(text: &str, size: f64) -> f64 {
    let face = face();
    let (glyphs, metrics) = (face.charmap(), face.glyph_metrics(Size::unscaled(), LocationRef::default()));
    let units = f64::from(face.metrics(Size::unscaled(), LocationRef::default()).units_per_em);
    let advance = |c: char| {
        let glyph = glyphs.map(c).or_else(|| glyphs.map('\u{fffd}'));
        glyph.and_then(|glyph| metrics.advance_width(glyph)).map_or(units * 0.6, f64::from)
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
