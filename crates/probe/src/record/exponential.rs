//! Logarithm and exponential: `core` has none, and the probe links no libm.

/// Natural logarithm of a number in `(0, 1]`, to about 1e-9. Without branches: half of them would
/// be mispredicted.
pub(crate) fn ln(x: f64) -> f64 {
    let exponent = x.to_bits().wrapping_sub(SQRT_HALF) as i64 >> 52;
    // Between the roots of 1/2 and of 2.
    let mantissa = f64::from_bits(x.to_bits().wrapping_sub((exponent << 52) as u64));
    // ln m = 2 artanh((m - 1) / (m + 1)); the argument is below 0.18.
    let s = (mantissa - 1.0) / (mantissa + 1.0);
    let odd = [1.0, 1.0 / 3.0, 1.0 / 5.0, 1.0 / 7.0, 1.0 / 9.0, 1.0 / 11.0];
    exponent as f64 * core::f64::consts::LN_2 + 2.0 * s * polynomial(&odd, s * s)
}

/// The root of 1/2, as bits.
const SQRT_HALF: u64 = core::f64::consts::FRAC_1_SQRT_2.to_bits();

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
        for x in [1e-16, 1e-9, 0.001, 0.1, 0.3, 0.5, 0.707, 0.708, 0.75, 0.999_999, 1.0_f64] {
            assert!((ln(x) - x.ln()).abs() < 1e-8 * (1.0 + x.ln().abs()), "ln {x}");
        }
        for x in [1e-9, 1e-4, 0.01, 0.3, 0.5, 0.999, 1.0, 1.03, 1.04, 5.0, 20.9, 21.1, 40.0, 1e6_f64] {
            let expected = -1.0 / (-x).exp_m1();
            assert!((inverse_probability(x * 512.0, 512.0) - expected).abs() <= 1e-8 * expected, "{x}");
        }
    }
}
