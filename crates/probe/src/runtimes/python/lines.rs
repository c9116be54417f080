//! Line tables of code objects: from the offset of an instruction to its line.

/// No line: the instruction was made by the compiler.
const NONE: u32 = 0;

/// The line of the instruction `offset` bytes behind the first one, by the table of CPython
/// 3.`minor`; 0 for none.
pub(super) fn line_of(minor: u8, table: &[u8], first: i32, offset: i64) -> u32 {
    if offset < 0 {
        return line(first);
    }
    match minor {
        ..=9 => by_increments(table, first, offset),
        10 => by_ranges(table, first, offset),
        _ => by_locations(table, first, offset),
    }
}

fn line(line: i32) -> u32 {
    u32::try_from(line).unwrap_or(NONE)
}

/// Up to 3.9: pairs of bytes to skip and lines to add.
fn by_increments(table: &[u8], first: i32, offset: i64) -> u32 {
    let (mut at, mut current) = (0, first);
    for pair in table.chunks_exact(2) {
        let &[bytes, lines] = pair else { break };
        at += i64::from(bytes);
        if at > offset {
            break;
        }
        current = current.wrapping_add(i32::from(lines as i8));
    }
    line(current)
}

/// 3.10: pairs of the length of a range and the lines to add before it.
fn by_ranges(table: &[u8], first: i32, offset: i64) -> u32 {
    const NO_LINE: i8 = -128;
    let (mut at, mut current) = (0, first);
    for pair in table.chunks_exact(2) {
        let &[bytes, lines] = pair else { break };
        let end = at + i64::from(bytes);
        if lines as i8 != NO_LINE {
            current = current.wrapping_add(i32::from(lines as i8));
        }
        if (at..end).contains(&offset) {
            return if lines as i8 == NO_LINE { NONE } else { line(current) };
        }
        at = end;
    }
    line(current)
}

/// From 3.11 on: entries of a kind, a length and what the kind needs.
fn by_locations(table: &[u8], first: i32, offset: i64) -> u32 {
    const UNIT_BYTES: i64 = 2;
    let (mut at, mut current) = (0, first);
    let mut rest = table.iter().copied();
    while let Some(head) = rest.next() {
        let end = at + UNIT_BYTES * (i64::from(head & 7) + 1);
        let kind = head >> 3 & 15;
        match kind {
            15 => {}
            13 | 14 => {
                current = current.wrapping_add(signed(varint(&mut rest)));
                if kind == 14 {
                    for _ in 0..3 {
                        varint(&mut rest);
                    }
                }
            }
            10..=12 => {
                current = current.wrapping_add(i32::from(kind) - 10);
                rest.nth(1);
            }
            _ => drop(rest.next()),
        }
        if (at..end).contains(&offset) {
            return if kind == 15 { NONE } else { line(current) };
        }
        at = end;
    }
    NONE
}

/// Six bits a byte, the lowest first; bit 6: another byte follows.
fn varint(bytes: &mut impl Iterator<Item = u8>) -> u32 {
    let (mut value, mut shift) = (0, 0);
    for byte in bytes {
        value |= u32::from(byte & 63).wrapping_shl(shift);
        shift += 6;
        if byte & 64 == 0 || shift > 30 {
            break;
        }
    }
    value
}

fn signed(value: u32) -> i32 {
    let magnitude = (value >> 1) as i32;
    if value & 1 != 0 { -magnitude } else { magnitude }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn increments() {
        // Two bytes at line 10, four at 11, the rest at 9.
        let table = [2, 1, 4, 254];
        let lines = [0, 1, 2, 5, 6, 90].map(|offset| line_of(8, &table, 10, offset));
        assert_eq!(lines, [10, 10, 11, 11, 9, 9]);
    }

    #[test]
    fn ranges() {
        let table = [4, 0, 2, 128, 6, 3];
        let lines = [-1, 0, 3, 4, 6, 11].map(|offset| line_of(10, &table, 7, offset));
        assert_eq!(lines, [7, 7, 7, 0, 10, 10]);
    }

    #[test]
    fn locations() {
        let entry = |kind: u8, units: u8| 0x80 | kind << 3 | (units - 1);
        // Short form, one line form, long form with -2 lines, no location.
        let table =
            [entry(0, 2), 0, entry(11, 1), 5, 6, entry(14, 1), 5, 1, 2, 3, entry(15, 1), entry(13, 8), 80, 1];
        let lines = [0, 3, 4, 6, 8, 10, 25, 26].map(|offset| line_of(12, &table, 100, offset));
        assert_eq!(lines, [100, 100, 101, 99, 0, 139, 139, 0]);
    }

    #[test]
    fn damaged_tables_end() {
        for minor in [8, 10, 11] {
            for len in 0..8 {
                line_of(minor, &[0xff; 8][..len], i32::MAX, 1 << 40);
            }
        }
    }
}
