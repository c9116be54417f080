//! One of our own pictures, read from its SVG: shapes and lines of text with their colors. The
//! source of PNG, PDF and PostScript.

mod markup;
mod read;
mod style;

use tiny_skia::{Path, PathBuilder};

use crate::font::{Glyph, font};

pub(crate) use read::read;

/// A picture.
pub(crate) struct Drawing {
    pub(crate) width: f32,
    pub(crate) height: f32,
    /// From the lowest to the topmost.
    pub(crate) items: Vec<Item>,
}

/// A shape or a line of text.
pub(crate) struct Item {
    pub(crate) content: Content,
    pub(crate) fill: Option<Ink>,
    pub(crate) stroke: Option<Stroke>,
}

/// What is painted.
pub(crate) enum Content {
    /// The stroke is painted over the fill.
    Shape(Path),
    /// The stroke is painted below the fill: a halo that keeps the text readable.
    Text(Line),
}

/// A color and its opacity.
#[derive(Clone, Copy)]
pub(crate) struct Ink {
    pub(crate) color: [u8; 3],
    /// From 0 to 1.
    pub(crate) opacity: f32,
}

/// How an outline is painted.
#[derive(Clone)]
pub(crate) struct Stroke {
    pub(crate) ink: Ink,
    pub(crate) width: f32,
    /// Lengths of dashes and gaps in turn; none for a solid line.
    pub(crate) dashes: Vec<f32>,
}

/// A line of text.
pub(crate) struct Line {
    /// Start of the baseline.
    pub(crate) x: f32,
    pub(crate) y: f32,
    pub(crate) size: f32,
    pub(crate) text: String,
}

impl Line {
    /// Size of a unit of the font's grid.
    pub(crate) fn scale(&self) -> f32 {
        self.size / font().units_per_em
    }

    /// The characters with the glyph of each, its number and where it starts.
    pub(crate) fn glyphs(&self) -> impl Iterator<Item = (char, usize, &'static Glyph, f32)> {
        let mut x = self.x;
        self.text.chars().map(move |c| {
            let number = font().glyph(c);
            let glyph = font().outline_of(number);
            let start = x;
            x += glyph.width * self.scale();
            (c, number, glyph, start)
        })
    }

    /// The outlines of all glyphs; `None` where nothing is visible.
    pub(crate) fn outline(&self) -> Option<Path> {
        let mut path = PathBuilder::new();
        let scale = self.scale();
        for (_, _, glyph, start) in self.glyphs() {
            glyph.draw(&mut path, |x, y| (start + x * scale, self.y - y * scale));
        }
        path.finish()
    }
}
