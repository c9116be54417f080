//! A PDF of one page from a drawing: shapes in solid colors, and text that can be selected; or
//! the same page in PostScript, whose prologue defines the operators of PDF.
//!
//! Glyphs are embedded as Type 3 fonts, whose procedures are plain outlines, so that a file holds
//! the glyphs it shows and nothing else of the font.

mod document;
mod glyphs;

use std::fmt::Write as _;

use tiny_skia::{Path, PathSegment};

use document::Document;
use glyphs::Glyphs;

use crate::drawing::{Content, Drawing, Ink, Item, Line, Stroke};

/// The PDF of a picture.
pub(crate) fn write(drawing: &Drawing) -> Vec<u8> {
    let page = Page::of(drawing, Language::Pdf);
    let mut document = Document::default();
    let fonts = page.glyphs.write(&mut document);
    document.finish([drawing.width, drawing.height], &page.content, &fonts, &page.opacities)
}

/// PDF's operators in PostScript.
const PROLOGUE: &str = "/m{moveto}bind def /l{lineto}bind def /c{curveto}bind def /h{closepath}bind def\n\
    /f{fill}bind def /f*{eofill}bind def /S{stroke}bind def /q{gsave}bind def /Q{grestore}bind def\n\
    /cm{6 array astore concat}bind def /w{setlinewidth}bind def /J{setlinecap}bind def\n\
    /j{setlinejoin}bind def /M{setmiterlimit}bind def /d{setdash}bind def\n\
    /rg{setrgbcolor}bind def /RG{setrgbcolor}bind def\n";

/// The PostScript of a picture: text as outlines, opacity as a lighter color.
pub(crate) fn postscript(drawing: &Drawing) -> Vec<u8> {
    let page = Page::of(drawing, Language::PostScript);
    let (width, height) = (drawing.width.ceil(), drawing.height.ceil());
    let mut out = format!(
        "%!PS-Adobe-3.0\n%%Creator: heapwise\n%%Pages: 1\n%%BoundingBox: 0 0 {width} {height}\n\
         %%EndComments\n<</PageSize[{width} {height}]>>setpagedevice\n{PROLOGUE}%%Page: 1 1\n"
    );
    out.push_str(&page.content);
    out.push_str("showpage\n%%EOF\n");
    out.into_bytes()
}

/// What a page is written in.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Language {
    Pdf,
    PostScript,
}

/// The content of the page so far.
struct Page {
    language: Language,
    content: String,
    glyphs: Glyphs,
    /// Opacities used, in thousandths; each has a graphics state of its number.
    opacities: Vec<u16>,
}

impl Page {
    fn of(drawing: &Drawing, language: Language) -> Self {
        let mut page =
            Self { language, content: String::new(), glyphs: Glyphs::default(), opacities: Vec::new() };
        // Both languages count upwards from the lower edge.
        let _ = writeln!(page.content, "1 0 0 -1 0 {} cm", drawing.height);
        for item in &drawing.items {
            page.item(item);
        }
        page
    }

    fn item(&mut self, item: &Item) {
        match &item.content {
            Content::Shape(path) => {
                self.fill(path, item.fill);
                self.stroke(path, item.stroke.as_ref());
            }
            Content::Text(line) => self.text(line, item),
        }
    }

    /// Glyphs are text in a PDF; strokes around them (halos) are shapes below it.
    fn text(&mut self, line: &Line, item: &Item) {
        let is_pdf = self.language == Language::Pdf;
        if (item.stroke.is_some() || !is_pdf)
            && let Some(path) = line.outline()
        {
            self.stroke(&path, item.stroke.as_ref());
            self.fill(&path, item.fill.filter(|_| !is_pdf));
        }
        let Some(ink) = item.fill.filter(|_| is_pdf) else { return };
        self.content.push_str("q\n");
        self.color(ink, "rg");
        self.content.push_str("BT\n");
        for (c, number, _, x) in line.glyphs() {
            let (font, code) = self.glyphs.code(number, c);
            let (size, y) = (line.size, line.y);
            // The vertical axis of a glyph points upwards, that of the picture downwards.
            let _ = writeln!(self.content, "/F{font} {size} Tf 1 0 0 -1 {x} {y} Tm <{code:02x}> Tj");
        }
        self.content.push_str("ET\nQ\n");
    }

    fn fill(&mut self, path: &Path, ink: Option<Ink>) {
        let Some(ink) = ink else { return };
        self.content.push_str("q\n");
        self.color(ink, "rg");
        outline(path.segments(), &mut self.content);
        self.content.push_str("f\nQ\n");
    }

    fn stroke(&mut self, path: &Path, stroke: Option<&Stroke>) {
        let Some(stroke) = stroke else { return };
        self.content.push_str("q\n");
        self.color(stroke.ink, "RG");
        let dashes: Vec<String> = stroke.dashes.iter().map(f32::to_string).collect();
        // Ends are cut off, corners are sharp up to SVG's limit.
        let _ = writeln!(self.content, "{} w 0 J 0 j 4 M [{}] 0 d", stroke.width, dashes.join(" "));
        outline(path.segments(), &mut self.content);
        self.content.push_str("S\nQ\n");
    }

    /// Sets the color of what follows, and its opacity.
    fn color(&mut self, ink: Ink, operator: &str) {
        let color = match self.language {
            Language::Pdf => {
                self.opacity(ink.opacity);
                ink.color
            }
            Language::PostScript => on_white(ink),
        };
        let [red, green, blue] = color.map(|part| f32::from(part) / 255.0);
        let _ = writeln!(self.content, "{red:.4} {green:.4} {blue:.4} {operator}");
    }

    fn opacity(&mut self, opacity: f32) {
        let thousandths = (opacity * 1000.0).round() as u16;
        if thousandths < 1000 {
            let used = self.opacities.iter().position(|used| *used == thousandths);
            let number = used.unwrap_or_else(|| {
                self.opacities.push(thousandths);
                self.opacities.len() - 1
            });
            let _ = writeln!(self.content, "/G{number} gs");
        }
    }
}

/// The color that results on white paper.
fn on_white(ink: Ink) -> [u8; 3] {
    ink.color.map(|part| (255.0 - (255.0 - f32::from(part)) * ink.opacity) as u8)
}

/// Writes a path; PDF has no quadratic curves, which are cubic ones with both handles at two
/// thirds.
fn outline(segments: impl Iterator<Item = PathSegment>, out: &mut String) {
    let mut last = (0.0, 0.0);
    for segment in segments {
        let _ = match segment {
            PathSegment::MoveTo(p) => writeln!(out, "{} {} m", p.x, p.y),
            PathSegment::LineTo(p) => writeln!(out, "{} {} l", p.x, p.y),
            PathSegment::QuadTo(c, p) => {
                let towards = |from: f32, to: f32| from + (to - from) * 2.0 / 3.0;
                let (x1, y1) = (towards(last.0, c.x), towards(last.1, c.y));
                let (x2, y2) = (towards(p.x, c.x), towards(p.y, c.y));
                writeln!(out, "{x1} {y1} {x2} {y2} {} {} c", p.x, p.y)
            }
            PathSegment::CubicTo(a, b, p) => {
                writeln!(out, "{} {} {} {} {} {} c", a.x, a.y, b.x, b.y, p.x, p.y)
            }
            PathSegment::Close => writeln!(out, "h"),
        };
        if let PathSegment::MoveTo(p)
        | PathSegment::LineTo(p)
        | PathSegment::QuadTo(_, p)
        | PathSegment::CubicTo(_, _, p) = segment
        {
            last = (p.x, p.y);
        }
    }
}
