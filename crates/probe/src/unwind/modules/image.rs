//! A loaded binary, as the dynamic loader knows it.
//!
//! glibc ≥ 2.35 answers from `_dl_find_object`: no lock, safe in a signal handler. Elsewhere
//! `dl_iterate_phdr` is called, which locks, but only when an address is seen for the first time.
#![allow(unsafe_code)]

use core::ffi::{CStr, c_char, c_int, c_void};
use core::ptr;

use libc::{Elf64_Ehdr as Header, Elf64_Phdr as ProgramHeader};

use crate::atomics::{AtomicPtr, Ordering::Relaxed};
use crate::{symbols, sys};

/// glibc's `struct dl_find_object`.
#[repr(C)]
struct DlFindObject {
    flags: u64,
    map_start: *const c_void,
    map_end: *const c_void,
    link_map: *const LinkMap,
    eh_frame: *const c_void,
    reserved: [u64; 7],
}

/// The public head of `struct link_map`.
#[repr(C)]
struct LinkMap {
    bias: u64,
    name: *const c_char,
}

/// `_dl_find_object`.
type FindObject = unsafe extern "C" fn(*mut c_void, *mut DlFindObject) -> c_int;

/// `_dl_find_object` if the C library has it.
static FIND_OBJECT: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());

/// Sets the address of `_dl_find_object`; while it is null `dl_iterate_phdr` is used.
pub(super) fn set_find_object(function: *mut c_void) {
    FIND_OBJECT.store(function, Relaxed);
}

/// One part of a binary in memory.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ElfSegment {
    pub(crate) start: u64,
    /// One past the last byte that comes from the file.
    pub(crate) end: u64,
    /// File offset of `start`.
    pub(crate) file_offset: u64,
}

/// A loaded binary. Valid while one of its frames is on the stack being walked: a program must not
/// unload code to which it will return.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Image {
    pub(crate) bias: u64,
    name: *const c_char,
    headers: &'static [ProgramHeader],
    eh_frame_hdr: u64,
    /// The loader's record; null where it is not known.
    map: *const LinkMap,
}

impl Image {
    /// The binary that `address` belongs to.
    pub(crate) fn find(address: u64) -> Option<Image> {
        let function = FIND_OBJECT.load(Relaxed);
        if function.is_null() {
            return Image::iterate(address);
        }
        // SAFETY: only a `FindObject` is ever stored.
        let function: FindObject = unsafe { core::mem::transmute(function) };
        // SAFETY: zero is a valid value of each field.
        let mut found: DlFindObject = unsafe { core::mem::zeroed() };
        // SAFETY: the loader fills `found`; any address is a valid argument.
        if unsafe { function(address as usize as *mut c_void, &raw mut found) } != 0 {
            return None;
        }
        // SAFETY: the loader's own record; the public part of a link map never moves.
        let map = unsafe { found.link_map.as_ref()? };
        // SAFETY: the loader reports that the object, or a part of it, is loaded from `map_start`
        // on.
        let headers = unsafe { program_headers(found.map_start.cast()) };
        let image = |headers| Image {
            bias: map.bias,
            name: map.name,
            headers,
            eh_frame_hdr: found.eh_frame as u64,
            map,
        };
        match headers {
            Some(headers) => Some(image(headers)),
            // An object with gaps between its parts is known to the loader part by part. The
            // headers are in the first one; only those of the program can be had without asking for
            // all objects.
            None => Some(image(own_program_headers()))
                .filter(|image| image.name().is_empty() && image.code_segment(address).is_some())
                .or_else(|| Image::iterate(address)),
        }
    }

    /// The loader's record of the binary, for its symbols.
    pub(crate) fn link_map(&self) -> Option<*const symbols::LinkMap> {
        (!self.map.is_null()).then(|| self.map.cast())
    }

    fn iterate(address: u64) -> Option<Image> {
        let mut search = Search { address, found: None };
        // SAFETY: `visit` gets `search` back as its last argument.
        unsafe { libc::dl_iterate_phdr(Some(visit), (&raw mut search).cast()) };
        search.found
    }

    /// The executable part that holds `address`.
    pub(crate) fn code_segment(&self, address: u64) -> Option<ElfSegment> {
        self.segment(address, |header| header.p_flags & libc::PF_X != 0)
    }

    /// The first executable part.
    pub(crate) fn code(&self) -> Option<ElfSegment> {
        self.segments(|header| header.p_flags & libc::PF_X != 0).next()
    }

