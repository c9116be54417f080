//! The glyphs that a page shows, as Type 3 fonts of up to 255 glyphs each.

use std::collections::HashMap;
use std::fmt::Write as _;

use skrifa::instance::{LocationRef, Size};
use skrifa::outline::{DrawSettings, OutlinePen};
use skrifa::{FontRef, GlyphId, MetadataProvider};

use super::document::Document;
use crate::font;

/// Codes 1 to 255; 0 means "no glyph" to viewers.
const GLYPHS_PER_FONT: usize = 255;

/// Glyphs in the order of their first use.
#[derive(Default)]
pub(super) struct Glyphs {
    places: HashMap<u32, usize>,
    used: Vec<(u32, String)>,
}

impl Glyphs {
    /// Font number and code of a glyph that shows `text`.
    pub(super) fn code(&mut self, glyph: u32, text: &str) -> (usize, usize) {
        let place = *self.places.entry(glyph).or_insert_with(|| {
            self.used.push((glyph, text.to_owned()));
            self.used.len() - 1
        });
        (place / GLYPHS_PER_FONT, place % GLYPHS_PER_FONT + 1)
    }

    /// Size of the grid that outlines are drawn on.
    pub(super) fn units_per_em(&self) -> u16 {
        font::face().metrics(Size::unscaled(), LocationRef::default()).units_per_em
    }

    /// Adds the fonts; their numbers in the document.
    pub(super) fn write(&self, document: &mut Document) -> Vec<usize> {
        self.used.chunks(GLYPHS_PER_FONT).map(|used| self.write_font(used, document)).collect()
    }

    fn write_font(&self, used: &[(u32, String)], document: &mut Document) -> usize {
        let face = font::face();
        let metrics = face.glyph_metrics(Size::unscaled(), LocationRef::default());
        let bounds = face.metrics(Size::unscaled(), LocationRef::default()).bounds.unwrap_or_default();
        let bounds = [bounds.x_min, bounds.y_min, bounds.x_max, bounds.y_max].map(|edge| edge.to_string());
        let bounds = bounds.join(" ");
        let (mut procedures, mut names, mut widths) = (String::new(), String::new(), String::new());
        for (index, (glyph, _)) in used.iter().enumerate() {
            let width = metrics.advance_width(GlyphId::new(*glyph)).unwrap_or_default();
            let procedure = format!("{width} 0 {bounds} d1\n{}", outline(&face, *glyph));
            let stream = document.add_stream(procedure.as_bytes());
            let _ = write!(procedures, "/g{index} {stream} 0 R");
            let _ = write!(names, "/g{index}");
            let _ = write!(widths, "{width} ");
        }
        let unicode = document.add_stream(to_unicode(used).as_bytes());
        let scale = 1.0 / f32::from(self.units_per_em());
        let last = used.len();
        document.add(format!(
            "<</Type/Font/Subtype/Type3/Name/DejaVuSans/FontBBox[{bounds}]/FontMatrix[{scale} 0 0 {scale} 0 0]\
             /CharProcs<<{procedures}>>/Encoding<</Type/Encoding/Differences[1{names}]>>\
             /FirstChar 1/LastChar {last}/Widths[{widths}]/ToUnicode {unicode} 0 R/Resources<<>>>>"
        ))
    }
}

/// The outline of a glyph, filled.
fn outline(face: &FontRef<'_>, glyph: u32) -> String {
    let mut pen = Pen::default();
    if let Some(outline) = face.outline_glyphs().get(GlyphId::new(glyph)) {
        let _ = outline.draw(DrawSettings::unhinted(Size::unscaled(), LocationRef::default()), &mut pen);
    }
    pen.out.push_str("f\n");
    pen.out
}

/// Maps codes to text, so that it can be selected and searched.
fn to_unicode(used: &[(u32, String)]) -> String {
    let mut map = String::from(
        "/CIDInit /ProcSet findresource begin 12 dict begin begincmap\n\
         /CMapName /heapwise def /CMapType 2 def\n\
         1 begincodespacerange <01> <ff> endcodespacerange\n",
    );
    // At most a hundred in a block.
    for (block, entries) in used.chunks(100).enumerate() {
        let _ = writeln!(map, "{} beginbfchar", entries.len());
        for (index, (_, text)) in entries.iter().enumerate() {
            let utf16: String = text.encode_utf16().map(|unit| format!("{unit:04x}")).collect();
            let _ = writeln!(map, "<{:02x}> <{utf16}>", block * 100 + index + 1);
        }
        map.push_str("endbfchar\n");
    }
    map + "endcmap CMapName currentdict /CMap defineresource pop end end\n"
}

/// Writes an outline in PDF's operators.
#[derive(Default)]
struct Pen {
    out: String,
    last: (f32, f32),
}

impl OutlinePen for Pen {
    fn move_to(&mut self, x: f32, y: f32) {
        let _ = writeln!(self.out, "{x} {y} m");
        self.last = (x, y);
    }

    fn line_to(&mut self, x: f32, y: f32) {
        let _ = writeln!(self.out, "{x} {y} l");
        self.last = (x, y);
    }

    fn quad_to(&mut self, cx: f32, cy: f32, x: f32, y: f32) {
        let towards = |from: f32, to: f32| from + (to - from) * 2.0 / 3.0;
        let (from_x, from_y) = self.last;
        self.curve_to(towards(from_x, cx), towards(from_y, cy), towards(x, cx), towards(y, cy), x, y);
    }

    fn curve_to(&mut self, ax: f32, ay: f32, bx: f32, by: f32, x: f32, y: f32) {
        let _ = writeln!(self.out, "{ax} {ay} {bx} {by} {x} {y} c");
        self.last = (x, y);
    }

    fn close(&mut self) {
        self.out.push_str("h\n");
    }
}
