//! Integers of variable length: LEB128, at most ten bytes, and zigzag for signed ones.

/// Longest encoding of a `u64`.
pub const MAX_BYTES: usize = 10;

/// An encoded integer.
#[derive(Debug, Clone, Copy)]
pub struct Varint {
    bytes: [u8; MAX_BYTES],
    len: usize,
}

impl AsRef<[u8]> for Varint {
    fn as_ref(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }
}

/// Encodes `value`, seven bits a byte, least significant first.
#[must_use]
pub fn encode(mut value: u64) -> Varint {
    let mut bytes = [0; MAX_BYTES];
    let mut len = 0;
    for byte in &mut bytes {
        *byte = value as u8 & 0x7f;
        value >>= 7;
        len += 1;
        if value == 0 {
            break;
        }
        *byte |= 0x80;
    }
    Varint { bytes, len }
}

/// Appends `value` to `out`.
#[inline(always)]
pub fn put(out: &mut impl Extend<u8>, value: u64) {
    if value < 0x80 {
        out.extend([value as u8]);
    } else {
        put_long(out, value);
    }
}

#[cold]
#[inline(never)]
fn put_long(out: &mut impl Extend<u8>, value: u64) {
    out.extend(encode(value).as_ref().iter().copied());
}

/// Decodes the integer at `*at` and moves `*at` behind it; `None` when it is cut off or too long.
#[inline]
pub fn decode(bytes: &[u8], at: &mut usize) -> Option<u64> {
    let first = *bytes.get(*at)?;
    *at += 1;
    if first < 0x80 {
        return Some(u64::from(first));
    }
    let mut value = u64::from(first & 0x7f);
    for shift in 1..MAX_BYTES {
        let byte = *bytes.get(*at)?;
        *at += 1;
        value |= u64::from(byte & 0x7f).checked_shl(7 * shift as u32)?;
        if byte < 0x80 {
            return (shift < 9 || byte < 2).then_some(value);
        }
    }
    None
}

/// Maps small magnitudes of either sign to small unsigned numbers.
#[inline]
#[must_use]
pub fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

/// Undoes [`zigzag`].
#[inline]
#[must_use]
pub fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trip_at_every_width() {
        for shift in 0..64 {
            for value in [1u64 << shift, (1 << shift) - 1, u64::MAX >> shift] {
                let encoded = encode(value);
                let mut at = 0;
                assert_eq!(decode(encoded.as_ref(), &mut at), Some(value));
                assert_eq!(at, encoded.as_ref().len());
                for cut in 0..encoded.as_ref().len() {
                    assert_eq!(decode(&encoded.as_ref()[..cut], &mut 0), None);
                }
            }
        }
    }

    #[test]
    fn too_long_is_refused() {
        assert_eq!(decode(&[0x80; 11], &mut 0), None);
        assert_eq!(decode(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02], &mut 0), None);
    }

    #[test]
    fn zigzag_round_trip() {
        for value in [0, 1, -1, 63, -64, i64::MAX, i64::MIN] {
            assert_eq!(unzigzag(zigzag(value)), value);
        }
        assert_eq!([0, -1, 1, -2].map(zigzag), [0, 1, 2, 3]);
    }
}
