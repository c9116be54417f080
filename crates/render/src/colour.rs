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
/// A warm to green hue that depends only on the name, light enough for black text.
pub(crate) fn of_name(name: &str) -> Colour {
    // FNV-1a; any hash does, but pictures must not change between runs.
    let hash =
        name.bytes().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    let hue = f64::from(hash >> 16 & 0xff) / 255.0;
    let light = f64::from(hash >> 8 & 0xff) / 255.0;
    mix([0xf7, 0xb3, 0x6b], [0xf4, 0xd9, 0x7c], hue).lighter(light * 0.35)
}

/// A hue of the whole circle for a module, far from its neighbours' for the first few.
pub(crate) fn of_module(index: usize) -> Colour {
    const WHEEL: [[u8; 3]; 10] = [
        [0xf6, 0xbd, 0x8a],
        [0x9c, 0xc8, 0xe8],
        [0xb7, 0xd8, 0x9a],
        [0xe7, 0xb3, 0xd4],
        [0xf3, 0xdc, 0x86],
        [0xb9, 0xb4, 0xe6],
        [0x9a, 0xd9, 0xcb],
        [0xf1, 0xa9, 0xa3],
        [0xd3, 0xc3, 0xa6],
        [0xc4, 0xcc, 0xd4],
    ];
    let [r, g, b] = WHEEL[index % WHEEL.len()];
    Colour([f64::from(r), f64::from(g), f64::from(b)])
}

/// A box that changed by this share of the larger of its two sides, from −1 to 1.
pub(crate) fn of_change(share: f64) -> Colour {
    fill(share)
}

impl Colour {
    fn lighter(self, share: f64) -> Colour {
        Colour(self.0.map(|part| part + (255.0 - part) * share))
    }
}
