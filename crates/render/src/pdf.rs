//! A PDF of one page from a parsed SVG: shapes in solid colors, and text that can be selected; or
//! the same page in PostScript, whose prologue defines the operators of PDF.
//!
//! Only what our own pictures use is drawn: no gradients, images, clips or masks. Glyphs are
//! embedded as Type 3 fonts, whose procedures are plain outlines, so that a file holds the glyphs
//! it shows and nothing else of the font.

mod document;
mod glyphs;

use std::fmt::Write as _;

use resvg::tiny_skia::{PathSegment, Transform};
use resvg::usvg::{Color, Fill, FillRule, Group, LineCap, LineJoin, Node, Paint, Path, Stroke, Text, Tree};

use document::Document;
use glyphs::Glyphs;

/// The PDF of a picture.
pub(crate) fn write(tree: &Tree) -> Vec<u8> {
    let size = tree.size();
    let page = Page::of(tree, Language::Pdf);
    let mut document = Document::default();
    let fonts = page.glyphs.write(&mut document);
    document.finish([size.width(), size.height()], &page.content, &fonts, &page.opacities)
}

/// PDF's operators in PostScript.
const PROLOGUE: &str = "/m{moveto}bind def /l{lineto}bind def /c{curveto}bind def /h{closepath}bind def\n\
    /f{fill}bind def /f*{eofill}bind def /S{stroke}bind def /q{gsave}bind def /Q{grestore}bind def\n\
    /cm{6 array astore concat}bind def /w{setlinewidth}bind def /J{setlinecap}bind def\n\
    /j{setlinejoin}bind def /M{setmiterlimit}bind def /d{setdash}bind def\n\
    /rg{setrgbcolor}bind def /RG{setrgbcolor}bind def\n";

/// The PostScript of a picture: text as outlines, opacity as a lighter color.
pub(crate) fn postscript(tree: &Tree) -> Vec<u8> {
    let page = Page::of(tree, Language::PostScript);
    let (width, height) = (tree.size().width().ceil(), tree.size().height().ceil());
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
    fn of(tree: &Tree, language: Language) -> Self {
        let mut page =
            Self { language, content: String::new(), glyphs: Glyphs::default(), opacities: Vec::new() };
        // Both languages count upwards from the lower edge.
        page.concatenate(Transform::from_row(1.0, 0.0, 0.0, -1.0, 0.0, tree.size().height()));
        page.group(tree.root(), 1.0);
        page
    }

    fn group(&mut self, group: &Group, opacity: f32) {
        let opacity = opacity * group.opacity().get();
        for node in group.children() {
            match node {
                Node::Group(group) => self.group(group, opacity),
                Node::Path(path) if path.is_visible() => self.path(path, opacity, true),
                Node::Text(text) => self.text(text, opacity),
                Node::Path(_) | Node::Image(_) => {}
            }
        }
    }

    fn path(&mut self, path: &Path, opacity: f32, filled: bool) {
        let fill = path.fill().filter(|_| filled);
        let parts = [fill.map(Part::Fill), path.stroke().map(Part::Stroke)];
        for part in parts.into_iter().flatten() {
            let Paint::Color(color) = part.paint() else { continue };
            self.content.push_str("q\n");
            self.concatenate(path.abs_transform());
            let opacity = opacity * part.opacity();
            let color = match self.language {
                Language::Pdf => *color,
                Language::PostScript => on_white(*color, opacity),
            };
            self.opacity(opacity);
            part.prepare(color, &mut self.content);
            outline(path.data().segments(), &mut self.content);
            self.content.push_str(part.operator());
            self.content.push_str("Q\n");
        }
    }

    /// Glyphs are text; strokes around them (halos) are shapes below it.
    fn text(&mut self, text: &Text, opacity: f32) {
        if self.language == Language::PostScript {
            return self.group(text.flattened(), opacity);
        }
        self.halos(text.flattened(), opacity);
        for span in text.layouted().iter().filter(|span| span.visible) {
            let Some(Paint::Color(color)) = span.fill.as_ref().map(Fill::paint) else { continue };
            self.content.push_str("q\n");
            self.concatenate(text.abs_transform());
            self.opacity(opacity * span.fill.as_ref().map_or(1.0, |fill| fill.opacity().get()));
            set_color(*color, "rg", &mut self.content);
            self.content.push_str("BT\n");
            for glyph in &span.positioned_glyphs {
                let (font, code) = self.glyphs.code(glyph.id.0, &glyph.text);
                let transform = glyph.outline_transform();
                let units = self.glyphs.units_per_em();
                let _ = write!(self.content, "/F{font} {units} Tf ");
                matrix(transform, &mut self.content);
                let _ = writeln!(self.content, "Tm <{code:02x}> Tj");
            }
            self.content.push_str("ET\nQ\n");
        }
    }

    fn halos(&mut self, group: &Group, opacity: f32) {
        for node in group.children() {
            match node {
                Node::Group(group) => self.halos(group, opacity * group.opacity().get()),
                Node::Path(path) if path.is_visible() => self.path(path, opacity, false),
                _ => {}
            }
        }
    }

    fn concatenate(&mut self, transform: Transform) {
        if !transform.is_identity() {
            matrix(transform, &mut self.content);
            self.content.push_str("cm\n");
        }
    }

    fn opacity(&mut self, opacity: f32) {
        let thousandths = (opacity.clamp(0.0, 1.0) * 1000.0).round() as u16;
        if thousandths < 1000 && self.language == Language::Pdf {
            let known = self.opacities.iter().position(|known| *known == thousandths);
            let number = known.unwrap_or_else(|| {
                self.opacities.push(thousandths);
                self.opacities.len() - 1
            });
            let _ = writeln!(self.content, "/G{number} gs");
        }
    }
}

