//! Finds functions in the objects the process started with, by walking the loader's own list.
//!
//! `dlsym` is not used: it allocates, locks, and in old libcs lives in another library. The walk
//! ends at the last object that was loaded when the probe started. The loader never unloads those
//! objects, so the walk needs no lock while other threads load and unload plugins behind them.
//!
//! A plugin sees the global scope first, and the probe is in it. Where no object of the start
//! defines a function, each plugin would have used the definition in its own scope, which is
//! unknown to the probe. [`withdraw`] hides such a function from the loader, which then finds the
//! plugin's own.
#![allow(unsafe_code)]

use core::ffi::{CStr, c_char};

use crate::atomics::{AtomicPtr, AtomicU64, Ordering};
use crate::sys;

/// The loader's record of an object (`link.h`).
#[repr(C)]
pub(crate) struct LinkMap {
    /// Address in the process minus address in the file.
    pub(crate) bias: usize,
    /// Path; empty for the executable.
    pub(crate) name: *const c_char,
    dynamic: *const Dynamic,
    next: *const LinkMap,
}

#[repr(C)]
struct Dynamic {
    tag: usize,
    value: usize,
}

#[repr(C)]
struct Debug {
    version: i32,
    map: *const LinkMap,
}

unsafe extern "C" {
    static _DYNAMIC: Dynamic;
    /// The probe's own ELF header: defined by the linker.
    static __ehdr_start: libc::Elf64_Ehdr;
}

/// The last object of the start; null until the first walk.
static LAST: AtomicPtr<LinkMap> = AtomicPtr::new(core::ptr::null_mut());

const DT_HASH: usize = 4;
const DT_STRTAB: usize = 5;
const DT_SYMTAB: usize = 6;
const DT_RELA: usize = 7;
const DT_RELASZ: usize = 8;
const DT_DEBUG: usize = 21;
const DT_GNU_HASH: usize = 0x6fff_fef5;
const DT_VERSYM: usize = 0x6fff_fff0;
const STT_TLS: u8 = 6;
const R_X86_64_DTPMOD64: u64 = 16;
/// Version index bit of a symbol that is kept for old binaries only.
const VERSION_HIDDEN: u16 = 0x8000;

/// A function and the object that defines it.
#[derive(Clone, Copy)]
pub(crate) struct Symbol {
    pub(crate) address: *mut (),
    /// Bytes of the function.
    pub(crate) len: u64,
    pub(crate) object: *const LinkMap,
}

/// The definition the program would use if the probe were not there: the first after the probe's
/// own object, else (the probe was loaded late) the first of all others.
pub(crate) fn find_next(name: &CStr) -> Option<Symbol> {
    let own = &raw const _DYNAMIC;
    let mut before = None;
    let mut passed = false;
    for map in objects() {
        if map.dynamic == own {
            passed = true;
        } else if passed || before.is_none() {
            let found = Tables::of(map).and_then(|tables| tables.find(name));
            let found = found.map(|(address, len)| Symbol { address, len, object: map });
            if passed && found.is_some() {
                return found;
            }
            before = before.or(found);
        }
    }
    before
}

/// Whether the executable exports a function of this name.
pub(crate) fn is_in_executable(name: &CStr) -> bool {
    let tables = objects().next().and_then(Tables::of);
    tables.is_some_and(|tables| tables.index_of(name, Versions::All).is_some())
}

/// The definition in one object.
pub(crate) fn find_in(object: *const LinkMap, name: &CStr) -> Option<Symbol> {
    // SAFETY: the loader's record of an object whose code is running, so it stays loaded.
    let tables = Tables::of(unsafe { object.as_ref() }?)?;
    tables.find(name).map(|(address, len)| Symbol { address, len, object })
}

/// Whether an object uses a function of another object.
pub(crate) fn imports(object: *const LinkMap, name: &CStr) -> bool {
    // SAFETY: the loader's record of an object whose code is running, so it stays loaded.
    let tables = unsafe { object.as_ref() }.and_then(Tables::of);
    tables.is_some_and(|tables| tables.imports(name))
}

/// A thread-local variable of an object: the object's number among those that have such variables,
/// and the offset in its part of a thread's variables. `None` where the object does not use the
/// variable by its number.
pub(crate) fn thread_local(object: *const LinkMap, name: &CStr) -> Option<(u64, u64)> {
    // SAFETY: the loader's record of an object whose code is running, so it stays loaded.
    let map = unsafe { object.as_ref() }?;
    let tables = Tables::of(map)?;
    let index = tables.index_of(name, Versions::Default)?;
    // SAFETY: `index` came from the object's own tables.
    let symbol = unsafe { &*tables.symbols.add(index) };
    if symbol.st_info & 0xf != STT_TLS {
        return None;
    }
    // The executable is always the first.
    let number = if object == first_object() { Some(1) } else { thread_local_number(map, index) };
    Some((number?, symbol.st_value))
}

