//! HPACK (RFC 7541), as far as a client needs it that allows no dynamic table.
//!
//! Requests are literals without indexing. Responses may use the static table and Huffman codes;
//! the client's settings forbid the dynamic table.

/// A header that could not be decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Malformed;

/// A header name and its value.
pub(crate) type Field = (String, String);

/// Appends one header: a literal without indexing, without Huffman codes.
pub(crate) fn encode(name: &str, value: &str, block: &mut Vec<u8>) {
    block.push(0);
    for text in [name, value] {
        put_integer(text.len(), 7, 0, block);
        block.extend_from_slice(text.as_bytes());
    }
}

/// Appends an integer with a prefix of `bits`.
fn put_integer(value: usize, bits: u32, flags: u8, out: &mut Vec<u8>) {
    let most = (1 << bits) - 1;
    if value < most {
        out.push(flags | value as u8);
        return;
    }
    out.push(flags | most as u8);
    let mut rest = value - most;
    while rest >= 128 {
        out.push(rest as u8 | 128);
        rest >>= 7;
    }
    out.push(rest as u8);
}

/// Decodes a whole header block.
pub(crate) fn decode(block: &[u8]) -> Result<Vec<Field>, Malformed> {
    let mut input = Input { rest: block };
    let mut fields = Vec::new();
    while let Some(first) = input.rest.first().copied() {
        match first {
            // Indexed field.
            0x80.. => {
                let index = input.integer(7)?;
                let (name, value) = STATIC.get(index.wrapping_sub(1)).ok_or(Malformed)?;
                fields.push(((*name).to_owned(), (*value).to_owned()));
            }
            // The size of the dynamic table: 0 is the only one allowed.
            0x20..0x40 => {
                if input.integer(5)? != 0 {
                    return Err(Malformed);
                }
            }
            _ => {
                let bits = if first >= 0x40 { 6 } else { 4 };
                let name = match input.integer(bits)? {
                    0 => input.text()?,
                    index => STATIC.get(index - 1).ok_or(Malformed)?.0.to_owned(),
                };
                fields.push((name, input.text()?));
            }
        }
    }
    Ok(fields)
}

struct Input<'a> {
    rest: &'a [u8],
}

impl Input<'_> {
    fn byte(&mut self) -> Result<u8, Malformed> {
        let (first, rest) = self.rest.split_first().ok_or(Malformed)?;
        self.rest = rest;
        Ok(*first)
    }

    /// An integer with a prefix of `bits`; at most 28 bits more.
    fn integer(&mut self, bits: u32) -> Result<usize, Malformed> {
        let most = (1usize << bits) - 1;
        let value = usize::from(self.byte()?) & most;
        if value < most {
            return Ok(value);
        }
        let mut sum = most;
        for shift in [0, 7, 14, 21] {
            let byte = usize::from(self.byte()?);
            sum += (byte & 127) << shift;
            if byte < 128 {
                return Ok(sum);
            }
        }
        Err(Malformed)
    }

    fn text(&mut self) -> Result<String, Malformed> {
        let is_huffman = self.rest.first().ok_or(Malformed)? & 128 != 0;
        let length = self.integer(7)?;
        let bytes = self.rest.get(..length).ok_or(Malformed)?;
        self.rest = &self.rest[length..];
        let bytes = if is_huffman { huffman(bytes)? } else { bytes.to_vec() };
        String::from_utf8(bytes).map_err(|_| Malformed)
    }
}

/// Decodes a string of Huffman codes. The code is canonical: codes of one length are consecutive,
/// in the order of their symbols, so that the lengths alone define it.
fn huffman(bytes: &[u8]) -> Result<Vec<u8>, Malformed> {
    let mut order: Vec<usize> = (0..CODE_LENGTHS.len()).collect();
    order.sort_by_key(|symbol| (CODE_LENGTHS[*symbol], *symbol));
    let mut out = Vec::new();
    let (mut code, mut length) = (0u32, 0u8);
    // First code of the current length, and its place in `order`.
    let (mut first, mut place) = (0u32, 0usize);
    for bit in bytes.iter().flat_map(|byte| (0..8).rev().map(move |at| byte >> at & 1)) {
        (code, length) = (code << 1 | u32::from(bit), length + 1);
        first <<= 1;
        let count = order[place..].iter().take_while(|symbol| CODE_LENGTHS[**symbol] == length).count();
        if let Some(at) = code.checked_sub(first).map(|at| at as usize).filter(|at| *at < count) {
            out.push(u8::try_from(order[place + at]).map_err(|_| Malformed)?);
            (code, length, first, place) = (0, 0, 0, 0);
        } else {
            (first, place) = (first + count as u32, place + count);
            if length >= 30 {
                return Err(Malformed);
            }
        }
    }
    // The rest of the last byte is the beginning of the longest code: ones.
    let is_padding = length < 8 && code == (1 << length) - 1;
    if is_padding { Ok(out) } else { Err(Malformed) }
}

