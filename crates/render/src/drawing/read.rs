//! Reads a picture from the SVG that `graph`, `flame` or `timeline` wrote.

use tiny_skia::{Path, PathBuilder, Transform};

use super::markup::{Piece, Pieces, Tag};
use super::style::{Style, numbers};
use super::{Content, Drawing, Item, Line};
use crate::font;

/// A picture that is not ours, or the one that `svg` describes.
pub(crate) fn read(svg: &str) -> Result<Drawing, String> {
    let mut reader = Reader {
        drawing: Drawing { width: 0.0, height: 0.0, items: Vec::new() },
        styles: vec![Style::default()],
        text: None,
    };
    let mut pieces = Pieces::new(svg);
    while let Some(piece) = pieces.next() {
        match piece {
            Piece::Open(tag) if matches!(tag.name, "title" | "style" | "script") => {
                pieces.by_ref().find(|piece| matches!(piece, Piece::Close));
            }
            Piece::Open(tag) => reader.open(&tag)?,
            Piece::Text(text) => reader.text(&text),
            Piece::Close => reader.close(),
        }
    }
    match reader.drawing.width > 0.0 && reader.drawing.height > 0.0 {
        true => Ok(reader.drawing),
        false => Err("it has no size".into()),
    }
}

struct Reader {
    drawing: Drawing,
    /// Those of the elements around this place, from the outermost.
    styles: Vec<Style>,
    /// The place of the line of text whose content comes next.
    text: Option<(f32, f32)>,
}

impl Reader {
    fn open(&mut self, tag: &Tag<'_>) -> Result<(), String> {
        let style = self.styles.last().map(|around| around.of(tag)).unwrap_or_default();
        match tag.name {
            "svg" => {
                let corners: Vec<f32> = numbers(tag.get("viewBox").unwrap_or_default()).collect();
                if let [_, _, width, height] = corners[..] {
                    (self.drawing.width, self.drawing.height) = (width, height);
                }
            }
            "g" => {}
            "text" => self.text = Some((tag.number("x"), tag.number("y"))),
            _ => {
                let path = self.shape(tag)?;
                let (x, y) = style.origin;
                if let Some(path) = path.and_then(|path| path.transform(Transform::from_translate(x, y))) {
                    self.add(Content::Shape(path), &style);
                }
            }
        }
        if !tag.is_empty {
            self.styles.push(style);
        }
        Ok(())
    }

    fn close(&mut self) {
        self.styles.pop();
        self.text = None;
    }

    /// A line of text, in which white space is one space, and none at its ends.
    fn text(&mut self, text: &str) {
        let (Some((x, y)), Some(style)) = (self.text, self.styles.last().cloned()) else { return };
        let is_space = |c: char| matches!(c, ' ' | '\n' | '\t');
        let words: Vec<&str> = text.split(is_space).filter(|word| !word.is_empty()).collect();
        let text = words.join(" ");
        let before = style.anchor * font::width(&text, f64::from(style.font_size)) as f32;
        let (x, y) = (style.origin.0 + x - before, style.origin.1 + y);
        self.add(Content::Text(Line { x, y, size: style.font_size, text }), &style);
    }

    fn add(&mut self, content: Content, style: &Style) {
        if !style.is_hidden {
            self.drawing.items.push(Item { content, fill: style.fill(), stroke: style.stroke() });
        }
    }

    fn shape(&self, tag: &Tag<'_>) -> Result<Option<Path>, String> {
        let points = || numbers(tag.get("points").unwrap_or_default());
        Ok(match tag.name {
            "rect" => self.rectangle(tag),
            "line" => lines([tag.number("x1"), tag.number("y1"), tag.number("x2"), tag.number("y2")], false),
            "polyline" => lines(points(), false),
            "polygon" => lines(points(), true),
            "path" => curves(tag.get("d").unwrap_or_default()),
            other => return Err(format!("unexpected element {other:?}")),
        })
    }