/// The number of an object that a relocation of its symbol `index` has stored.
fn thread_local_number(map: &LinkMap, index: usize) -> Option<u64> {
    let [start, bytes] = [DT_RELA, DT_RELASZ].map(|tag| value_of(map.dynamic, tag));
    let start = if start < map.bias { start + map.bias } else { start } as *const libc::Elf64_Rela;
    // SAFETY: the loader has applied these relocations.
    let relocations = unsafe { core::slice::from_raw_parts(start, bytes / size_of::<libc::Elf64_Rela>()) };
    let wanted = (index as u64) << 32 | R_X86_64_DTPMOD64;
    let found = relocations.iter().find(|relocation| relocation.r_info == wanted)?;
    let place = map.bias.wrapping_add(found.r_offset as usize) as *const u64;
    // SAFETY: the loader has stored the number there.
    Some(unsafe { place.read() })
}

/// The objects that the process started with.
fn objects() -> impl Iterator<Item = &'static LinkMap> {
    let last = last_object();
    let mut next = first_object();
    core::iter::from_fn(move || {
        let here = next;
        // SAFETY: an entry of the loader's list up to the last one of the start; the loader never
        // unloads these (a probe that is loaded late assumes that the objects it found stay
        // loaded).
        let map = unsafe { here.as_ref() }?;
        next = if here == last { core::ptr::null() } else { map.next };
        Some(map)
    })
}

/// The end of the loader's list when it was first walked: at the first hooked call of the process,
/// which comes before its first `dlopen`, because that allocates.
fn last_object() -> *const LinkMap {
    let known = LAST.load(Ordering::Acquire);
    if !known.is_null() {
        return known;
    }
    let mut last = first_object();
    // SAFETY: the loader's list, before any object could be unloaded.
    while let Some(map) = unsafe { last.as_ref() }.filter(|map| !map.next.is_null()) {
        last = map.next;
    }
    let null = core::ptr::null_mut();
    match LAST.compare_exchange(null, last.cast_mut(), Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => last,
        Err(other) => other,
    }
}

/// Most functions that can be withdrawn.
const MOST_WITHDRAWN: usize = 64;

/// Hides those of our own exported functions from the loader that no object of the start defines in
/// any version: objects loaded later bind to what they would have bound to without the probe.
/// Objects that are bound already keep our function. Without the right to change our symbol table
/// nothing changes.
pub(crate) fn withdraw<'a>(names: impl Iterator<Item = &'a CStr>) {
    let own = &raw const _DYNAMIC;
    let Some(tables) = objects().find(|map| map.dynamic == own).and_then(Tables::of) else { return };
    let is_defined = |name| {
        let mut others = objects().filter(|map| map.dynamic != own).filter_map(Tables::of);
        others.any(|tables| tables.index_of(name, Versions::All).is_some())
    };
    let mut values = [0_usize; MOST_WITHDRAWN];
    let mut count = 0;
    for name in names.filter(|name| !is_defined(name)) {
        if let (Some(index), Some(place)) = (tables.index_of(name, Versions::All), values.get_mut(count)) {
            // SAFETY: `index` came from our own table.
            *place = unsafe { &raw const (*tables.symbols.add(index)).st_value } as usize;
            count += 1;
        }
    }
    let values = values.get(..count).unwrap_or(&[]);
    let (Some(low), Some(high)) = (values.iter().min(), values.iter().max()) else { return };
    let page = sys::page_bytes() as usize;
    let (start, end) = (low & !(page - 1), (high & !(page - 1)) + page);
    let Some(protection) = own_protection(*low, *high) else { return };
    if sys::protect(start, end - start, protection | libc::PROT_WRITE).is_err() {
        return;
    }
    for value in values {
        // SAFETY: a word of the probe's own symbol table, writable now. The loader skips a function
        // without a value; it reads the word in one access, so it finds the old or the new value.
        unsafe { &*(*value as *const AtomicU64) }.store(0, Ordering::Relaxed);
    }
    let _ = sys::protect(start, end - start, protection);
}

