//! Colors, lines and font sizes, which an element inherits from the one around it.

use super::markup::Tag;
use super::{Ink, Stroke};

/// The style of an element.
#[derive(Clone)]
pub(super) struct Style {
    fill: Option<[u8; 3]>,
    fill_opacity: f32,
    stroke: Option<[u8; 3]>,
    stroke_opacity: f32,
    stroke_width: f32,
    dashes: Vec<f32>,
    pub(super) font_size: f32,
    /// Part of a line of text that lies before its place: 0, 0.5 or 1.
    pub(super) anchor: f32,
    pub(super) is_hidden: bool,
    /// Where its coordinates start.
    pub(super) origin: (f32, f32),
}

impl Default for Style {
    fn default() -> Self {
        Self {
            fill: Some([0; 3]),
            fill_opacity: 1.0,
            stroke: None,
            stroke_opacity: 1.0,
            stroke_width: 1.0,
            dashes: Vec::new(),
            font_size: 16.0,
            anchor: 0.0,
            is_hidden: false,
            origin: (0.0, 0.0),
        }
    }
}

impl Style {
    /// The style of an element inside one of this style.
    pub(super) fn of(&self, tag: &Tag<'_>) -> Self {
        let mut style = self.clone();
        let number = |name: &str, inherited: f32| {
            tag.get(name).and_then(|value| value.parse().ok()).unwrap_or(inherited)
        };
        style.fill_opacity = number("fill-opacity", self.fill_opacity);
        style.stroke_opacity = number("stroke-opacity", self.stroke_opacity);
        style.stroke_width = number("stroke-width", self.stroke_width);
        style.font_size = number("font-size", self.font_size);
        if let Some(value) = tag.get("fill") {
            style.fill = color(value);
        }
        if let Some(value) = tag.get("stroke") {
            style.stroke = color(value);
        }
        if let Some(value) = tag.get("stroke-dasharray") {
            style.dashes = numbers(value).collect();
        }
        if let Some(value) = tag.get("text-anchor") {
            style.anchor = match value {
                "middle" => 0.5,
                "end" => 1.0,
                _ => 0.0,
            };
        }
        style.is_hidden |=
            tag.get("visibility") == Some("hidden") || tag.get("style") == Some("display:none");
        let distance = tag.get("transform").and_then(|value| value.strip_prefix("translate("));
        if let Some(distance) = distance.and_then(|value| value.strip_suffix(')')) {
            let mut axes = numbers(distance);
            style.origin.0 += axes.next().unwrap_or(0.0);
            style.origin.1 += axes.next().unwrap_or(0.0);
        }
        style
    }

    pub(super) fn fill(&self) -> Option<Ink> {
        self.fill.map(|color| Ink { color, opacity: self.fill_opacity.clamp(0.0, 1.0) })
    }

    pub(super) fn stroke(&self) -> Option<Stroke> {
        let ink = |color| Ink { color, opacity: self.stroke_opacity.clamp(0.0, 1.0) };
        let stroke =
            |color| Stroke { ink: ink(color), width: self.stroke_width, dashes: self.dashes.clone() };
        self.stroke.map(stroke)
    }
}

/// Numbers between spaces and commas.
pub(super) fn numbers(text: &str) -> impl Iterator<Item = f32> {
    text.split([' ', ',']).filter_map(|number| number.parse().ok())
}

/// `#rgb` or `#rrggbb`; `None` for `none`.
fn color(text: &str) -> Option<[u8; 3]> {
    let digits = text.strip_prefix('#')?;
    let number = u32::from_str_radix(digits, 16).ok()?;
    let parts = match digits.len() {
        3 => [number >> 8, number >> 4, number].map(|part| (part & 0xf) * 0x11),
        _ => [number >> 16, number >> 8, number],
    };
    Some(parts.map(|part| part as u8))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colors() {
        assert_eq!([color("#fb07"), color("#1d2"), color("none")][1..], [Some([0x11, 0xdd, 0x22]), None]);
        assert_eq!(color("#fbb07e"), Some([0xfb, 0xb0, 0x7e]));
    }
}
