//! AArch64. The hot path changes nothing but x16, x17 and flags, which may change in any call.

use heapwise_format::entry_hooks::{FILTER_FOLD, ISLAND_ALLOCATES, ISLAND_RELEASES, Shape, Size};

use super::{DATA, FILTER, Island, PAD, Piece, STUB, Way, target};
use crate::site::aarch64::Site;

/// `autiasp`.
const AUTHENTICATE: u32 = 0xd503_23bf;
/// `paciasp`.
const SIGN: u32 = 0xd503_233f;

/// Code that is being written at an address.
struct Writer {
    start: u64,
    words: Vec<u32>,
    data: u64,
}

/// A branch whose target is written later.
struct Pending(usize);

/// `ldrb w17, [x16, x17]`.
const LOAD: u32 = 0x3871_6a11;

/// `ubfx x17, xN, #shift, #20`: the index of an address in the page filter.
fn bits_of(register: u32, shift: u32) -> u32 {
    0xd340_0000 | shift << 16 | (shift + 19) << 10 | register << 5 | 17
}

impl Writer {
    fn here(&self) -> u64 {
        self.start + 4 * self.words.len() as u64
    }

    fn put(&mut self, words: &[u32]) {
        self.words.extend(words);
    }

    /// `adr xN, offset of the data page`.
    fn address(&mut self, register: u32, offset: u64) {
        let distance = (self.data + offset).wrapping_sub(self.here()) as u32;
        self.put(&[0x1000_0000 | (distance & 3) << 29 | (distance >> 2 & 0x7_ffff) << 5 | register]);
    }

    /// `adr x17, mode; ldrb w17, [x17]; cbnz w17`.
    fn jump_if_traced(&mut self, mode: usize) -> Pending {
        self.address(17, mode as u64);
        self.put(&[0x3940_0231, 0x3500_0011]);
        Pending(self.words.len() - 1)
    }

    /// Lets a pending `cbz`, `cbnz`, `tbnz` or conditional branch lead here.
    fn land(&mut self, pending: &Pending) {
        let distance = (self.words.len() - pending.0) as u32;
        self.words[pending.0] |= distance << 5;
    }

    /// `ldrb w17, [x16, page of xN]`: x16 is the filter.
    fn look_up_page(&mut self, block: u32) {
        self.put(&[bits_of(block, 12), LOAD]);
    }

    /// `add x17, xN, xN, lsr fold; ldrb w17, [x16, granule of x17]`.
    fn look_up_granule(&mut self, block: u32) {
        let add = 0x8b40_0011 | u32::from(FILTER_FOLD) << 10 | block << 16 | block << 5;
        self.put(&[add, bits_of(17, 4), LOAD]);
    }

    /// Subtracts a size from the thread's countdown, and jumps when it does not hold.
    fn count_down(&mut self, size: Size, thread_words: i64) -> Option<Pending> {
        let offset = u32::try_from(thread_words).ok()?;
        // mrs x16, tpidr_el0; movz x17; movk x17, lsl 16; add x16, x16, x17; ldr x17, [x16]
        let low = 0xd280_0011 | (offset & 0xffff) << 5;
        let high = 0xf2a0_0011 | (offset >> 16) << 5;
        self.put(&[0xd53b_d050, low, high, 0x8b11_0210, 0xf940_0211]);
        let pending = match size {
            // subs x17, x17, xN; b.lo
            Size::Argument(number) => {
                self.put(&[0xeb00_0231 | u32::from(number) << 16, 0x5400_0003]);
                Pending(self.words.len() - 1)
            }
            // msub x17, xN, xM, x17; tbnz x17, #63
            Size::Product(number) => {
                let (first, second) = (u32::from(number), u32::from(number) + 1);
                self.put(&[0x9b00_c411 | second << 16 | first << 5, 0xb7f8_0011]);
                Pending(self.words.len() - 1)
            }
            Size::Text => return None,
        };
        self.put(&[0xf900_0211]); // str x17, [x16]
        Some(pending)
    }
}

/// The code of function number `index` of an island; `None` when it does not fit.
#[must_use]
pub fn piece(island: Island, index: usize, way: Way, site: &Site) -> Option<Piece> {
    let start = island.start + DATA + PAD * index as u64;
    let mut writer = Writer { start, words: Vec::new(), data: island.start };
    // The block to free or to resize is the argument of a number.
    let (size, mode, block) = match way {
        Way::Cell(Shape::Allocate(size) | Shape::AllocateTo(size)) => (Some(size), ISLAND_ALLOCATES, None),
        Way::Cell(Shape::Resize(size)) => (Some(size), ISLAND_RELEASES, Some(0)),
        Way::Cell(Shape::ResizeInHeap(size)) => (Some(size), ISLAND_RELEASES, Some(1)),
        Way::Cell(Shape::Release) => (None, ISLAND_RELEASES, Some(0)),
        Way::Cell(Shape::ResizeInPlace | Shape::UsableSize) | Way::CellAlways | Way::Jump => {
            put_way_to_probe(&mut writer, index, way, site);
            let (real, addresses) = put_real(&mut writer, site)?;
            return finish(writer, real, addresses);
        }
    };
    let mut to_probe = vec![writer.jump_if_traced(mode)];
    if let Some(block) = block {
        writer.address(16, FILTER);
        writer.put(&[0xf940_0210]); // ldr x16, [x16]
        writer.look_up_page(block);
        let none = Pending(writer.words.len());
        // cbz w17; add x16, x16, #FILTER_PAGES
        writer.put(&[0x3400_0011, 0x9144_0210]);
        writer.look_up_granule(block);
        to_probe.push(Pending(writer.words.len()));
        writer.put(&[0x3500_0011]); // cbnz w17
        writer.land(&none);
    }
    if let Some(size) = size {
        to_probe.push(writer.count_down(size, island.thread_words)?);
    }
    let moved = site.moved(writer.here())?;
    let (here, addresses) = (writer.here(), moved.addresses);
    writer.put(&words_of(&moved.code));
    let mut real = here;
    if site.is_signed {
        real = put_real(&mut writer, site)?.0;
    }
    to_probe.iter().for_each(|pending| writer.land(pending));
    put_way_to_probe(&mut writer, index, way, site);
    finish(writer, real, addresses)
}