/// One way in which a path is painted.
enum Part<'a> {
    Fill(&'a Fill),
    Stroke(&'a Stroke),
}

impl Part<'_> {
    fn paint(&self) -> &Paint {
        match self {
            Part::Fill(fill) => fill.paint(),
            Part::Stroke(stroke) => stroke.paint(),
        }
    }

    fn opacity(&self) -> f32 {
        match self {
            Part::Fill(fill) => fill.opacity().get(),
            Part::Stroke(stroke) => stroke.opacity().get(),
        }
    }

    fn prepare(&self, color: Color, out: &mut String) {
        let Part::Stroke(stroke) = self else { return set_color(color, "rg", out) };
        set_color(color, "RG", out);
        let cap = match stroke.linecap() {
            LineCap::Butt => 0,
            LineCap::Round => 1,
            LineCap::Square => 2,
        };
        let join = match stroke.linejoin() {
            LineJoin::Miter | LineJoin::MiterClip => 0,
            LineJoin::Round => 1,
            LineJoin::Bevel => 2,
        };
        let dashes: Vec<String> = stroke.dasharray().unwrap_or_default().iter().map(f32::to_string).collect();
        let (width, limit) = (stroke.width().get(), stroke.miterlimit().get());
        let (dashes, offset) = (dashes.join(" "), stroke.dashoffset());
        let _ = writeln!(out, "{width} w {cap} J {join} j {limit} M [{dashes}] {offset} d");
    }

    fn operator(&self) -> &'static str {
        match self {
            Part::Fill(fill) if fill.rule() == FillRule::EvenOdd => "f*\n",
            Part::Fill(_) => "f\n",
            Part::Stroke(_) => "S\n",
        }
    }
}

/// The color that results on white paper.
fn on_white(color: Color, opacity: f32) -> Color {
    let mix = |part: u8| (255.0 - (255.0 - f32::from(part)) * opacity.clamp(0.0, 1.0)) as u8;
    Color { red: mix(color.red), green: mix(color.green), blue: mix(color.blue) }
}

fn set_color(color: Color, operator: &str, out: &mut String) {
    let [red, green, blue] = [color.red, color.green, color.blue].map(|part| f32::from(part) / 255.0);
    let _ = writeln!(out, "{red:.4} {green:.4} {blue:.4} {operator}");
}

fn matrix(transform: Transform, out: &mut String) {
    let Transform { sx, ky, kx, sy, tx, ty } = transform;
    let _ = write!(out, "{sx} {ky} {kx} {sy} {tx} {ty} ");
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
