//! The glyphs that a page shows, as Type 3 fonts of up to 255 glyphs each.

use std::collections::HashMap;
use std::fmt::Write as _;

use tiny_skia::PathBuilder;

use super::document::Document;
use super::outline;
use crate::font::{Glyph, font};

/// Codes 1 to 255; 0 means "no glyph" to viewers.
const GLYPHS_PER_FONT: usize = 255;

/// Glyphs in the order of their first use.
#[derive(Default)]
pub(super) struct Glyphs {
    places: HashMap<usize, usize>,
    /// Their numbers in the font, and the character that each shows.
    used: Vec<(usize, char)>,
}

impl Glyphs {
    /// Font number and code of a glyph that shows `character`.
    pub(super) fn code(&mut self, glyph: usize, character: char) -> (usize, usize) {
        let place = *self.places.entry(glyph).or_insert_with(|| {
            self.used.push((glyph, character));
            self.used.len() - 1
        });
        (place / GLYPHS_PER_FONT, place % GLYPHS_PER_FONT + 1)
    }

    /// Adds the fonts; their numbers in the document.
    pub(super) fn write(&self, document: &mut Document) -> Vec<usize> {
        self.used.chunks(GLYPHS_PER_FONT).map(|used| self.write_font(used, document)).collect()
    }

    fn write_font(&self, used: &[(usize, char)], document: &mut Document) -> usize {
        let (mut procedures, mut names, mut widths) = (String::new(), String::new(), String::new());
        for (index, (number, _)) in used.iter().enumerate() {
            let glyph = font().outline_of(*number);
            let stream = document.add_stream(procedure(glyph).as_bytes());
            let _ = write!(procedures, "/g{index} {stream} 0 R");
            let _ = write!(names, "/g{index}");
            let _ = write!(widths, "{} ", glyph.width);
        }
        let unicode = document.add_stream(to_unicode(used).as_bytes());
        let scale = 1.0 / font().units_per_em;
        let last = used.len();
        // A box without size: viewers take the glyphs' own bounds.
        document.add(format!(
            "<</Type/Font/Subtype/Type3/Name/DejaVuSans/FontBBox[0 0 0 0]/FontMatrix[{scale} 0 0 {scale} 0 0]\
             /CharProcs<<{procedures}>>/Encoding<</Type/Encoding/Differences[1{names}]>>\
             /FirstChar 1/LastChar {last}/Widths[{widths}]/ToUnicode {unicode} 0 R/Resources<<>>>>"
        ))
    }
}

/// Draws a glyph, filled: its width, its bounds, its outline.
fn procedure(glyph: &Glyph) -> String {
    let mut path = PathBuilder::new();
    glyph.draw(&mut path, |x, y| (x, y));
    let Some(path) = path.finish() else { return format!("{} 0 0 0 0 0 d1\n", glyph.width) };
    let bounds = path.bounds();
    let (left, low, right, high) = (bounds.left(), bounds.top(), bounds.right(), bounds.bottom());
    let mut out = format!("{} 0 {left} {low} {right} {high} d1\n", glyph.width);
    outline(path.segments(), &mut out);
    out + "f\n"
}

/// Maps codes to text, so that it can be selected and searched.
fn to_unicode(used: &[(usize, char)]) -> String {
    let mut map = String::from(
        "/CIDInit /ProcSet findresource begin 12 dict begin begincmap\n\
         /CMapName /heapwise def /CMapType 2 def\n\
         1 begincodespacerange <01> <ff> endcodespacerange\n",
    );
    // At most a hundred in a block.
    for (block, entries) in used.chunks(100).enumerate() {
        let _ = writeln!(map, "{} beginbfchar", entries.len());
        for (index, (_, character)) in entries.iter().enumerate() {
            let mut units = [0; 2];
            let units = character.encode_utf16(&mut units).iter();
            let utf16: String = units.map(|unit| format!("{unit:04x}")).collect();
            let _ = writeln!(map, "<{:02x}> <{utf16}>", block * 100 + index + 1);
        }
        map.push_str("endbfchar\n");
    }
    map + "endcmap CMapName currentdict /CMap defineresource pop end end\n"
}
