//! x86-64. The hot path changes nothing but flags; functions do not rely on them.

use heapwise_format::entry_hooks::{
    FILTER_FOLD, FILTER_GRANULES, FILTER_PAGES, ISLAND_ALLOCATES, ISLAND_RELEASES, Shape, Size,
};

use super::{DATA, FILTER, Island, PAD, Piece, STUB, Way, target};
use crate::site::x86_64::Site;

/// Code that is being written at an address.
struct Writer {
    start: u64,
    code: Vec<u8>,
    data: u64,
}

/// A distance that is written later.
struct Pending(usize);

/// The argument that is the block to free or to resize.
#[derive(Clone, Copy)]
enum BlockArgument {
    /// rdi.
    First,
    /// rsi.
    Second,
}

impl BlockArgument {
    /// Last byte of an instruction that moves or adds the argument to rax.
    fn to_rax(self) -> u8 {
        match self {
            BlockArgument::First => 0xf8,
            BlockArgument::Second => 0xf0,
        }
    }
}

impl Writer {
    fn here(&self) -> u64 {
        self.start + self.code.len() as u64
    }

    fn put(&mut self, bytes: &[u8]) {
        self.code.extend(bytes);
    }

    /// An instruction whose last four bytes before `after` are a distance to an offset of the data
    /// page.
    fn relative(&mut self, opcode: &[u8], offset: u64, after: &[u8]) {
        self.put(opcode);
        let next = self.here() + 4 + after.len() as u64;
        let distance = (self.data + offset).wrapping_sub(next) as i32;
        self.put(&distance.to_le_bytes());
        self.put(after);
    }

    /// A conditional jump to a place that is not known yet.
    fn jump_if(&mut self, condition: u8) -> Pending {
        self.put(&[0x0f, condition, 0, 0, 0, 0]);
        Pending(self.code.len() - 4)
    }

    /// A conditional jump back.
    fn jump_back_if(&mut self, condition: u8, to: u64) {
        self.put(&[0x0f, condition]);
        let distance = to.wrapping_sub(self.here() + 4) as i32;
        self.put(&distance.to_le_bytes());
    }

    /// Lets a pending jump lead here.
    fn land(&mut self, pending: &Pending) {
        let distance = (self.code.len() - pending.0 - 4) as u32;
        self.code[pending.0..pending.0 + 4].copy_from_slice(&distance.to_le_bytes());
    }

    /// `cmp byte ptr [mode], 0; jne`.
    fn jump_if_traced(&mut self, mode: usize) -> Pending {
        self.relative(&[0x80, 0x3d], mode as u64, &[0]);
        self.jump_if(NOT_EQUAL)
    }

    /// Compares the page filter's byte of the block's page with 0.
    fn look_up_page(&mut self, block: BlockArgument) {
        self.put(&[0x50, 0x48, 0x89, block.to_rax()]); // push rax; mov rax, block
        self.look_up(12, FILTER_PAGES, 0);
    }

    /// Compares the page filter's byte of the block's granule with 0.
    fn look_up_granule(&mut self, block: BlockArgument) {
        self.put(&[0x50, 0x48, 0x89, block.to_rax()]); // push rax; mov rax, block
        // shr rax, fold; add rax, block
        self.put(&[0x48, 0xc1, 0xe8, FILTER_FOLD, 0x48, 0x01, block.to_rax()]);
        self.look_up(4, FILTER_GRANULES, FILTER_PAGES);
    }

    /// Compares a byte of the page filter, by rax, with 0.
    fn look_up(&mut self, shift: u8, bytes: usize, offset: usize) {
        self.put(&[0x48, 0xc1, 0xe8, shift, 0x25]); // shr rax, shift; and eax, bytes - 1
        self.put(&(bytes as u32 - 1).to_le_bytes());
        self.relative(&[0x48, 0x03, 0x05], FILTER, &[]); // add rax, [filter]
        self.put(&[0x80, 0xb8]); // cmp byte ptr [rax + offset], 0
        self.put(&(offset as u32).to_le_bytes());
        self.put(&[0, 0x58]); // pop rax
    }

