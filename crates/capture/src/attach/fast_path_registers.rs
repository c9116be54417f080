//! A check of the compiled probe: the stub of entry hooks calls the fast path without saving vector
//! registers.

use std::collections::BTreeSet;

use heapwise_format::entry_hooks::{TABLE_SYMBOL, TableWord};
use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory};
use object::{Object, ObjectSection, ObjectSymbol};

use crate::preload;

/// The code of the library, and its first address.
struct Code {
    bytes: Vec<u8>,
    start: u64,
}

impl Code {
    fn from(&self, address: u64) -> Decoder<'_> {
        let at = usize::try_from(address - self.start).expect("in the code");
        Decoder::with_ip(64, &self.bytes[at..], address, DecoderOptions::NONE)
    }

    /// Every instruction that a function may execute, with the functions that it calls.
    fn reachable(&self, function: u64) -> Vec<Instruction> {
        let (mut pending, mut seen, mut found) = (vec![function], BTreeSet::new(), Vec::new());
        while let Some(start) = pending.pop() {
            for instruction in self.from(start).iter() {
                if !seen.insert(instruction.ip()) {
                    break;
                }
                found.push(instruction);
                match instruction.flow_control() {
                    FlowControl::Next => {}
                    FlowControl::ConditionalBranch | FlowControl::Call => {
                        pending.push(instruction.near_branch_target());
                    }
                    FlowControl::UnconditionalBranch => {
                        pending.push(instruction.near_branch_target());
                        break;
                    }
                    FlowControl::Return | FlowControl::Exception => break,
                    other => panic!("{:x}: {other:?} leads to an unknown place", instruction.ip()),
                }
            }
        }
        found
    }
}

#[test]
fn the_fast_path_changes_no_vector_registers() {
    let bytes = std::fs::read(preload::path().expect("the library")).expect("readable");
    let file = object::File::parse(&*bytes).expect("an ELF file");
    let table = file.dynamic_symbols().find(|symbol| symbol.name() == Ok(TABLE_SYMBOL)).expect("a table");
    let place = table.address() + 8 * TableWord::Stub as u64;
    let mut relocations = file.dynamic_relocations().expect("relocations");
    let (_, stub) = relocations.find(|(at, _)| *at == place).expect("the stub");
    let text = file.section_by_name(".text").expect("code");
    let code = Code { bytes: text.data().expect("bytes").to_vec(), start: text.address() };
    let stub = code.from(stub.addend() as u64);
    let stub: Vec<Instruction> =
        stub.into_iter().take_while(|one| one.flow_control() != FlowControl::Return).collect();
    let real = stub.iter().position(|one| one.flow_control() == FlowControl::IndirectCall).expect("the call");
    let first_call = |part: &[Instruction]| {
        part.iter().find(|one| one.flow_control() == FlowControl::Call).expect("a call").near_branch_target()
    };
    let mut info = InstructionInfoFactory::new();
    for function in [first_call(&stub[..real]), first_call(&stub[real..])] {
        let instructions = code.reachable(function);
        assert!(instructions.len() > 50, "{} instructions", instructions.len());
        for instruction in &instructions {
            for used in info.info(instruction).used_registers() {
                let register = used.register();
                assert!(
                    !register.is_vector_register() && !register.is_mm() && !register.is_st(),
                    "{instruction:?}"
                );
            }
        }
    }
}