    /// A rectangle, with corners of radius `rx`.
    fn rectangle(&self, tag: &Tag<'_>) -> Option<Path> {
        let length = |name: &str, whole: f32| match tag.get(name) {
            Some("100%") => whole,
            _ => tag.number(name),
        };
        let (width, height) = (length("width", self.drawing.width), length("height", self.drawing.height));
        let (left, top) = (tag.number("x"), tag.number("y"));
        let (right, bottom) = (left + width, top + height);
        let radius = tag.number("rx").min(width / 2.0).min(height / 2.0);
        let mut path = PathBuilder::new();
        if radius <= 0.0 {
            return lines([left, top, right, top, right, bottom, left, bottom], true);
        }
        // Distance of the handles from the corner, with which a cubic curve is close to a circle.
        let handle = radius * (1.0 - 0.552_284_8);
        path.move_to(left + radius, top);
        path.line_to(right - radius, top);
        path.cubic_to(right - handle, top, right, top + handle, right, top + radius);
        path.line_to(right, bottom - radius);
        path.cubic_to(right, bottom - handle, right - handle, bottom, right - radius, bottom);
        path.line_to(left + radius, bottom);
        path.cubic_to(left + handle, bottom, left, bottom - handle, left, bottom - radius);
        path.line_to(left, top + radius);
        path.cubic_to(left, top + handle, left + handle, top, left + radius, top);
        path.close();
        path.finish()
    }
}

/// Straight lines through points, given as coordinates in turn.
fn lines(coordinates: impl IntoIterator<Item = f32>, is_closed: bool) -> Option<Path> {
    let mut path = PathBuilder::new();
    let mut coordinates = coordinates.into_iter();
    while let (Some(x), Some(y)) = (coordinates.next(), coordinates.next()) {
        match path.is_empty() {
            true => path.move_to(x, y),
            false => path.line_to(x, y),
        }
    }
    if is_closed {
        path.close();
    }
    path.finish()
}

/// `M x y`, then cubic curves, each of them `C` with three points.
fn curves(data: &str) -> Option<Path> {
    let mut path = PathBuilder::new();
    let (start, rest) = data.strip_prefix('M')?.split_once('C')?;
    let start: Vec<f32> = numbers(start).collect();
    path.move_to(*start.first()?, *start.get(1)?);
    for curve in rest.split('C') {
        let points: Vec<f32> = numbers(curve).collect();
        let [ax, ay, bx, by, x, y] = points[..] else { return None };
        path.cubic_to(ax, ay, bx, by, x, y);
    }
    path.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn only(svg: &str) -> Item {
        let mut drawing = read(&format!("<svg viewBox=\"0 0 100 50\" font-size=\"10\">{svg}</svg>")).unwrap();
        assert_eq!(drawing.items.len(), 1, "{svg}");
        drawing.items.remove(0)
    }

    fn bounds(item: &Item) -> [f32; 4] {
        let Content::Shape(path) = &item.content else { panic!("no shape") };
        let bounds = path.bounds();
        [bounds.left(), bounds.top(), bounds.right(), bounds.bottom()]
    }

    #[test]
    fn shapes_have_their_places_and_inherit_their_colors() {
        let item = only(
            "<g transform=\"translate(10 5)\" fill=\"#f00\"><rect x=\"1\" y=\"2\" width=\"30\" height=\"4\" rx=\"2\"/></g>",
        );
        assert_eq!(bounds(&item), [11.0, 7.0, 41.0, 11.0]);
        assert_eq!(item.fill.unwrap().color, [255, 0, 0]);
        assert!(item.stroke.is_none());
        let item = only(
            "<rect width=\"100%\" height=\"100%\" fill=\"none\" stroke=\"#000\" stroke-dasharray=\"5 4\"/>",
        );
        assert_eq!(bounds(&item), [0.0, 0.0, 100.0, 50.0]);
        assert!(item.fill.is_none() && item.stroke.unwrap().dashes == [5.0, 4.0]);
        assert_eq!(bounds(&only("<polygon points=\"1,2 3,4 5,0\"/>")), [1.0, 0.0, 5.0, 4.0]);
        assert_eq!(bounds(&only("<path d=\"M0 0C1 0 2 1 2 2C2 3 4 4 6 6\"/>"))[2..], [6.0, 6.0]);
    }

    #[test]
    fn text_is_anchored_and_its_white_space_is_one_space() {
        let item = only("<text x=\"50\" y=\"20\" text-anchor=\"end\"> a  b\n</text>");
        let Content::Text(line) = item.content else { panic!("no text") };
        assert_eq!(line.text, "a b");
        assert!((f64::from(line.x) - (50.0 - font::width("a b", 10.0))).abs() < 0.01);
    }

    #[test]
    fn hidden_elements_are_left_out() {
        let hidden = "<g style=\"display:none\"><rect width=\"1\" height=\"1\"/></g>\
            <text visibility=\"hidden\">a</text><script>b</script><title>c</title>";
        only(&format!("{hidden}<line x2=\"4\" stroke=\"#000\"/>"));
    }
}
