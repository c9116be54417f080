//! Colours by share, by change and by name. Blue and orange stay apart for every eye.

/// A colour as `#rrggbb`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Colour(pub(crate) [f64; 3]);

impl std::fmt::Display for Colour {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [r, g, b] = self.0.map(|part| part.round().clamp(0.0, 255.0) as u8);
        write!(out, "#{r:02x}{g:02x}{b:02x}")
    }
}

/// Between two colours; `share` from 0 to 1.
pub(crate) fn mix(from: [u8; 3], to: [u8; 3], share: f64) -> Colour {
    let share = share.clamp(0.0, 1.0);
    let part = |at: usize| f64::from(from[at]) * (1.0 - share) + f64::from(to[at]) * share;
    Colour([part(0), part(1), part(2)])
}

const NEUTRAL: [u8; 3] = [0xf3, 0xf2, 0xee];
const WARM: [u8; 3] = [0xfb, 0xb0, 0x7e];
const COLD: [u8; 3] = [0x8f, 0xbd, 0xe6];
const LINE: [u8; 3] = [0xa8, 0xa4, 0x9c];
const STRONG_LINE: [u8; 3] = [0x9e, 0x33, 0x14];
const STRONG_COLD_LINE: [u8; 3] = [0x12, 0x50, 0x86];

/// Fill of a box that holds this signed share of the whole.
pub(crate) fn fill(share: f64) -> Colour {
    mix(NEUTRAL, if share < 0.0 { COLD } else { WARM }, share.abs().sqrt())
}

/// Line that carries this signed share of the whole.
pub(crate) fn line(share: f64) -> Colour {
    mix(LINE, if share < 0.0 { STRONG_COLD_LINE } else { STRONG_LINE }, share.abs().powf(0.6))
}
