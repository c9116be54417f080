//! CRC-32 (the polynomial of zlib and Ethernet), eight bytes at a time.

const TABLES: [[u32; 256]; 8] = tables();

const fn tables() -> [[u32; 256]; 8] {
    let mut tables = [[0; 256]; 8];
    let mut row = 0;
    while row < 256 {
        let mut value = row as u32;
        let mut bit = 0;
        while bit < 8 {
            value = if value & 1 == 1 { value >> 1 ^ 0xedb8_8320 } else { value >> 1 };
            bit += 1;
        }
        tables[0][row] = value;
        row += 1;
    }
    let mut table = 1;
    while table < 8 {
        let mut row = 0;
        while row < 256 {
            let before = tables[table - 1][row];
            tables[table][row] = before >> 8 ^ tables[0][(before & 0xff) as usize];
            row += 1;
        }
        table += 1;
    }
    tables
}

/// The checksum of `bytes`.
#[must_use]
pub fn checksum(bytes: &[u8]) -> u32 {
    let (blocks, rest) = bytes.as_chunks::<8>();
    let crc = blocks.iter().fold(!0u32, |crc, block| {
        let word = u64::from_le_bytes(*block) ^ u64::from(crc);
        (0..8).fold(0, |sum, byte| sum ^ TABLES[7 - byte][(word >> (8 * byte)) as usize & 0xff])
    });
    !rest.iter().fold(crc, |crc, byte| crc >> 8 ^ TABLES[0][(crc as u8 ^ byte) as usize])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_values() {
        // The check value of the CRC catalogue, and what `crc32` of zlib gives for the others.
        assert_eq!(checksum(b"123456789"), 0xcbf4_3926);
        assert_eq!(checksum(b""), 0);
        assert_eq!(checksum(b"The quick brown fox jumps over the lazy dog"), 0x414f_a339);
    }
}
