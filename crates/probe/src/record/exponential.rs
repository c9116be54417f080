//! The exponential distribution: `core` has no logarithm, and the probe links no libm.

/// A number of the exponential distribution with mean 1, from random bits: `-ln u`, to about 1e-10,
/// for the `u` in `(0, 1)` that the bits are the binary digits of. Without a division or a branch:
/// the next sample waits for it.
pub(crate) fn exponential(bits: u64) -> f64 {
    // u = 2^-(zeros + 1) m, with m between 1 and 2.
    let bits = bits | 1;
    let zeros = bits.leading_zeros();
    let digits = bits << zeros << 1;
    let m = f64::from_bits(1.0_f64.to_bits() | digits >> 12);
    let Piece { inverse, ln } = PIECES[(digits >> (u64::BITS - PIECE_BITS)) as usize];
    // ln m = ln c + ln (1 + r), where c is the middle of the piece, and r is below 2^-8.
    let r = m * inverse - 1.0;
    let below = r - r * r * (0.5 - r * (1.0 / 3.0));
    // Near 1, the error may be larger than the result.
    ((zeros + 1) as f64 * core::f64::consts::LN_2 - ln - below).max(0.0)
}

/// A piece of the numbers between 1 and 2.
#[derive(Clone, Copy)]
struct Piece {
    /// Of its middle: the inverse and the logarithm.
    inverse: f64,
    ln: f64,
}

const PIECE_BITS: u32 = 7;
static PIECES: [Piece; 1 << PIECE_BITS] = pieces();

const fn pieces() -> [Piece; 1 << PIECE_BITS] {
    let mut pieces = [Piece { inverse: 0.0, ln: 0.0 }; 1 << PIECE_BITS];
    let mut index = 0;
    while index < pieces.len() {
        let middle = 1.0 + (index as f64 + 0.5) / pieces.len() as f64;
        pieces[index] = Piece { inverse: 1.0 / middle, ln: ln(middle) };
        index += 1;
    }
    pieces
}

/// Natural logarithm of a number between 1 and 2, by the series of `2 artanh((x - 1) / (x + 1))`.
const fn ln(x: f64) -> f64 {
    let s = (x - 1.0) / (x + 1.0);
    let (mut sum, mut power, mut n) = (0.0, s, 1);
    while n < 40 {
        sum += power / n as f64;
        power *= s * s;
        n += 2;
    }
    2.0 * sum
}

/// `1 / (1 - e^-x)` for `x = size / rate`, to about 1e-9 relative.
pub(crate) fn inverse_probability(size: f64, rate: f64) -> f64 {
    let x = size / rate;
    if x < 1.0 {
        // 1/x + 1/2 + x/12 - x³/720 + …; `rate / size` does not wait for x.
        return rate / size + 0.5 + x * polynomial(&ODD, x * x);
    }
    if x > 21.0 {
        return 1.0;
    }
    // e^-x = 2^-n e^-r, with r within ln 2 / 2 of zero. Adding ROUND leaves n in the lowest bits.
    let shifted = x * core::f64::consts::LOG2_E + ROUND;
    let r = x - (shifted - ROUND) * core::f64::consts::LN_2;
    let power = f64::from_bits(1023_u64.wrapping_sub(shifted.to_bits() & 0xff) << 52);
    1.0 / (1.0 - polynomial(&EXP, -r) * power)
}

/// Coefficients of the odd powers of `1 / (1 - e^-x)`.
const ODD: [f64; 5] = [1.0 / 12.0, -1.0 / 720.0, 1.0 / 30240.0, -1.0 / 1_209_600.0, 1.0 / 47_900_160.0];
/// Coefficients of the series of `e^x`.
const EXP: [f64; 9] = inverse_factorials();
/// A number whose neighbours are 1 apart.
const ROUND: f64 = (3_u64 << 51) as f64;

/// `1/n!`.
const fn inverse_factorials<const N: usize>() -> [f64; N] {
    let (mut series, mut n) = ([1.0; N], 1);
    while n < N {
        series[n] = series[n - 1] / n as f64;
        n += 1;
    }
    series
}

/// `c[0] + c[1] x + c[2] x² ...`, in powers of `x²`: each addition waits for the one before.
#[inline(always)]
fn polynomial<const N: usize>(coefficients: &[f64; N], x: f64) -> f64 {
    let pair = |pair: &[f64]| pair[0] + pair.get(1).map_or(0.0, |second| second * x);
    let pairs = coefficients.chunks(2).rev().map(pair);
    pairs.reduce(|sum, pair| sum * (x * x) + pair).unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_libm() {
        for u in [1e-16, 1e-9, 0.001, 0.1, 0.3, 0.5, 0.501, 0.707, 0.75, 0.996, 0.999_999_f64] {
            let bits = (u * 2.0_f64.powi(64)) as u64 | 1;
            let expected = -(bits as f64 / 2.0_f64.powi(64)).ln();
            assert!((exponential(bits) - expected).abs() < 1e-10, "{u}");
        }
        assert!(exponential(u64::MAX) >= 0.0 && exponential(0) < 45.0);
        for x in [1e-9, 1e-4, 0.01, 0.3, 0.5, 0.999, 1.0, 1.03, 1.04, 5.0, 20.9, 21.1, 40.0, 1e6_f64] {
            let expected = -1.0 / (-x).exp_m1();
            assert!((inverse_probability(x * 512.0, 512.0) - expected).abs() <= 1e-8 * expected, "{x}");
        }
    }
}