/// The protection of our own segment that holds both addresses.
fn own_protection(low: usize, high: usize) -> Option<i32> {
    let header = &raw const __ehdr_start;
    // SAFETY: the header of this very object, and its program headers, which the loader mapped.
    let headers = unsafe {
        let table = header.byte_add((*header).e_phoff as usize).cast::<libc::Elf64_Phdr>();
        core::slice::from_raw_parts(table, usize::from((*header).e_phnum))
    };
    let loads = || headers.iter().filter(|program| program.p_type == libc::PT_LOAD);
    let bias = (header as usize).wrapping_sub(loads().next()?.p_vaddr as usize);
    let holds = |program: &&libc::Elf64_Phdr| {
        let start = bias.wrapping_add(program.p_vaddr as usize);
        (start..start + program.p_filesz as usize).contains(&low)
            && (start..start + program.p_filesz as usize).contains(&high)
    };
    let flags = loads().find(holds)?.p_flags;
    let of = |flag, protection| if flags & flag != 0 { protection } else { 0 };
    Some(of(libc::PF_R, libc::PROT_READ) | of(libc::PF_W, libc::PROT_WRITE) | of(libc::PF_X, libc::PROT_EXEC))
}

/// As [`find_next`], as a pointer to a function.
///
/// # Safety
/// `F` is the function's signature.
pub(crate) unsafe fn function<F: Copy>(name: &CStr) -> Option<F> {
    const { assert!(size_of::<F>() == size_of::<*mut ()>()) };
    // SAFETY: a pointer to a function, by the caller's promise.
    find_next(name).map(|found| unsafe { core::mem::transmute_copy(&found.address) })
}

/// As [`find_in`], as a pointer to a function.
///
/// # Safety
/// `F` is the function's signature.
pub(crate) unsafe fn function_in<F: Copy>(object: *const LinkMap, name: &CStr) -> Option<F> {
    const { assert!(size_of::<F>() == size_of::<*mut ()>()) };
    // SAFETY: a pointer to a function, by the caller's promise.
    find_in(object, name).map(|found| unsafe { core::mem::transmute_copy(&found.address) })
}

/// The executable's entry of the loader's list, through `DT_DEBUG`.
fn first_object() -> *const LinkMap {
    let headers = sys::auxiliary(libc::AT_PHDR) as *const libc::Elf64_Phdr;
    let count = sys::auxiliary(libc::AT_PHNUM);
    if headers.is_null() {
        return core::ptr::null();
    }
    // SAFETY: the kernel's promise about AT_PHDR and AT_PHNUM.
    let headers = unsafe { core::slice::from_raw_parts(headers, count as usize) };
    let of_type = |kind| headers.iter().find(|header| header.p_type == kind);
    let bias = of_type(libc::PT_PHDR)
        .map_or(0, |header| (headers.as_ptr() as usize).wrapping_sub(header.p_vaddr as usize));
    let Some(dynamic) = of_type(libc::PT_DYNAMIC) else { return core::ptr::null() };
    let dynamic = bias.wrapping_add(dynamic.p_vaddr as usize) as *const Dynamic;
    let debug = value_of(dynamic, DT_DEBUG) as *const Debug;
    // SAFETY: the loader filled DT_DEBUG before any code of the probe could run.
    unsafe { debug.as_ref() }.map_or(core::ptr::null(), |debug| debug.map)
}

fn value_of(mut dynamic: *const Dynamic, tag: usize) -> usize {
    // SAFETY: a dynamic section ends with tag 0.
    while let Some(entry) = unsafe { dynamic.as_ref() } {
        if entry.tag == tag || entry.tag == 0 {
            return if entry.tag == tag { entry.value } else { 0 };
        }
        // SAFETY: not at the end yet.
        dynamic = unsafe { dynamic.add(1) };
    }
    0
}

/// Which definitions of a name count.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Versions {
    /// The one that new binaries are linked to.
    Default,
    /// Also those that are kept for old binaries.
    All,
}

/// The symbol tables of an object.
struct Tables {
    bias: usize,
    symbols: *const libc::Elf64_Sym,
    strings: *const c_char,
    versions: *const u16,
    gnu_hash: *const u32,
    hash: *const u32,
}

impl Tables {
    fn of(map: &LinkMap) -> Option<Self> {
        let table = |tag| {
            let value = value_of(map.dynamic, tag);
            // glibc relocates these words in place, other loaders leave them.
            if value != 0 && value < map.bias { value + map.bias } else { value }
        };
        let tables = Self {
            bias: map.bias,
            symbols: table(DT_SYMTAB) as *const _,
            strings: table(DT_STRTAB) as *const _,
            versions: table(DT_VERSYM) as *const _,
            gnu_hash: table(DT_GNU_HASH) as *const _,
            hash: table(DT_HASH) as *const _,
        };
        (!tables.symbols.is_null() && !tables.strings.is_null()).then_some(tables)
    }

