//! Logarithm and exponential: `core` has none, and the probe links no libm.

/// Natural logarithm of a number in `(0, 1]`, to about 1e-9.
pub(crate) fn ln(x: f64) -> f64 {
    const MANTISSA: u64 = (1 << 52) - 1;
    let bits = x.to_bits();
    let mut exponent = (bits >> 52) as i64 - 1023;
    let mut mantissa = f64::from_bits(bits & MANTISSA | 1023 << 52);
    if mantissa > core::f64::consts::SQRT_2 {
        mantissa /= 2.0;
        exponent += 1;
    }
    // ln m = 2 artanh((m - 1) / (m + 1)); the argument is below 0.18.
    let s = (mantissa - 1.0) / (mantissa + 1.0);
    let odd = [1.0, 1.0 / 3.0, 1.0 / 5.0, 1.0 / 7.0, 1.0 / 9.0, 1.0 / 11.0];
    exponent as f64 * core::f64::consts::LN_2 + 2.0 * s * polynomial(&odd, s * s)
}

/// `1 - e^-x` for `x >= 0`, to about 1e-9 relative.
pub(crate) fn one_minus_exp(x: f64) -> f64 {
    if x > 40.0 {
        return 1.0;
    }
    if x < 0.35 {
        return x * polynomial(&EXP_MINUS_1, -x);
    }
    // e^-x = 2^-n e^-r, with r within ln 2 / 2 of zero.
    let n = (x * core::f64::consts::LOG2_E + 0.5) as u64;
    let r = x - n as f64 * core::f64::consts::LN_2;
    1.0 - polynomial(&EXP, -r) * f64::from_bits((1023 - n) << 52)
}

/// Coefficients of the series of `e^x`, and of `(e^x - 1) / x`.
const EXP: [f64; 10] = inverse_factorials(0);
const EXP_MINUS_1: [f64; 9] = inverse_factorials(1);

/// `1/n!`, from `first` (0 or 1) on.
const fn inverse_factorials<const N: usize>(first: usize) -> [f64; N] {
    let (mut series, mut n) = ([1.0; N], 1);
    while n < N {
        series[n] = series[n - 1] / (n + first) as f64;
        n += 1;
    }
    series
}

/// `c[0] + c[1] x + c[2] x² ...`, in powers of `x²`: each addition waits for the one before.
#[inline(always)]
fn polynomial<const N: usize>(coefficients: &[f64; N], x: f64) -> f64 {
    let pair = |pair: &[f64]| pair[0] + pair.get(1).map_or(0.0, |second| second * x);
    coefficients.chunks(2).rev().fold(0.0, |sum, coefficients| sum * (x * x) + pair(coefficients))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_libm() {
        for x in [1e-16, 1e-9, 0.001, 0.1, 0.3, 0.5, 0.707, 0.708, 0.75, 0.999_999, 1.0_f64] {
            assert!((ln(x) - x.ln()).abs() < 1e-8 * (1.0 + x.ln().abs()), "ln {x}");
        }
        for x in
            [0.0, 1e-9, 1e-4, 0.01, 0.3, 0.349, 0.351, 0.5, 0.693, 0.694, 1.0, 5.0, 30.0, 40.0, 100.0_f64]
        {
            let expected = -(-x).exp_m1();
            assert!((one_minus_exp(x) - expected).abs() <= 1e-8 * expected, "1-e^-{x}");
        }
    }
}