    /// Adds a size to the thread's countdown or subtracts it.
    fn count(&mut self, size: Size, opcode: u8, thread_words: i32) -> Option<()> {
        const SECOND_BYTE: [u8; 3] = [0x3c, 0x34, 0x14]; // rdi, rsi, rdx
        let (number, product) = match size {
            Size::Argument(number) => (number, None),
            // push; imul with the next argument; …; pop
            Size::Product(0) => (0, Some(([0x57, 0x48, 0x0f, 0xaf, 0xfe], 0x5f))),
            Size::Product(1) => (1, Some(([0x56, 0x48, 0x0f, 0xaf, 0xf2], 0x5e))),
            Size::Product(2) => (2, Some(([0x52, 0x48, 0x0f, 0xaf, 0xd1], 0x5a))),
            Size::Product(_) | Size::Text => return None,
        };
        if let Some((multiply, _)) = product {
            self.put(&multiply);
        }
        self.put(&[0x64, 0x48, opcode, *SECOND_BYTE.get(usize::from(number))?, 0x25]);
        self.put(&thread_words.to_le_bytes());
        if let Some((_, restore)) = product {
            self.put(&[restore]);
        }
        Some(())
    }
}

const NOT_EQUAL: u8 = 0x85;
const EQUAL: u8 = 0x84;
const BELOW: u8 = 0x82;
const SUB: u8 = 0x29;
const ADD: u8 = 0x01;

/// The code of function number `index` of an island; `None` when it does not fit.
#[must_use]
pub fn piece(island: Island, index: usize, way: Way, site: &Site) -> Option<Piece> {
    let start = island.start + DATA + PAD * index as u64;
    let mut writer = Writer { start, code: Vec::new(), data: island.start };
    let thread_words = i32::try_from(island.thread_words).ok()?;
    let (size, mode, block) = match way {
        Way::Cell(Shape::Allocate(size) | Shape::AllocateTo(size)) => (Some(size), ISLAND_ALLOCATES, None),
        Way::Cell(Shape::Resize(size)) => (Some(size), ISLAND_RELEASES, Some(BlockArgument::First)),
        Way::Cell(Shape::ResizeInHeap(size)) => (Some(size), ISLAND_RELEASES, Some(BlockArgument::Second)),
        Way::Cell(Shape::Release) => (None, ISLAND_RELEASES, Some(BlockArgument::First)),
        Way::Cell(Shape::ResizeInPlace | Shape::UsableSize) | Way::CellAlways | Way::Jump => {
            return unconditional(writer, index, way, site);
        }
    };
    let mut to_probe = vec![writer.jump_if_traced(mode)];
    let mut maybe = None;
    if let Some(block) = block {
        writer.look_up_page(block);
        maybe = Some((block, writer.jump_if(NOT_EQUAL)));
    }
    let after_lookup = writer.here();
    let mut exhausted = None;
    if let Some(size) = size {
        writer.count(size, SUB, thread_words)?;
        exhausted = Some(writer.jump_if(BELOW));
    }
    let (real, addresses) = put_moved(&mut writer, site)?;
    if let Some((block, maybe)) = maybe {
        writer.land(&maybe);
        writer.look_up_granule(block);
        writer.jump_back_if(EQUAL, after_lookup);
    }
    if let Some(exhausted) = exhausted {
        if block.is_some() {
            // A sample goes to the probe; it was not counted.
            writer.put(&[0xe9, 0, 0, 0, 0]);
            to_probe.push(Pending(writer.code.len() - 4));
        }
        writer.land(&exhausted);
        writer.count(size?, ADD, thread_words)?;
    }
    to_probe.iter().for_each(|pending| writer.land(pending));
    put_way_to_probe(&mut writer, index);
    finish(writer, real, addresses)
}

/// Code that always goes to the probe.
fn unconditional(mut writer: Writer, index: usize, way: Way, site: &Site) -> Option<Piece> {
    match way {
        Way::Jump => writer.relative(&[0xff, 0x25], target(index), &[]),
        Way::Cell(_) | Way::CellAlways => put_way_to_probe(&mut writer, index),
    }
    let (real, addresses) = put_moved(&mut writer, site)?;
    finish(writer, real, addresses)
}

