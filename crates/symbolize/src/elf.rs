//! Metadata of an ELF file: identity, links to other files, segments, sections.

use std::borrow::Cow;
use std::io::Read;

use flate2::read::ZlibDecoder;
use heapwise_profile::BuildId;
use object::{CompressionFormat, Object, ObjectSection};

/// Most bytes a compressed section may claim to inflate to. The largest `.debug_info` in the
/// field (browsers, 32-bit DWARF) stays below 4 GiB; deflate cannot exceed 1032:1.
const MAX_INFLATED_BYTES: u64 = 4 << 30;
const MAX_INFLATION: u64 = 1032;

/// A parsed ELF header over bytes that are owned elsewhere; cheap to make.
pub(crate) struct Elf<'a> {
    pub(crate) file: object::File<'a>,
}

/// The name and checksum of a separate debug file (`.gnu_debuglink`).
pub(crate) struct DebugLink<'a> {
    pub(crate) name: &'a [u8],
    pub(crate) crc: u32,
}

/// The path and build-id of a file shared by several debug files (`.gnu_debugaltlink`, dwz).
pub(crate) struct AltLink<'a> {
    pub(crate) path: &'a [u8],
    pub(crate) build_id: BuildId,
}

impl<'a> Elf<'a> {
    pub(crate) fn parse(bytes: &'a [u8]) -> Result<Self, object::Error> {
        object::File::parse(bytes).map(|file| Self { file })
    }

    /// Empty when the file has none.
    pub(crate) fn build_id(&self) -> BuildId {
        let id = self.file.build_id().ok().flatten();
        BuildId(id.unwrap_or_default().to_vec())
    }

    pub(crate) fn debug_link(&self) -> Option<DebugLink<'a>> {
        let (name, crc) = self.file.gnu_debuglink().ok()??;
        Some(DebugLink { name, crc })
    }

    pub(crate) fn alt_link(&self) -> Option<AltLink<'a>> {
        let (path, build_id) = self.file.gnu_debugaltlink().ok()??;
        let build_id = BuildId(build_id.to_vec());
        Some(AltLink { path, build_id })
    }

    /// Whether there is DWARF with at least one unit in it.
    pub(crate) fn has_dwarf(&self) -> bool {
        self.section_size(".debug_info") > 0 || self.section_size(".zdebug_info") > 0
    }

    /// Whether there is a full symbol table.
    pub(crate) fn has_symtab(&self) -> bool {
        self.file.symbol_table().is_some()
    }

    fn section_size(&self, name: &str) -> u64 {
        let section = self.file.section_by_name(name);
        section.and_then(|section| section.file_range()).map_or(0, |(_, size)| size)
    }

    /// Content of a section, inflated if need be; `None` when absent, damaged or absurdly large.
    pub(crate) fn section(&self, name: &str) -> Option<Cow<'a, [u8]>> {
        // binutils' older form of compression renames the section.
        let renamed = || Some(format!(".zdebug_{}", name.strip_prefix(".debug_")?));
        let section = self.file.section_by_name(name);
        let section = section.or_else(|| self.file.section_by_name(&renamed()?))?;
        let packed = section.compressed_data().ok()?;
        let limit = (packed.data.len() as u64).saturating_mul(MAX_INFLATION).min(MAX_INFLATED_BYTES);
        let is_packed = packed.format != CompressionFormat::None;
        if is_packed && packed.uncompressed_size > limit {
            return None;
        }
        let size = usize::try_from(packed.uncompressed_size).ok()?;
        match packed.format {
            CompressionFormat::None => Some(Cow::Borrowed(packed.data)),
            CompressionFormat::Zlib => inflate(packed.data, size).map(Cow::Owned),
            CompressionFormat::Zstandard => zstd::bulk::decompress(packed.data, size).ok().map(Cow::Owned),
            _ => None,
        }
    }
}

fn inflate(packed: &[u8], size: usize) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(size);
    ZlibDecoder::new(packed).take(size as u64).read_to_end(&mut bytes).ok()?;
    (bytes.len() == size).then_some(bytes)
}

/// Build-id of a file; empty when it has none or is not an ELF file.
pub(crate) fn build_id(bytes: &[u8]) -> BuildId {
    Elf::parse(bytes).map_or_else(|_| BuildId::default(), |elf| elf.build_id())
}

/// Whether a debug file refers to one that dwz made.
pub(crate) fn has_alt_link(bytes: &[u8]) -> bool {
    Elf::parse(bytes).is_ok_and(|elf| elf.alt_link().is_some())
}
