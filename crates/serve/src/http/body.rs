//! A body that is sent to many: its bytes, the tag that names them, and their packed form, each
//! made once.

use std::hash::{DefaultHasher, Hasher};
use std::io::Write;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use flate2::Compression;
use flate2::write::GzEncoder;

/// Smaller bodies fit into one packet as they are.
const LEAST_PACKED_BYTES: usize = 1 << 10;
/// Larger bodies are not cached, and compressing them for one client takes longer than sending
/// them.
const MOST_PACKED_BYTES: usize = 64 << 20;

/// Shared bytes. The packed form lives as long as they do and is smaller than they are.
#[derive(Debug, Clone)]
pub struct Body(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    plain: Vec<u8>,
    tag: OnceLock<String>,
    packed: OnceLock<Option<Vec<u8>>>,
}

impl Body {
    /// `ETag`: equal for equal bytes, also after a restart; weak, since it covers both forms.
    pub(crate) fn tag(&self) -> &str {
        self.0.tag.get_or_init(|| {
            let mut hasher = DefaultHasher::new();
            hasher.write(&self.0.plain);
            format!("W/\"{:016x}-{:x}\"", hasher.finish(), self.0.plain.len())
        })
    }

    /// The bytes in gzip, where that pays. The level is the fastest: what is shown is a few times
    /// smaller at any level.
    pub(crate) fn packed(&self) -> Option<&[u8]> {
        let packed = self.0.packed.get_or_init(|| {
            if !(LEAST_PACKED_BYTES..=MOST_PACKED_BYTES).contains(&self.len()) {
                return None;
            }
            let mut encoder = GzEncoder::new(Vec::with_capacity(self.len() / 4), Compression::fast());
            encoder.write_all(&self.0.plain).ok()?;
            let mut packed = encoder.finish().ok()?;
            packed.shrink_to_fit();
            (packed.len() < self.len()).then_some(packed)
        });
        packed.as_deref()
    }
}

impl From<Vec<u8>> for Body {
    fn from(plain: Vec<u8>) -> Self {
        Self(Arc::new(Shared { plain, tag: OnceLock::new(), packed: OnceLock::new() }))
    }
}

impl Deref for Body {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0.plain
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    #[test]
    fn the_packed_form_holds_the_same_and_is_made_once() {
        let text = b"who is holding the memory? ".repeat(1000);
        let body = Body::from(text.clone());
        let packed = body.packed().expect("it is long enough").to_vec();
        assert!(packed.len() < text.len() / 10);
        let mut unpacked = Vec::new();
        flate2::read::GzDecoder::new(&packed[..]).read_to_end(&mut unpacked).unwrap();
        assert_eq!(unpacked, text);
        assert!(std::ptr::eq(body.packed().unwrap(), body.clone().packed().unwrap()));
    }

    #[test]
    fn what_does_not_get_smaller_stays_as_it_is() {
        assert!(Body::from(b"short".to_vec()).packed().is_none());
        let mut state = 1_u64;
        let noise = (0..4096).map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 56) as u8
        });
        assert!(Body::from(noise.collect::<Vec<u8>>()).packed().is_none());
    }

    #[test]
    fn a_tag_names_the_bytes() {
        let tag = |text: &str| Body::from(text.as_bytes().to_vec()).tag().to_owned();
        assert_eq!(tag("a"), tag("a"));
        assert_ne!(tag("a"), tag("b"));
        assert!(tag("a").starts_with("W/\"") && tag("a").ends_with('"'));
    }
}
