//! Installing hooks: islands, cells and patches are written while nothing uses them; the jumps come
//! last.

use std::collections::BTreeMap;

use heapwise_format::entry_hooks::{
    ISLAND_ALLOCATES, ISLAND_RELEASES, Patch, StateWord, TableWord, UNKNOWN_FAMILY,
};
use heapwise_hooks::island::{self, Island, Piece, Way, native::piece};
use heapwise_hooks::plan::{Hook, Plan};
use heapwise_hooks::site::Refusal;

use super::memory::ProcessMemory;
use super::probe_image::ProbeImage;
use crate::failure::{Failure, Outcome};

/// Hooks that are ready: only the jumps are missing.
#[derive(Debug, Default)]
pub(crate) struct Prepared {
    /// Bytes to replace.
    pub(crate) patches: Vec<Patch>,
    /// Old and new addresses of instructions behind the first of each function: where a thread may
    /// be inside the bytes to replace.
    pub(crate) moves: BTreeMap<u64, u64>,
    /// Cells in use.
    pub(crate) cells: usize,
    /// Ranges of allocators' code.
    pub(crate) ranges: Vec<(u64, u64)>,
    /// Functions that cannot be hooked.
    pub(crate) refused: Vec<(String, Refusal)>,
}

/// Refuses functions whose code is not that of the file.
pub(crate) fn check(memory: &ProcessMemory, plan: &mut Plan) {
    let is_unchanged =
        |hook: &Hook| memory.read(hook.site.at, hook.original.len()).is_ok_and(|code| code == hook.original);
    let (hooks, changed): (Vec<Hook>, Vec<Hook>) =
        std::mem::take(&mut plan.hooks).into_iter().partition(is_unchanged);
    plan.hooks = hooks;
    plan.refused.extend(changed.into_iter().map(|hook| (hook.name, Refusal::Changed)));
}

/// A process whose functions are hooked.
pub(crate) struct Installer<'a> {
    pub(crate) memory: &'a ProcessMemory,
    pub(crate) image: &'a ProbeImage<'a>,
}

impl Installer<'_> {
    /// An island of an earlier attach with the code of this plan: threads may be inside it, so it
    /// is used again only if nothing would change.
    pub(crate) fn find_island(&self, plan: &Plan) -> Option<u64> {
        let len = island::bytes(plan.hooks.len());
        let islands = self.image.islands().ok()?.into_iter().filter(|(_, known)| *known == len);
        let is_same = |start: u64| {
            let pieces = self.pieces(plan, start);
            plan.hooks.len() == pieces.len()
                && pieces.iter().all(|(_, piece, _)| {
                    self.memory.read(piece.start, piece.code.len()).is_ok_and(|code| code == piece.code)
                })
        };
        islands.map(|(start, _)| start).find(|start| is_same(*start))
    }

    /// The code of each function and the jump to it, for an island at `start`.
    fn pieces<'p>(&self, plan: &'p Plan, start: u64) -> Vec<(&'p Hook, Piece, Vec<u8>)> {
        let place = Island { start, thread_words: self.image.thread_words };
        let ready = plan.hooks.iter().enumerate().filter_map(|(index, hook)| {
            let piece = piece(place, index, hook.way, &hook.site)?;
            let jump = hook.site.jump(piece.start)?;
            Some((hook, piece, jump))
        });
        ready.collect()
    }

    /// Writes the island of a plan, mapped at `start`, and its cells.
    pub(crate) fn prepare(&self, plan: Plan, start: u64, is_new: bool, all: &mut Prepared) -> Outcome {
        let write = |address: u64, bytes: &[u8]| self.memory.write(address, bytes).map_err(unwritable);
        write(start + island::STUB, &self.image.word(TableWord::Stub).to_le_bytes())?;
        write(start + island::FILTER, &self.image.word(TableWord::Filter).to_le_bytes())?;
        let pieces = self.pieces(&plan, start);
        let families = plan.families.iter().map(|sizes| self.image.family(sizes));
        let families: Vec<usize> = families.collect::<Outcome<_>>()?;
        for (index, (hook, piece, jump)) in pieces.iter().enumerate() {
            if is_new {
                write(piece.start, &piece.code)?;
            }
            let target = match hook.way {
                Way::Jump => self.image.redirect(&hook.name, piece.real)?,
                Way::Cell(_) | Way::CellAlways => {
                    let family = families.get(hook.family).copied().unwrap_or(UNKNOWN_FAMILY);
                    self.image.set_cell(all.cells, piece.real, hook, family)?;
                    all.cells += 1;
                    self.image.cell(all.cells - 1)
                }
            };
            write(start + island::target(index), &target.to_le_bytes())?;
            all.patches.push(patch(hook, jump).ok_or_else(|| Failure::new("a patch is too long"))?);
            all.moves.extend(piece.addresses.iter().copied().filter(|(old, _)| *old != hook.site.at));
        }
        let hooked: Vec<&str> = pieces.iter().map(|(hook, ..)| &*hook.name).collect();
        let unreachable = plan.hooks.iter().filter(|hook| !hooked.contains(&&*hook.name));
        all.refused.extend(unreachable.map(|hook| (hook.name.clone(), Refusal::NoRoom)));
        all.refused.extend(plan.refused.iter().cloned());
        all.ranges.extend(&plan.ranges);
        if is_new {
            self.image.add_island(start, island::bytes(plan.hooks.len()))?;
        }
        // The probe switches islands that it knows of; the modes of before are copied.
        let modes = self.image.state(StateWord::Modes)?.to_le_bytes();
        write(start + ISLAND_ALLOCATES as u64, &modes[ISLAND_ALLOCATES..=ISLAND_RELEASES])
    }

    /// Notes what will be replaced in the probe's tables.
    pub(crate) fn announce(&self, all: &Prepared) -> Outcome {
        self.image.set_ranges(&all.ranges)?;
        self.image.set_patches(&all.patches)?;
        self.image.set_state(StateWord::Hooked, all.patches.len() as u64)
    }

    /// Writes the jumps.
    pub(crate) fn apply(&self, patches: &[Patch]) -> Outcome {
        for Patch { address, len, replacement, .. } in patches {
            let bytes = replacement.get(..*len).unwrap_or_default();
            self.memory.write(*address, bytes).map_err(unwritable)?;
        }
        Ok(())
    }

    /// Writes the original bytes where the jumps are.
    pub(crate) fn restore(&self, patches: &[Patch]) -> Outcome {
        for Patch { address, len, original, replacement } in patches {
            let there = self.memory.read(*address, *len).map_err(unwritable)?;
            if replacement.get(..*len) == Some(&*there) {
                let bytes = original.get(..*len).unwrap_or_default();
                self.memory.write(*address, bytes).map_err(unwritable)?;
            }
        }
        Ok(())
    }
}

fn patch(hook: &Hook, jump: &[u8]) -> Option<Patch> {
    let (mut original, mut replacement) = ([0; Patch::MOST], [0; Patch::MOST]);
    let len = hook.original.len();
    original.get_mut(..len)?.copy_from_slice(&hook.original);
    replacement.get_mut(..len)?.copy_from_slice(jump);
    Some(Patch { address: hook.site.at, len, original, replacement })
}

fn unwritable(error: std::io::Error) -> Failure {
    Failure::new(format!("the memory of the process: {error}"))
}
