//! The start-up configuration: `HEAPWISE_CONF=mode:sampled,rate:512K,…`.

use heapwise_format::segment::{Control, IndexKind, Mode};

use crate::control;

/// What to begin with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Config {
    pub(crate) mode: Mode,
    pub(crate) sample_bytes: u64,
    pub(crate) max_depth: u32,
    pub(crate) index: IndexKind,
    pub(crate) paranoid: bool,
    /// Seed of the sampler; 0: a random one.
    pub(crate) seed: u64,
}

impl Config {
    /// Idle.
    pub(crate) const fn new() -> Self {
        Self {
            mode: Mode::Off,
            sample_bytes: Control::DEFAULT_SAMPLE_BYTES,
            max_depth: Control::DEFAULT_DEPTH,
            index: IndexKind::Auto,
            paranoid: false,
            seed: 0,
        }
    }

    /// Pairs `key:value` between commas. What is not understood is left at its default: a guest does not
    /// complain.
    pub(crate) fn parse(text: &[u8]) -> Self {
        let mut config = Self::new();
        for pair in text.split(|byte| *byte == b',') {
            let Some(colon) = pair.iter().position(|byte| *byte == b':') else { continue };
            let (key, value) = pair.split_at(colon);
            config.set(key, value.get(1..).unwrap_or(&[]));
        }
        config
    }

    /// Takes one pair; whether the key is known.
    pub(crate) fn set(&mut self, key: &[u8], value: &[u8]) -> bool {
        match key {
            b"mode" => self.mode = mode(value).unwrap_or(self.mode),
            b"rate" => self.sample_bytes = size(value).filter(|rate| *rate > 0).unwrap_or(self.sample_bytes),
            b"depth" => self.max_depth = size(value).map_or(self.max_depth, |depth| depth.min(512) as u32),
            b"index" => self.index = control::index_by_name(value).unwrap_or(self.index),
            b"paranoid" => self.paranoid = value == b"true",
            b"seed" => self.seed = size(value).unwrap_or(0),
            _ => return false,
        }
        true
    }
}

fn mode(name: &[u8]) -> Option<Mode> {
    [Mode::Off, Mode::Sampled, Mode::Exact, Mode::Log].into_iter().find(|mode| mode.name().as_bytes() == name)
}

/// A number, perhaps followed by K, M or G.
fn size(text: &[u8]) -> Option<u64> {
    let (digits, shift) = match text.split_last()? {
        (b'K' | b'k', digits) => (digits, 10),
        (b'M' | b'm', digits) => (digits, 20),
        (b'G' | b'g', digits) => (digits, 30),
        _ => (text, 0),
    };
    let number: u64 = core::str::from_utf8(digits).ok()?.parse().ok()?;
    number.checked_mul(1 << shift)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn understands_pairs_and_passes_over_the_rest() {
        let config = Config::parse(b"mode:sampled,rate:4K,depth:64,index:hash,paranoid:true,x:1,,y");
        let expected = Config {
            mode: Mode::Sampled,
            sample_bytes: 4096,
            max_depth: 64,
            index: IndexKind::Hash,
            paranoid: true,
            seed: 0,
        };
        assert_eq!(config, expected);
        assert_eq!(Config::parse(b"mode:what,rate:0,rate:99999999999999G,depth:-1"), Config::new());
    }
}
