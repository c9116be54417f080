//! PNG, PDF and PostScript from our own SVG, with our own font.

mod png;

use std::fmt;

use tiny_skia::{Color, FillRule, Paint, Path, Pixmap, Shader, Stroke, StrokeDash, Transform};

use crate::drawing::{self, Content, Drawing, Ink, Item};

/// Why a picture could not be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RasterError {
    /// Not a picture this renderer understands.
    Svg(String),
    /// More pixels than fit in memory.
    TooLarge {
        /// Width in pixels.
        width: u32,
        /// Height in pixels.
        height: u32,
    },
    /// The encoder failed.
    Encode(String),
}

impl fmt::Display for RasterError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Svg(why) => write!(out, "cannot read the SVG: {why}"),
            Self::TooLarge { width, height } => {
                write!(out, "a picture of {width}×{height} pixels is too large; use -n or SVG")
            }
            Self::Encode(why) => write!(out, "cannot encode the picture: {why}"),
        }
    }
}

impl std::error::Error for RasterError {}

/// Pixels of a picture: 16 000 × 16 000, one gigabyte while it is drawn.
const MAX_PIXELS: u64 = 256_000_000;

fn read(svg: &str) -> Result<Drawing, RasterError> {
    drawing::read(svg).map_err(RasterError::Svg)
}

/// A PNG with `scale` pixels per unit of the SVG.
///
/// # Errors
/// When the SVG is not ours, or the picture too large.
pub fn png(svg: &str, scale: f32) -> Result<Vec<u8>, RasterError> {
    let drawing = read(svg)?;
    let (width, height) = ((drawing.width * scale).ceil() as u32, (drawing.height * scale).ceil() as u32);
    let too_large = RasterError::TooLarge { width, height };
    if u64::from(width) * u64::from(height) > MAX_PIXELS {
        return Err(too_large);
    }
    let mut canvas = Canvas {
        pixels: Pixmap::new(width, height).ok_or(too_large)?,
        to_pixels: Transform::from_scale(scale, scale),
    };
    for item in &drawing.items {
        canvas.draw(item);
    }
    png::encode(&canvas.pixels).map_err(|error| RasterError::Encode(error.to_string()))
}

/// Pixels, and what maps a drawing to them.
struct Canvas {
    pixels: Pixmap,
    to_pixels: Transform,
}

impl Canvas {
    fn draw(&mut self, item: &Item) {
        match &item.content {
            Content::Shape(path) => {
                self.fill(path, item);
                self.stroke(path, item);
            }
            Content::Text(line) => {
                if let Some(path) = line.outline() {
                    self.stroke(&path, item);
                    self.fill(&path, item);
                }
            }
        }
    }

    fn fill(&mut self, path: &Path, item: &Item) {
        if let Some(ink) = item.fill {
            self.pixels.fill_path(path, &paint(ink), FillRule::Winding, self.to_pixels, None);
        }
    }

    fn stroke(&mut self, path: &Path, item: &Item) {
        if let Some(stroke) = &item.stroke {
            let dash = StrokeDash::new(stroke.dashes.clone(), 0.0);
            let pen = Stroke { width: stroke.width, dash, ..Stroke::default() };
            self.pixels.stroke_path(path, &paint(stroke.ink), &pen, self.to_pixels, None);
        }
    }
}

fn paint(ink: Ink) -> Paint<'static> {
    let [red, green, blue] = ink.color;
    let color = Color::from_rgba8(red, green, blue, (ink.opacity * 255.0).round() as u8);
    Paint { shader: Shader::SolidColor(color), anti_alias: true, ..Paint::default() }
}

/// A PDF of one page, with text that can be selected.
///
/// # Errors
/// When the SVG is not ours.
pub fn pdf(svg: &str) -> Result<Vec<u8>, RasterError> {
    Ok(crate::pdf::write(&read(svg)?))
}

/// The same page in PostScript.
///
/// # Errors
/// When the SVG is not ours.
pub fn postscript(svg: &str) -> Result<Vec<u8>, RasterError> {
    Ok(crate::pdf::postscript(&read(svg)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 40 20\">\
        <text x=\"2\" y=\"15\" font-family=\"DejaVu Sans, Verdana, sans-serif\">mmm</text></svg>";

    #[test]
    fn a_png_of_the_size_asked_for_with_its_text() {
        let bytes = png(TEXT, 2.0).unwrap();
        let pixels = Pixmap::decode_png(&bytes).unwrap();
        assert_eq!((pixels.width(), pixels.height()), (80, 40));
        // A family that is not found would leave the picture empty, without an error.
        assert!(pixels.pixels().iter().any(|pixel| pixel.alpha() > 200));
    }

    #[test]
    fn a_pdf_with_the_font_inside() {
        let bytes = pdf(TEXT).unwrap();
        assert!(bytes.starts_with(b"%PDF-"));
        assert!(bytes.windows(6).any(|window| window == b"DejaVu"));
    }

    #[test]
    fn postscript_with_its_text_as_outlines() {
        let text = String::from_utf8(postscript(TEXT).unwrap()).unwrap();
        assert!(
            text.starts_with("%!PS-Adobe-3.0\n") && text.contains("%%BoundingBox: 0 0 40 20\n"),
            "{text}"
        );
        assert!(text.contains(" m\n") && text.contains("\nf\n") && text.ends_with("showpage\n%%EOF\n"));
        assert!(!text.contains("Tj") && !text.contains(" gs"));
    }

    #[test]
    fn errors_say_what_to_do() {
        assert!(matches!(png("<html/>", 1.0), Err(RasterError::Svg(_))));
        let error = png(TEXT, 100_000.0).unwrap_err();
        assert_eq!(error.to_string(), "a picture of 4000000×2000000 pixels is too large; use -n or SVG");
    }
}