    /// Address and size of the default definition of `name`.
    fn find(&self, name: &CStr) -> Option<(*mut (), u64)> {
        let index = self.index_of(name, Versions::Default)?;
        // SAFETY: `index` came from the object's own tables.
        let symbol = unsafe { &*self.symbols.add(index) };
        let address = self.bias.wrapping_add(symbol.st_value as usize) as *mut ();
        const STT_GNU_IFUNC: u8 = 10;
        if symbol.st_info & 0xf == STT_GNU_IFUNC {
            // SAFETY: an indirect function: its value is a resolver that takes the hardware
            // capabilities.
            let resolver: extern "C" fn(u64) -> *mut () = unsafe { core::mem::transmute(address) };
            return Some((resolver(sys::auxiliary(libc::AT_HWCAP)), 0));
        }
        Some((address, symbol.st_size))
    }

    /// Number of the symbol that defines `name`.
    fn index_of(&self, name: &CStr, versions: Versions) -> Option<usize> {
        if !self.gnu_hash.is_null() {
            // SAFETY: the loader itself relies on these tables.
            unsafe { self.index_by_gnu_hash(name, versions) }
        } else if !self.hash.is_null() {
            // SAFETY: as above; word 1 of DT_HASH is the number of symbols.
            let count = unsafe { *self.hash.add(1) } as usize;
            // SAFETY: below that number.
            (0..count).find(|index| unsafe { self.defines(*index, name, versions) })
        } else {
            None
        }
    }

    unsafe fn index_by_gnu_hash(&self, name: &CStr, versions: Versions) -> Option<usize> {
        let wanted = gnu_hash(name.to_bytes());
        // SAFETY: layout of DT_GNU_HASH: 4 words, bloom words of 8 bytes, buckets, chains.
        unsafe {
            let [bucket_count, first, bloom_words, shift] = [0, 1, 2, 3].map(|word| *self.gnu_hash.add(word));
            // Most objects lack most names: one word of the Bloom filter rules them out.
            let bloom = self.gnu_hash.add(4).cast::<u64>();
            let word = *bloom.add((wanted / u64::BITS).checked_rem(bloom_words)? as usize);
            let bits = 1_u64 << (wanted % u64::BITS) | 1 << (wanted.checked_shr(shift)? % u64::BITS);
            if word & bits != bits {
                return None;
            }
            let buckets = self.gnu_hash.add(4 + bloom_words as usize * 2);
            let chains = buckets.add(bucket_count as usize);
            let mut index = *buckets.add(wanted.checked_rem(bucket_count)? as usize);
            if index < first {
                return None;
            }
            loop {
                let hash = *chains.add((index - first) as usize);
                if hash | 1 == wanted | 1 && self.defines(index as usize, name, versions) {
                    return Some(index as usize);
                }
                if hash & 1 != 0 {
                    return None;
                }
                index += 1;
            }
        }
    }

    /// Whether `name` is among the symbols without a definition. Objects without `DT_GNU_HASH` have
    /// no order of symbols; nothing is found there.
    fn imports(&self, name: &CStr) -> bool {
        if self.gnu_hash.is_null() {
            return false;
        }
        // SAFETY: word 1 of DT_GNU_HASH is the first symbol with a definition.
        let first = unsafe { *self.gnu_hash.add(1) } as usize;
        (1..first).any(|index| {
            // SAFETY: below that number; the loader itself relies on these tables.
            let (symbol, text) = unsafe {
                let symbol = &*self.symbols.add(index);
                (symbol, CStr::from_ptr(self.strings.add(symbol.st_name as usize)))
            };
            symbol.st_shndx == 0 && text == name
        })
    }

    /// Whether symbol `index` is a definition of `name`.
    unsafe fn defines(&self, index: usize, name: &CStr, versions: Versions) -> bool {
        // SAFETY: `index` came from the object's own tables.
        let (symbol, text, hidden) = unsafe {
            let symbol = &*self.symbols.add(index);
            let text = CStr::from_ptr(self.strings.add(symbol.st_name as usize));
            let hidden = !self.versions.is_null() && *self.versions.add(index) & VERSION_HIDDEN != 0;
            (symbol, text, hidden)
        };
        let is_visible = versions == Versions::All || !hidden;
        symbol.st_shndx != 0 && symbol.st_value != 0 && is_visible && text == name
    }
}

fn gnu_hash(name: &[u8]) -> u32 {
    name.iter().fold(5381, |hash: u32, byte| hash.wrapping_mul(33).wrapping_add(u32::from(*byte)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_what_the_loader_would() {
        for name in [c"malloc", c"posix_memalign", c"pthread_key_create", c"dlclose", c"malloc_usable_size"] {
            // SAFETY: a plain lookup.
            let expected = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
            let found = find_next(name).expect("libc has it");
            assert_eq!(found.address.cast(), expected, "{name:?}");
        }
        assert!(find_next(c"no_such_function_anywhere").is_none());
    }
}