    /// The parts that can only be read, or executed too.
    pub(crate) fn read_only(&self) -> impl Iterator<Item = &'static [u8]> {
        let segments = self.segments(|header| header.p_flags & (libc::PF_R | libc::PF_W) == libc::PF_R);
        segments.map(|segment| {
            let len = segment.end.saturating_sub(segment.start) as usize;
            // SAFETY: the loader mapped these bytes readable, and they stay (see [`Image`]).
            unsafe { core::slice::from_raw_parts(segment.start as usize as *const u8, len) }
        })
    }

    /// The bytes from `address` to the end of its part of the file.
    pub(crate) fn bytes_from(&self, address: u64) -> Option<&'static [u8]> {
        let segment = self.segment(address, |header| header.p_flags & libc::PF_R != 0)?;
        let len = usize::try_from(segment.end.checked_sub(address)?).ok()?;
        // SAFETY: the loader mapped these bytes readable, and they stay (see [`Image`]).
        Some(unsafe { core::slice::from_raw_parts(address as usize as *const u8, len) })
    }

    fn segment(&self, address: u64, wanted: fn(&ProgramHeader) -> bool) -> Option<ElfSegment> {
        self.segments(wanted).find(|segment| (segment.start..segment.end).contains(&address))
    }

    fn segments(&self, wanted: fn(&ProgramHeader) -> bool) -> impl Iterator<Item = ElfSegment> + use<> {
        let bias = self.bias;
        let loads =
            self.headers.iter().filter(move |header| header.p_type == libc::PT_LOAD && wanted(header));
        loads.map(move |header| {
            let start = bias.wrapping_add(header.p_vaddr);
            let end = start.wrapping_add(header.p_filesz);
            ElfSegment { start, end, file_offset: header.p_offset }
        })
    }

    /// Address of `.eh_frame_hdr`; 0 when there is none.
    pub(crate) fn eh_frame_hdr(&self) -> u64 {
        self.eh_frame_hdr
    }

    /// The loader's name of it: empty for the program itself.
    pub(crate) fn name(&self) -> &'static CStr {
        if self.name.is_null() {
            return c"";
        }
        // SAFETY: the loader's names are NUL-terminated and live as long as the image.
        unsafe { CStr::from_ptr(self.name) }
    }

    /// The GNU build-id; empty when there is none.
    pub(crate) fn build_id(&self) -> &'static [u8] {
        const BUILD_ID: u32 = 3;
        self.note(BUILD_ID, *b"GNU\0").unwrap_or(&[])
    }

    /// Whether Go's linker made it.
    pub(crate) fn is_go(&self) -> bool {
        const GO_BUILD_ID: u32 = 4;
        self.note(GO_BUILD_ID, *b"Go\0\0").is_some()
    }

    fn note(&self, kind: u32, name: [u8; 4]) -> Option<&'static [u8]> {
        let notes = self.headers.iter().filter(|header| header.p_type == libc::PT_NOTE);
        notes
            .filter_map(|header| {
                let bytes = self.bytes_from(self.bias.wrapping_add(header.p_vaddr))?;
                let align = header.p_align.clamp(4, 8) as usize;
                find_note(bytes.get(..header.p_filesz as usize)?, align, kind, name)
            })
            .next()
    }

    /// A number that differs between binaries loaded one after the other at the same address, also
    /// when they have no build-id: the start of the unwind table follows from the code.
    pub(crate) fn fingerprint(&self) -> u64 {
        let table = self.bytes_from(self.eh_frame_hdr).unwrap_or(&[]);
        let table = table.get(..table.len().min(512)).unwrap_or(&[]);
        let sizes = self.headers.iter().flat_map(|header| [header.p_vaddr, header.p_memsz, header.p_offset]);
        let seed = sizes.chain([self.bias, self.headers.len() as u64]).fold(0, mix);
        let bytes = self.build_id().iter().chain(table).chain(self.name().to_bytes());
        bytes.fold(seed, |hash, byte| mix(hash, u64::from(*byte)))
    }
}