fn words_of(code: &[u8]) -> Vec<u32> {
    code.chunks_exact(4).map(|word| word.try_into().map_or(0, u32::from_le_bytes)).collect()
}

/// The function as the probe calls it: its return address is signed first where the function has
/// done so.
fn put_real(writer: &mut Writer, site: &Site) -> Option<(u64, Vec<(u64, u64)>)> {
    let real = writer.here();
    if site.is_signed {
        writer.put(&[SIGN]);
    }
    let moved = site.moved(writer.here())?;
    writer.put(&words_of(&moved.code));
    Some((real, moved.addresses))
}

/// x16: the cell; x17: the stub, or the function of the probe.
fn put_way_to_probe(writer: &mut Writer, index: usize, way: Way, site: &Site) {
    if site.is_signed {
        writer.put(&[AUTHENTICATE]);
    }
    let stub = if way == Way::Jump { target(index) } else { STUB };
    writer.address(16, target(index));
    writer.put(&[0xf940_0210]); // ldr x16, [x16]
    writer.address(17, stub);
    writer.put(&[0xf940_0231, 0xd61f_0220]); // ldr x17, [x17]; br x17
}

fn finish(writer: Writer, real: u64, addresses: Vec<(u64, u64)>) -> Option<Piece> {
    let code: Vec<u8> = writer.words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let fits = code.len() as u64 <= PAD;
    fits.then_some(Piece { start: writer.start, code, real, addresses })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Words as `aarch64-linux-gnu-objdump` reads them.
    #[test]
    fn the_hot_path_of_malloc_counts_down() {
        let code: Vec<u8> =
            [SIGN, 0xb400_0200, 0xd65f_03c0].iter().flat_map(|word| word.to_le_bytes()).collect();
        let site = Site::examine(&code, 0x4fff_0000, 12).expect("paciasp; cbz; ret");
        let island = Island { start: 0x5000_0000, thread_words: 0x1_2340 };
        let piece = piece(island, 0, Way::Cell(Shape::Allocate(Size::Argument(0))), &site).expect("fits");
        let words = words_of(&piece.code);
        let hot = [
            0x10ff_8011, // adr x17, the mode byte
            0x3940_0231, // ldrb w17, [x17]
            0x3500_03d1, // cbnz w17, the way to the probe
            0xd53b_d050, // mrs x16, tpidr_el0
            0xd284_6811, // mov x17, #0x2340
            0xf2a0_0031, // movk x17, #1, lsl 16
            0x8b11_0210, // add x16, x16, x17
            0xf940_0211, // ldr x17, [x16]
            0xeb00_0231, // subs x17, x17, x0
            0x5400_02e3, // b.lo, the way to the probe
            0xf900_0211, // str x17, [x16]
            0xb400_0040, // the moved cbz
        ];
        assert_eq!(words[..hot.len()], hot);
        assert_eq!(
            words[(piece.real - piece.start) as usize / 4],
            SIGN,
            "the probe's call signs its own address"
        );
        assert_eq!(words[32], AUTHENTICATE, "the way to the probe");
    }

    /// Words as `aarch64-linux-gnu-objdump` reads them.
    #[test]
    fn the_block_of_a_function_of_a_heap_is_its_second_argument() {
        let code: Vec<u8> =
            [0xd503_201f_u32, 0xd65f_03c0].iter().flat_map(|word| word.to_le_bytes()).collect();
        let site = Site::examine(&code, 0x4fff_0000, 8).expect("nop; ret");
        let island = Island { start: 0x5000_0000, thread_words: 0x1_2340 };
        let way = Way::Cell(Shape::ResizeInHeap(Size::Product(2)));
        let words = words_of(&piece(island, 0, way, &site).expect("fits").code);
        for word in [
            0xd34c_7c31, // ubfx x17, x1, #12, #20
            0x8b41_1831, // add x17, x1, x1, lsr #6
            0x9b03_c451, // msub x17, x2, x3, x17
        ] {
            assert!(words.contains(&word), "{word:x}: {words:x?}");
        }
    }
}
