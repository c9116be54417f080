//! Writes the glyphs of the font of the pictures for `include_bytes!`: characters, widths and
//! outlines, compressed. `src/font.rs` reads them; hints, kerning and other tables are left out.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::io::Write;
use std::path::PathBuf;

use flate2::Compression;
use flate2::write::ZlibEncoder;
use skrifa::instance::{LocationRef, Size};
use skrifa::outline::{DrawSettings, OutlinePen};
use skrifa::{FontRef, GlyphId, MetadataProvider};

/// Writes `font.zlib` into `OUT_DIR`.
fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("set by cargo"));
    let file = fs::File::create(out.join("font.zlib")).expect("OUT_DIR is writable");
    let mut encoder = ZlibEncoder::new(file, Compression::best());
    encoder.write_all(&table()).and_then(|()| encoder.finish()).expect("OUT_DIR has space");
}

/// Units per em, number of characters, number of glyphs; for each character its code and its
/// glyph; for each glyph its width and the length of its outline; the outlines.
fn table() -> Vec<u8> {
    let face = FontRef::new(dejavu::sans::regular()).expect("the font is whole");
    let metrics = face.glyph_metrics(Size::unscaled(), LocationRef::default());
    let mut numbers: BTreeMap<GlyphId, u32> = BTreeMap::new();
    let mut characters: Vec<(u32, GlyphId)> = face.charmap().mappings().collect();
    characters.sort_unstable();
    for (_, glyph) in &characters {
        let next = numbers.len() as u32;
        numbers.entry(*glyph).or_insert(next);
    }
    let mut glyphs: Vec<(u32, GlyphId)> = numbers.iter().map(|(glyph, number)| (*number, *glyph)).collect();
    glyphs.sort_unstable();
    let units = face.metrics(Size::unscaled(), LocationRef::default()).units_per_em;
    let mut words = vec![u32::from(units), characters.len() as u32, glyphs.len() as u32];
    words.extend(characters.iter().flat_map(|(code, glyph)| [*code, numbers[glyph]]));
    let mut outlines = Vec::new();
    for (_, glyph) in &glyphs {
        let mut pen = Pen::default();
        if let Some(outline) = face.outline_glyphs().get(*glyph) {
            let settings = DrawSettings::unhinted(Size::unscaled(), LocationRef::default());
            outline.draw(settings, &mut pen).expect("outlines of the font are whole");
        }
        words.extend([metrics.advance_width(*glyph).unwrap_or_default() as u32, pen.out.len() as u32]);
        outlines.append(&mut pen.out);
    }
    words.into_iter().flat_map(u32::to_le_bytes).chain(outlines).collect()
}

/// Writes an outline: a letter for each segment, then the distances between its points, each as a
/// variable-length integer.
#[derive(Default)]
struct Pen {
    out: Vec<u8>,
    last: [i32; 2],
}

impl Pen {
    fn segment(&mut self, letter: u8, points: &[[f32; 2]]) {
        self.out.push(letter);
        for point in points {
            let point = point.map(|coordinate| coordinate.round() as i32);
            for axis in [0, 1] {
                self.number(point[axis] - self.last[axis]);
            }
            self.last = point;
        }
    }

    /// The sign is the lowest bit; seven bits a byte, the highest bit on all but the last.
    fn number(&mut self, number: i32) {
        let mut rest = (number << 1 ^ number >> 31) as u32;
        while rest >= 0x80 {
            self.out.push(rest as u8 | 0x80);
            rest >>= 7;
        }
        self.out.push(rest as u8);
    }
}

impl OutlinePen for Pen {
    fn move_to(&mut self, x: f32, y: f32) {
        self.segment(b'M', &[[x, y]]);
    }

    fn line_to(&mut self, x: f32, y: f32) {
        self.segment(b'L', &[[x, y]]);
    }

    fn quad_to(&mut self, cx: f32, cy: f32, x: f32, y: f32) {
        self.segment(b'Q', &[[cx, cy], [x, y]]);
    }

    fn curve_to(&mut self, ax: f32, ay: f32, bx: f32, by: f32, x: f32, y: f32) {
        self.segment(b'C', &[[ax, ay], [bx, by], [x, y]]);
    }

    fn close(&mut self) {
        self.out.push(b'Z');
    }
}
