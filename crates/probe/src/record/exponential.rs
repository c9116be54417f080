//! Logarithm and exponential: `core` has none, and the probe links no libm.

/// Natural logarithm of a number in `(0, 1]`, to about 1e-9.
pub(crate) fn ln(x: f64) -> f64 {
    const MANTISSA: u64 = (1 << 52) - 1;
    let bits = x.to_bits();
    let exponent = (bits >> 52) as i64 - 1023;
    let mantissa = f64::from_bits(bits & MANTISSA | 1023 << 52);
    // ln m = 2 artanh((m - 1) / (m + 1)); the argument is at most 1/3.
    let s = (mantissa - 1.0) / (mantissa + 1.0);
    let square = s * s;
    let (mut power, mut sum) = (s, 0.0);
    for odd in [1.0, 3.0, 5.0, 7.0, 9.0, 11.0, 13.0, 15.0, 17.0] {
        sum += power / odd;
        power *= square;
    }
    exponent as f64 * core::f64::consts::LN_2 + 2.0 * sum
}

/// `1 - e^-x` for `x >= 0`, to about 1e-9 relative.
pub(crate) fn one_minus_exp(x: f64) -> f64 {
    if x > 40.0 {
        return 1.0;
    }
    // 1 - e^-2y = (1 - e^-y)(2 - (1 - e^-y)): halve until the series is short, then double back.
    let mut halvings = 0;
    let mut y = x;
    while y > 0.05 {
        y /= 2.0;
        halvings += 1;
    }
    let mut result = y * (1.0 - y / 2.0 * (1.0 - y / 3.0 * (1.0 - y / 4.0 * (1.0 - y / 5.0))));
    for _ in 0..halvings {
        result *= 2.0 - result;
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_libm() {
        for x in [1e-16, 1e-9, 0.001, 0.1, 0.3, 0.5, 0.999_999, 1.0_f64] {
            assert!((ln(x) - x.ln()).abs() < 1e-8 * (1.0 + x.ln().abs()), "ln {x}");
        }
        for x in [0.0, 1e-9, 1e-4, 0.01, 0.3, 1.0, 5.0, 30.0, 100.0_f64] {
            let expected = -(-x).exp_m1();
            assert!((one_minus_exp(x) - expected).abs() <= 1e-8 * expected, "1-e^-{x}");
        }
    }
}