/// Bits of the Huffman code of each byte, and of the end of a string (RFC 7541, appendix B).
const CODE_LENGTHS: [u8; 257] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 30, 28, 28, 28,
    28, 28, 28, 28, 28, 28, 6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6, 5, 5, 5, 6, 6, 6, 6, 6,
    6, 6, 7, 8, 15, 6, 12, 10, 13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 8, 7,
    8, 13, 19, 13, 14, 6, 15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5, 6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7,
    15, 11, 14, 13, 28, 20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23, 24, 24, 22, 23, 24,
    23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24, 22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23,
    23, 21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23, 26, 26, 20, 19, 22, 23, 22, 25, 26,
    26, 26, 27, 27, 26, 24, 25, 19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27, 20, 24, 20,
    21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23, 26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27,
    27, 27, 26, 30,
];

/// The static table (RFC 7541, appendix A).
const STATIC: [(&str, &str); 61] = [
    (":authority", ""),
    (":method", "GET"),
    (":method", "POST"),
    (":path", "/"),
    (":path", "/index.html"),
    (":scheme", "http"),
    (":scheme", "https"),
    (":status", "200"),
    (":status", "204"),
    (":status", "206"),
    (":status", "304"),
    (":status", "400"),
    (":status", "404"),
    (":status", "500"),
    ("accept-charset", ""),
    ("accept-encoding", "gzip, deflate"),
    ("accept-language", ""),
    ("accept-ranges", ""),
    ("accept", ""),
    ("access-control-allow-origin", ""),
    ("age", ""),
    ("allow", ""),
    ("authorization", ""),
    ("cache-control", ""),
    ("content-disposition", ""),
    ("content-encoding", ""),
    ("content-language", ""),
    ("content-length", ""),
    ("content-location", ""),
    ("content-range", ""),
    ("content-type", ""),
    ("cookie", ""),
    ("date", ""),
    ("etag", ""),
    ("expect", ""),
    ("expires", ""),
    ("from", ""),
    ("host", ""),
    ("if-match", ""),
    ("if-modified-since", ""),
    ("if-none-match", ""),
    ("if-range", ""),
    ("if-unmodified-since", ""),
    ("last-modified", ""),
    ("link", ""),
    ("location", ""),
    ("max-forwards", ""),
    ("proxy-authenticate", ""),
    ("proxy-authorization", ""),
    ("range", ""),
    ("referer", ""),
    ("refresh", ""),
    ("retry-after", ""),
    ("server", ""),
    ("set-cookie", ""),
    ("strict-transport-security", ""),
    ("transfer-encoding", ""),
    ("user-agent", ""),
    ("vary", ""),
    ("via", ""),
    ("www-authenticate", ""),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(hex: &str) -> Vec<u8> {
        let hex: String = hex.split_whitespace().collect();
        (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
    }

    /// The examples of RFC 7541, C.2 and C.4.1, as far as they need no dynamic table.
    #[test]
    fn the_examples_of_the_standard() {
        let field = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let literal = "400a 6375 7374 6f6d 2d6b 6579 0d63 7573 746f 6d2d 6865 6164 6572";
        assert_eq!(decode(&bytes(literal)), Ok(vec![field("custom-key", "custom-header")]));
        assert_eq!(
            decode(&bytes("040c 2f73 616d 706c 652f 7061 7468")),
            Ok(vec![field(":path", "/sample/path")])
        );
        let huffman = "8286 8441 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff";
        let expected = [
            field(":method", "GET"),
            field(":scheme", "http"),
            field(":path", "/"),
            field(":authority", "www.example.com"),
        ];
        assert_eq!(decode(&bytes(huffman)), Ok(expected.to_vec()));
        assert_eq!(huffman_text("a8eb 1064 9cbf"), "no-cache");
        assert_eq!(huffman_text("9d29 ad17 1863 c78f 0b97 c8e9 ae82 ae43 d3"), "https://www.example.com");
    }

    fn huffman_text(hex: &str) -> String {
        String::from_utf8(huffman(&bytes(hex)).unwrap()).unwrap()
    }

    #[test]
    fn literals_come_back() {
        let long = "v".repeat(300);
        let mut block = Vec::new();
        encode("x-name", &long, &mut block);
        encode("te", "", &mut block);
        assert_eq!(decode(&block), Ok(vec![("x-name".into(), long), ("te".into(), String::new())]));
    }

    #[test]
    fn damaged_blocks_are_refused() {
        for hex in ["80", "be", "ff ff ff ff ff ff", "00 05 61", "3f 01", "00 81", "00 01 61 82 ff ff"] {
            assert_eq!(decode(&bytes(hex)), Err(Malformed), "{hex}");
        }
        assert_eq!(decode(&bytes("20 88")), Ok(vec![(":status".into(), "200".into())]));
    }
}
