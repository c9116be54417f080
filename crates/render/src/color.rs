//! Colors by share and by hue. Blue and orange can be distinguished by every kind of color vision.

/// A color as `#rrggbb`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Color(pub(crate) [f64; 3]);

impl std::fmt::Display for Color {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [r, g, b] = self.0.map(|part| part.round().clamp(0.0, 255.0) as u8);
        write!(out, "#{r:02x}{g:02x}{b:02x}")
    }
}

/// Between two colors; `share` from 0 to 1.
pub(crate) fn mix(from: [u8; 3], to: [u8; 3], share: f64) -> Color {
    let share = share.clamp(0.0, 1.0);
    let part = |at: usize| f64::from(from[at]) * (1.0 - share) + f64::from(to[at]) * share;
    Color([part(0), part(1), part(2)])
}

const NEUTRAL: [u8; 3] = [0xf3, 0xf2, 0xee];
const WARM: [u8; 3] = [0xfb, 0xb0, 0x7e];
const COLD: [u8; 3] = [0x8f, 0xbd, 0xe6];
const LINE: [u8; 3] = [0xa8, 0xa4, 0x9c];
const STRONG_LINE: [u8; 3] = [0x9e, 0x33, 0x14];
const STRONG_COLD_LINE: [u8; 3] = [0x12, 0x50, 0x86];

/// Fill of a box that holds this signed share of the whole.
pub(crate) fn fill(share: f64) -> Color {
    mix(NEUTRAL, if share < 0.0 { COLD } else { WARM }, share.abs().sqrt())
}

/// Line that carries this signed share of the whole.
pub(crate) fn line(share: f64) -> Color {
    mix(LINE, if share < 0.0 { STRONG_COLD_LINE } else { STRONG_LINE }, share.abs().powf(0.6))
}

/// A color by hue (degrees), saturation and lightness (percent), as CSS `hsl()` defines it.
pub(crate) fn hsl(hue: f64, saturation: f64, lightness: f64) -> Color {
    let (saturation, lightness) = (saturation / 100.0, lightness / 100.0);
    let chroma = saturation * lightness.min(1.0 - lightness);
    let part = |offset: f64| {
        let k = (offset + hue / 30.0) % 12.0;
        255.0 * (lightness - chroma * (k - 3.0).min(9.0 - k).clamp(-1.0, 1.0))
    };
    Color([part(0.0), part(8.0), part(4.0)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hsl_is_that_of_css() {
        for (hue, color) in [(0.0, "#ff0000"), (120.0, "#00ff00"), (240.0, "#0000ff"), (28.0, "#ff7700")] {
            assert_eq!(hsl(hue, 100.0, 50.0).to_string(), color);
        }
        assert_eq!(hsl(210.0, 0.0, 50.0).to_string(), "#808080");
    }
}
