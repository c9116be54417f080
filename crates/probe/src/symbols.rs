//! Finding functions of the loaded objects by walking the loader's own list.
//!
//! Not `dlsym`: it allocates, locks, and in old libcs lives in another library. The walk reads what the loader
//! mapped and nothing else.
#![allow(unsafe_code)]

use core::ffi::{CStr, c_char};

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
}

const DT_HASH: usize = 4;
const DT_STRTAB: usize = 5;
const DT_SYMTAB: usize = 6;
const DT_DEBUG: usize = 21;
const DT_GNU_HASH: usize = 0x6fff_fef5;
const DT_VERSYM: usize = 0x6fff_fff0;
/// Version index bit of a symbol that is kept for old binaries only.
const VERSION_HIDDEN: u16 = 0x8000;

/// A function and the object that defines it.
#[derive(Clone, Copy)]
pub(crate) struct Found {
    pub(crate) address: *mut (),
    /// Bytes of the function.
    pub(crate) len: u64,
    pub(crate) object: *const LinkMap,
}

/// The definition the program would use if the probe were not there: the first after the probe's own
/// object, else (the probe was loaded late) the first of all others.
pub(crate) fn find_next(name: &CStr) -> Option<Found> {
    let own = &raw const _DYNAMIC;
    let mut before = None;
    let mut passed = false;
    let mut object = first_object();
    // SAFETY: the loader's list; objects are added at its end, and none of those that can define an
    // allocator is ever removed.
    while let Some(map) = unsafe { object.as_ref() } {
        if map.dynamic == own {
            passed = true;
        } else if passed || before.is_none() {
            let found = Tables::of(map).and_then(|tables| tables.find(name));
            let found = found.map(|(address, len)| Found { address, len, object });
            if passed && found.is_some() {
                return found;
            }
            before = before.or(found);
        }
        object = map.next;
    }
    before
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
    // SAFETY: the loader filled DT_DEBUG before any code of ours could run.
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

    fn find(&self, name: &CStr) -> Option<(*mut (), u64)> {
        if !self.gnu_hash.is_null() {
            // SAFETY: the loader itself relies on these tables.
            unsafe { self.find_by_gnu_hash(name) }
        } else if !self.hash.is_null() {
            // SAFETY: as above.
            unsafe { self.find_by_scan(name) }
        } else {
            None
        }
    }

    unsafe fn find_by_gnu_hash(&self, name: &CStr) -> Option<(*mut (), u64)> {
        let wanted = gnu_hash(name.to_bytes());
        // SAFETY: layout of DT_GNU_HASH: 4 words, bloom words of 8 bytes, buckets, chains.
        unsafe {
            let [bucket_count, first, bloom_words] = [0, 1, 2].map(|word| *self.gnu_hash.add(word));
            let buckets = self.gnu_hash.add(4 + bloom_words as usize * 2);
            let chains = buckets.add(bucket_count as usize);
            let mut index = *buckets.add(wanted.checked_rem(bucket_count)? as usize);
            if index < first {
                return None;
            }
            loop {
                let hash = *chains.add((index - first) as usize);
                if hash | 1 == wanted | 1
                    && let Some(found) = self.defined(index as usize, name)
                {
                    return Some(found);
                }
                if hash & 1 != 0 {
                    return None;
                }
                index += 1;
            }
        }
    }

    unsafe fn find_by_scan(&self, name: &CStr) -> Option<(*mut (), u64)> {
        // SAFETY: word 1 of DT_HASH is the number of symbols.
        unsafe {
            let count = *self.hash.add(1) as usize;
            (0..count).find_map(|index| self.defined(index, name))
        }
    }

    /// Address and size of symbol `index` when it is the default definition of `name`.
    unsafe fn defined(&self, index: usize, name: &CStr) -> Option<(*mut (), u64)> {
        // SAFETY: `index` came from the object's own tables.
        let (symbol, text, hidden) = unsafe {
            let symbol = &*self.symbols.add(index);
            let text = CStr::from_ptr(self.strings.add(symbol.st_name as usize));
            let hidden = !self.versions.is_null() && *self.versions.add(index) & VERSION_HIDDEN != 0;
            (symbol, text, hidden)
        };
        if symbol.st_shndx == 0 || symbol.st_value == 0 || hidden || text != name {
            return None;
        }
        let address = self.bias.wrapping_add(symbol.st_value as usize) as *mut ();
        const STT_GNU_IFUNC: u8 = 10;
        if symbol.st_info & 0xf == STT_GNU_IFUNC {
            // SAFETY: an indirect function: its value is a resolver that takes the hardware capabilities.
            let resolver: extern "C" fn(u64) -> *mut () = unsafe { core::mem::transmute(address) };
            return Some((resolver(sys::auxiliary(libc::AT_HWCAP)), 0));
        }
        Some((address, symbol.st_size))
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
