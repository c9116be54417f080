//! Memory that a message takes when decoded, found without decoding it: an empty sample is two
//! bytes of the file and 72 of memory.

use std::mem::size_of;

use heapwise_format::varint;

use crate::pprof_proto::{Function, Label, Line, Location, Mapping, Sample, ValueType};

/// Fields of the messages, by number.
const SAMPLE_TYPE: u64 = 1;
const SAMPLE: u64 = 2;
const MAPPING: u64 = 3;
const LOCATION: u64 = 4;
const FUNCTION: u64 = 5;
const STRING: u64 = 6;
const LOCATION_LINE: u64 = 4;
const SAMPLE_LABEL: u64 = 3;

/// Bytes of memory, at least; the decoder reports malformed fields.
pub(super) fn weigh(bytes: &[u8]) -> u64 {
    fields(bytes).map(|(number, payload)| of_field(number, payload)).sum()
}

fn of_field(number: u64, payload: &[u8]) -> u64 {
    let length = payload.len() as u64;
    match number {
        SAMPLE_TYPE => size_of::<ValueType>() as u64,
        SAMPLE => size_of::<Sample>() as u64 + of_sample(payload),
        MAPPING => size_of::<Mapping>() as u64,
        LOCATION => {
            let lines = fields(payload).filter(|(number, _)| *number == LOCATION_LINE).count();
            (size_of::<Location>() + lines * size_of::<Line>()) as u64
        }
        FUNCTION => size_of::<Function>() as u64,
        STRING => size_of::<String>() as u64 + length,
        _ => length,
    }
}

/// Numbers of a sample are packed varints, or one a field.
fn of_sample(payload: &[u8]) -> u64 {
    let of_part = |(number, part): (u64, &[u8])| match number {
        SAMPLE_LABEL => size_of::<Label>() as u64,
        _ => size_of::<u64>() as u64 * part.iter().filter(|byte| **byte < 0x80).count().max(1) as u64,
    };
    fields(payload).map(of_part).sum()
}

/// Numbers and payloads of the fields of a message; a varint has an empty payload.
fn fields(bytes: &[u8]) -> impl Iterator<Item = (u64, &[u8])> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let tag = varint::decode(bytes, &mut at)?;
        let length = match tag & 7 {
            0 => {
                varint::decode(bytes, &mut at)?;
                0
            }
            1 => 8,
            2 => usize::try_from(varint::decode(bytes, &mut at)?).ok()?,
            5 => 4,
            _ => return None,
        };
        let payload = bytes.get(at..at.checked_add(length)?)?;
        at += length;
        Some((tag >> 3, payload))
    })
}

#[cfg(test)]
mod tests {
    use prost::Message;

    use super::*;
    use crate::pprof_proto::Profile;

    #[test]
    fn memory_is_that_of_the_decoded_tables() {
        let sample = Sample { location_id: vec![1; 100], value: vec![1 << 40, 2], label: vec![] };
        let message =
            Profile { sample: vec![sample; 10], string_table: vec!["abc".into(); 5], ..Profile::default() };
        let tables = 10 * (size_of::<Sample>() + 102 * 8) + 5 * (size_of::<String>() + 3);
        assert_eq!(weigh(&message.encode_to_vec()), tables as u64);
        let empty = [0x12, 0].repeat(1000);
        assert_eq!(weigh(&empty), 1000 * size_of::<Sample>() as u64);
    }
}
