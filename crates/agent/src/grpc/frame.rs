//! Frames of HTTP/2 (RFC 9113).

use std::io::{self, Read, Write};

/// Kinds of frames that a client of one request meets.
pub(crate) mod kind {
    pub(crate) const DATA: u8 = 0;
    pub(crate) const HEADERS: u8 = 1;
    pub(crate) const RST_STREAM: u8 = 3;
    pub(crate) const SETTINGS: u8 = 4;
    pub(crate) const PING: u8 = 6;
    pub(crate) const GOAWAY: u8 = 7;
    pub(crate) const WINDOW_UPDATE: u8 = 8;
    pub(crate) const CONTINUATION: u8 = 9;
}

/// Flags; a number has one meaning per kind.
pub(crate) mod flag {
    pub(crate) const END_STREAM: u8 = 1;
    pub(crate) const ACK: u8 = 1;
    pub(crate) const END_HEADERS: u8 = 4;
    pub(crate) const PADDED: u8 = 8;
    pub(crate) const PRIORITY: u8 = 32;
}

/// Parameters of SETTINGS.
pub(crate) mod setting {
    pub(crate) const HEADER_TABLE_SIZE: u16 = 1;
    pub(crate) const ENABLE_PUSH: u16 = 2;
    pub(crate) const INITIAL_WINDOW_SIZE: u16 = 4;
    pub(crate) const MAX_FRAME_SIZE: u16 = 5;
}

/// The first bytes of a client.
pub(crate) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Largest payload that both sides accept without agreeing on more.
pub(crate) const MOST_PAYLOAD: usize = 16 << 10;

/// A frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    pub(crate) stream: u32,
    pub(crate) payload: Vec<u8>,
}

impl Frame {
    pub(crate) fn new(kind: u8, flags: u8, stream: u32, payload: Vec<u8>) -> Self {
        Self { kind, flags, stream, payload }
    }

    /// SETTINGS with these parameters.
    pub(crate) fn settings(parameters: &[(u16, u32)]) -> Self {
        let payload = parameters
            .iter()
            .flat_map(|(name, value)| [&name.to_be_bytes()[..], &value.to_be_bytes()[..]].concat())
            .collect();
        Self::new(kind::SETTINGS, 0, 0, payload)
    }

    /// WINDOW_UPDATE of a stream, or of the connection (0).
    pub(crate) fn window_update(stream: u32, bytes: u32) -> Self {
        Self::new(kind::WINDOW_UPDATE, 0, stream, bytes.to_be_bytes().to_vec())
    }

    pub(crate) fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// The parameters of a SETTINGS frame.
    pub(crate) fn parameters(&self) -> impl Iterator<Item = (u16, u32)> + '_ {
        self.payload.chunks_exact(6).map(|entry| {
            (
                u16::from_be_bytes([entry[0], entry[1]]),
                u32::from_be_bytes([entry[2], entry[3], entry[4], entry[5]]),
            )
        })
    }

    /// The first number of the payload: an increment, an error code.
    pub(crate) fn number(&self) -> u32 {
        self.payload.first_chunk().map_or(0, |bytes| u32::from_be_bytes(*bytes))
    }

    /// The payload of DATA or HEADERS without padding and priority.
    pub(crate) fn content(&self) -> io::Result<&[u8]> {
        let malformed = || io::Error::other("malformed frame");
        let (mut content, mut padding) = (&self.payload[..], 0);
        if self.has(flag::PADDED) {
            let (first, rest) = content.split_first().ok_or_else(malformed)?;
            (padding, content) = (usize::from(*first), rest);
        }
        if self.kind == kind::HEADERS && self.has(flag::PRIORITY) {
            content = content.get(5..).ok_or_else(malformed)?;
        }
        let length = content.len().checked_sub(padding).ok_or_else(malformed)?;
        Ok(&content[..length])
    }

    pub(crate) fn write(&self, out: &mut impl Write) -> io::Result<()> {
        let mut head = [0; 9];
        head[..3].copy_from_slice(&(self.payload.len() as u32).to_be_bytes()[1..]);
        (head[3], head[4]) = (self.kind, self.flags);
        head[5..].copy_from_slice(&self.stream.to_be_bytes());
        out.write_all(&[&head[..], &self.payload].concat())
    }

    pub(crate) fn read(input: &mut impl Read) -> io::Result<Self> {
        let mut head = [0; 9];
        input.read_exact(&mut head)?;
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
        if length > MOST_PAYLOAD {
            return Err(io::Error::other("frame larger than agreed"));
        }
        let mut payload = vec![0; length];
        input.read_exact(&mut payload)?;
        let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]) & 0x7fff_ffff;
        Ok(Self::new(head[3], head[4], stream, payload))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_come_back() {
        let frame = Frame::new(kind::DATA, flag::END_STREAM, 1, vec![7; 300]);
        let mut bytes = Vec::new();
        frame.write(&mut bytes).unwrap();
        assert_eq!(bytes[..9], [0, 1, 44, 0, 1, 0, 0, 0, 1]);
        assert_eq!(Frame::read(&mut &bytes[..]).unwrap(), frame);
        assert!(Frame::read(&mut &bytes[..20]).is_err());
    }

    #[test]
    fn padding_and_priority_are_removed() {
        let padded = Frame::new(kind::DATA, flag::PADDED, 1, vec![2, b'a', b'b', 0, 0]);
        assert_eq!(padded.content().unwrap(), b"ab");
        let both = vec![1, 0, 0, 0, 0, 9, b'h', 0];
        let both = Frame::new(kind::HEADERS, flag::PADDED | flag::PRIORITY, 1, both);
        assert_eq!(both.content().unwrap(), b"h");
        assert!(Frame::new(kind::DATA, flag::PADDED, 1, vec![9, 1]).content().is_err());
    }
}
