//! Allocators inside an executable that only entry hooks reach, and their hooks in a program that
//! has not begun.

use std::fs;
use std::path::{Path, PathBuf};

use heapwise_format::entry_hooks::StateWord;
use heapwise_hooks::binary::{self, Binary};
use heapwise_hooks::family::{Family, Place, Reach, families};
use heapwise_hooks::island;
use heapwise_hooks::maps::Maps;
use heapwise_hooks::plan::Plan;

use super::install::{Installer, Prepared};
use crate::failure::{Failure, Outcome};
use crate::process_files;

/// The allocators inside an executable that only entry hooks reach.
#[derive(Debug)]
pub(crate) struct OwnAllocators {
    /// Path of the executable in the memory map of the program.
    mapped: PathBuf,
    /// Path by which this process reads it.
    file: PathBuf,
    binary: Binary,
    families: Vec<Family>,
}

impl OwnAllocators {
    /// Those of a program that will be started; `None` when it has none.
    pub(crate) fn of(executable: &Path) -> Option<Self> {
        let folder = executable.parent()?;
        let binary = read(executable, folder, Path::new("/"))?;
        Self::reached_by_hooks(executable.canonicalize().ok()?, executable.to_owned(), binary)
    }

    /// Those of a process, wherever its files are.
    pub(crate) fn of_process(pid: u32) -> Option<Self> {
        let mapped = fs::read_link(format!("/proc/{pid}/exe")).ok()?;
        let [file, root] = ["exe", "root"].map(|name| PathBuf::from(format!("/proc/{pid}/{name}")));
        let binary = read(&file, &process_files::folder_of(pid, &mapped), &root)?;
        Self::reached_by_hooks(mapped, file, binary)
    }

    fn reached_by_hooks(mapped: PathBuf, file: PathBuf, binary: Binary) -> Option<Self> {
        let mut families = families(&binary, Place::Executable);
        families.retain(|family| family.reach == Reach::Entry);
        (!families.is_empty()).then_some(Self { mapped, file, binary, families })
    }

    /// Hooks their functions in a program that executes none of them at the moment. `map` maps
    /// memory for an island of a length at an address; false when something is there.
    pub(crate) fn install(
        &self,
        installer: &Installer<'_>,
        maps: &Maps,
        mut map: impl FnMut(u64, u64) -> Outcome<bool>,
    ) -> Outcome<Hooked> {
        let Self { mapped, file, binary, families } = self;
        let bias = maps.bias(mapped, binary).ok_or_else(|| Failure::new("it is not mapped"))?;
        let plan = Plan::new(file, binary, &families.iter().collect::<Vec<_>>(), bias);
        let mut all = Prepared { refused: plan.refused.clone(), ..Prepared::default() };
        if !plan.hooks.is_empty() {
            let len = island::bytes(plan.hooks.len());
            let mut places = maps.room_near(maps.span(mapped).unwrap_or_default(), len).into_iter();
            let island = loop {
                let place = places.next();
                let place = place.ok_or_else(|| Failure::new("no free memory near the program's code"))?;
                if map(place, len)? {
                    break place;
                }
            };
            all.refused.clear();
            installer.prepare(plan, island, true, &mut all)?;
            installer.image.set_state(StateWord::ForeignBlocks, 1)?;
            installer.announce(&all)?;
            installer.apply(&all.patches)?;
        }
        let refused = all.refused.into_iter().map(|(name, why)| (name, why.to_string())).collect();
        Ok(Hooked { functions: all.patches.len(), refused })
    }
}

/// As [`Binary::read_in`], for an executable that may have an allocator inside.
fn read(executable: &Path, folder: &Path, root: &Path) -> Option<Binary> {
    binary::may_define_allocator(executable, folder, root)
        .then(|| Binary::read_in(executable, folder, root))?
}

/// The hooks of a program that was started.
#[derive(Debug)]
pub struct Hooked {
    /// Number of hooked functions.
    pub functions: usize,
    /// Names of functions that could not be hooked, and why.
    pub refused: Vec<(String, String)>,
}