fn mix(hash: u64, value: u64) -> u64 {
    (hash.rotate_left(5) ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// # Safety
/// `start` is where an object is loaded.
unsafe fn program_headers(start: *const Header) -> Option<&'static [ProgramHeader]> {
    // SAFETY: at least a page is mapped there.
    let header = unsafe { start.as_ref()? };
    if header.e_ident.first_chunk() != Some(b"\x7fELF")
        || usize::from(header.e_phentsize) != size_of::<ProgramHeader>()
        || header.e_phoff >= 4096
    {
        return None;
    }
    // SAFETY: the loader itself read the headers; they lie in the first page of the first segment.
    Some(unsafe {
        let table = start.byte_add(header.e_phoff as usize).cast();
        core::slice::from_raw_parts(table, usize::from(header.e_phnum))
    })
}

/// The headers of the program itself, from the kernel.
fn own_program_headers() -> &'static [ProgramHeader] {
    let (table, count) = (sys::auxiliary(libc::AT_PHDR), sys::auxiliary(libc::AT_PHNUM));
    if table == 0 {
        return &[];
    }
    // SAFETY: the kernel's promise about the two.
    unsafe { core::slice::from_raw_parts(table as usize as *const ProgramHeader, count as usize) }
}

struct Search {
    address: u64,
    found: Option<Image>,
}

unsafe extern "C" fn visit(info: *mut libc::dl_phdr_info, _: usize, search: *mut c_void) -> c_int {
    // SAFETY: `Image::iterate` passes its own `Search`; the loader passes a valid `info`.
    let (search, info) = unsafe { (&mut *search.cast::<Search>(), &*info) };
    if info.dlpi_phdr.is_null() {
        return 0;
    }
    // SAFETY: the loader's table of that object.
    let headers = unsafe { core::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum)) };
    let frame = headers.iter().find(|header| header.p_type == libc::PT_GNU_EH_FRAME);
    let eh_frame_hdr = frame.map_or(0, |header| info.dlpi_addr.wrapping_add(header.p_vaddr));
    let image = Image { bias: info.dlpi_addr, name: info.dlpi_name, headers, eh_frame_hdr, map: ptr::null() };
    if image.code_segment(search.address).is_none() {
        return 0;
    }
    search.found = Some(image);
    1
}

/// Finds the contents of a note in a note segment.
fn find_note(mut notes: &[u8], align: usize, kind: u32, name: [u8; 4]) -> Option<&[u8]> {
    loop {
        let word = |at: usize| notes.get(at..at + 4)?.first_chunk().map(|bytes| u32::from_ne_bytes(*bytes));
        let (name_len, len) = (word(0)? as usize, word(4)? as usize);
        let start = 12_usize.checked_add(name_len)?.checked_next_multiple_of(align)?;
        let end = start.checked_add(len)?;
        if word(8)? == kind && notes.get(12..16)? == name {
            return notes.get(start..end);
        }
        notes = notes.get(end.checked_next_multiple_of(align)?..)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_is_found_behind_others() {
        let mut notes = std::vec::Vec::new();
        for (kind, name, value) in
            [(5_u32, b"GNU\0", [9_u8; 16]), (3, b"GNU\0", [7; 16]), (4, b"Go\0\0", [8; 16])]
        {
            notes.extend_from_slice(&4_u32.to_ne_bytes());
            notes.extend_from_slice(&16_u32.to_ne_bytes());
            notes.extend_from_slice(&kind.to_ne_bytes());
            notes.extend_from_slice(name);
            notes.extend_from_slice(&value);
        }
        assert_eq!(find_note(&notes, 4, 3, *b"GNU\0"), Some(&[7_u8; 16][..]));
        assert_eq!(find_note(&notes, 4, 4, *b"Go\0\0"), Some(&[8_u8; 16][..]));
        assert_eq!(find_note(&notes, 4, 3, *b"Go\0\0"), None);
        assert_eq!(find_note(&notes[..40], 4, 3, *b"GNU\0"), None);
        assert_eq!(find_note(&[0xff; 64], 4, 3, *b"GNU\0"), None);
    }

    #[test]
    fn both_ways_of_asking_agree() {
        let address = find_note as *const () as u64;
        let slow = Image::iterate(address).unwrap();
        // SAFETY: the name is NUL-terminated.
        let function = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"_dl_find_object".as_ptr()) };
        set_find_object(function);
        let fast = Image::find(address).unwrap();
        assert_eq!((slow.bias, slow.eh_frame_hdr()), (fast.bias, fast.eh_frame_hdr()));
        assert_eq!((slow.build_id(), slow.fingerprint()), (fast.build_id(), fast.fingerprint()));
        assert!(Image::find(0x10).is_none() && Image::iterate(0x10).is_none());
    }
}
