//! Installing hooks: islands, cells and patches are written while nothing uses them; the jumps come
//! last.

use heapwise_format::entry_hooks::{ISLAND_ALLOCATES, ISLAND_RELEASES, Patch, StateWord, TableWord};
use heapwise_hooks::island::{self, Island, Way, native::piece};
use heapwise_hooks::plan::{Hook, Plan};
use heapwise_hooks::site::Refusal;

use super::memory::ProcessMemory;
use super::probe_image::ProbeImage;
use crate::failure::{Failure, Outcome};

/// Writes the island of a plan, which was mapped at `start`, and its cells from number `first_cell`
/// on; the patches are not applied yet. Functions whose code is not that of the file are refused.
pub(crate) fn prepare(
    memory: &ProcessMemory,
    image: &ProbeImage<'_>,
    plan: &mut Plan,
    start: u64,
    first_cell: usize,
) -> Outcome<Vec<Patch>> {
    let write = |address: u64, bytes: &[u8]| memory.write(address, bytes).map_err(unwritable);
    write(start + island::STUB, &image.word(TableWord::Stub).to_le_bytes())?;
    write(start + island::FILTER, &image.word(TableWord::Filter).to_le_bytes())?;
    let is_unchanged =
        |hook: &Hook| memory.read(hook.site.at, hook.original.len()).is_ok_and(|code| code == hook.original);
    let (hooks, changed): (Vec<Hook>, Vec<Hook>) =
        std::mem::take(&mut plan.hooks).into_iter().partition(is_unchanged);
    plan.refused.extend(changed.into_iter().map(|hook| (hook.name, Refusal::Changed)));
    let place = Island { start, thread_words: image.thread_words };
    let mut prepared = Vec::new();
    for (index, hook) in hooks.into_iter().enumerate() {
        let ready = piece(place, index, hook.way, &hook.site).and_then(|piece| {
            let jump = hook.site.jump(piece.start)?;
            Some((piece, jump))
        });
        let Some((piece, jump)) = ready else {
            plan.refused.push((hook.name, Refusal::NoRoom));
            continue;
        };
        write(piece.start, &piece.code)?;
        if hook.way != Way::Jump {
            let cell = first_cell + index;
            image.set_cell(cell, piece.real, hook.shape)?;
            write(start + island::target(index), &image.cell(cell).to_le_bytes())?;
        }
        prepared.push(patch(&hook, &jump).ok_or_else(|| Failure::new("a patch is too long"))?);
        plan.hooks.push(hook);
    }
    image.add_island(start, island::bytes(plan.hooks.len()))?;
    // The probe switches islands that it knows of; the modes of before are copied.
    let modes = image.state(StateWord::Modes)?.to_le_bytes();
    write(start + ISLAND_ALLOCATES as u64, &modes[ISLAND_ALLOCATES..=ISLAND_RELEASES])?;
    Ok(prepared)
}

fn patch(hook: &Hook, jump: &[u8]) -> Option<Patch> {
    let (mut original, mut replacement) = ([0; Patch::MOST], [0; Patch::MOST]);
    let len = hook.original.len();
    original.get_mut(..len)?.copy_from_slice(&hook.original);
    replacement.get_mut(..len)?.copy_from_slice(jump);
    Some(Patch { address: hook.site.at, len, original, replacement })
}

fn unwritable(error: std::io::Error) -> Failure {
    Failure::new(format!("the memory of the process cannot be written: {error}"))
}