fn put_moved(writer: &mut Writer, site: &Site) -> Option<(u64, Vec<(u64, u64)>)> {
    let real = writer.here();
    let moved = site.moved(real)?;
    writer.put(&moved.code);
    Some((real, moved.addresses))
}

/// `push [cell]; jmp [stub]`.
fn put_way_to_probe(writer: &mut Writer, index: usize) {
    writer.relative(&[0xff, 0x35], target(index), &[]);
    writer.relative(&[0xff, 0x25], STUB, &[]);
}

fn finish(writer: Writer, real: u64, addresses: Vec<(u64, u64)>) -> Option<Piece> {
    let fits = writer.code.len() as u64 <= PAD;
    fits.then_some(Piece { start: writer.start, code: writer.code, real, addresses })
}

#[cfg(test)]
mod tests {
    use super::*;
    use iced_x86::{Code, Decoder, DecoderOptions, Instruction, Register};

    const ISLAND: Island = Island { start: 0x5000_0000, thread_words: -0x80 };

    fn decoded(way: Way) -> (Piece, Vec<Instruction>) {
        let mut code = vec![0x41, 0x57, 0x41, 0x56, 0x41, 0x55, 0xc3];
        code.extend([0xcc; 16]);
        let site = Site::examine(&code, 0x4fff_0000, 7).expect("pushes");
        let piece = piece(ISLAND, 3, way, &site).expect("fits");
        let decoder = Decoder::with_ip(64, &piece.code, piece.start, DecoderOptions::NONE);
        let instructions: Vec<Instruction> = decoder.into_iter().collect();
        assert!(instructions.iter().all(|instruction| !instruction.is_invalid()), "{way:?}");
        (piece, instructions)
    }

    /// Every branch leads to the start of an instruction of the piece or back to the function, and
    /// every address is one of the data page.
    #[test]
    fn code_is_whole() {
        let arguments = [Size::Argument(0), Size::Argument(1), Size::Argument(2)];
        let products = [Size::Product(0), Size::Product(1), Size::Product(2)];
        let of_size = arguments.into_iter().chain(products).map(|size| {
            let [allocate, resize] = [Shape::Allocate(size), Shape::Resize(size)];
            [allocate, Shape::AllocateTo(size), resize, Shape::ResizeInHeap(size)].map(Way::Cell)
        });
        let others = [Way::Cell(Shape::Release), Way::Cell(Shape::ResizeInPlace), Way::CellAlways, Way::Jump];
        for way in of_size.flatten().chain(others) {
            let (piece, instructions) = decoded(way);
            let starts: Vec<u64> = instructions.iter().map(Instruction::ip).collect();
            assert!(starts.contains(&piece.real), "{way:?}");
            for instruction in &instructions {
                let target = instruction.near_branch_target();
                assert!(
                    target == 0 || starts.contains(&target) || target == 0x4fff_0006,
                    "{way:?} {target:x}"
                );
                if instruction.is_ip_rel_memory_operand() {
                    let place = instruction.ip_rel_memory_address() - ISLAND.start;
                    let known = [0, 1, STUB, FILTER, super::target(3)];
                    assert!(known.contains(&place), "{way:?} {place:x}");
                }
            }
        }
    }

    /// The block of a function with a heap is its second argument, and its size follows.
    #[test]
    fn functions_of_heaps_have_their_own_registers() {
        let used = |shape: Shape| {
            let (_, instructions) = decoded(Way::Cell(shape));
            let moves = instructions.into_iter().filter(|one| one.code() == Code::Mov_rm64_r64);
            moves.map(|one| one.op1_register()).collect::<Vec<_>>()
        };
        assert_eq!(used(Shape::Resize(Size::Argument(1))), [Register::RDI; 2]);
        assert_eq!(used(Shape::ResizeInHeap(Size::Product(2))), [Register::RSI; 2]);
    }

    #[test]
    fn the_hot_path_of_malloc_is_short() {
        let (piece, instructions) = decoded(Way::Cell(Shape::Allocate(Size::Argument(0))));
        let before = instructions.iter().take_while(|instruction| instruction.ip() < piece.real).count();
        assert_eq!(before, 4);
    }
}
