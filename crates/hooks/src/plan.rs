//! Which functions of a binary are hooked, where, and how.

use std::collections::BTreeSet;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use heapwise_format::entry_hooks::{Alignment, Shape, Size};

use crate::binary::{Binary, definitions};
use crate::family::{Family, Function, Reach};
use crate::function::Allocator;
use crate::island::{self, Way};
use crate::site::Refusal;
use crate::site::native::Site;

/// A function to be hooked.
#[derive(Debug, Clone)]
pub struct Hook {
    /// Its name.
    pub name: String,
    /// What it does; the shape in its cell.
    pub shape: Shape,
    /// Where it has the alignment of its block.
    pub alignment: Alignment,
    /// Index of its family in [`Plan::families`].
    pub family: usize,
    /// How it continues.
    pub way: Way,
    /// Its beginning, at the addresses of the process.
    pub site: Site,
    /// Bytes of the file at [`Site::at`].
    pub original: Vec<u8>,
}

/// How the sizes of a family's blocks are found, at the addresses of the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sizes {
    /// The dynamic linker leads to the family: the probe knows its functions.
    pub is_linked: bool,
    /// The function that returns the usable size of a block.
    pub usable_size: Option<u64>,
    /// Address and number of the size classes.
    pub classes: Option<(u64, u64)>,
    /// See [`Family::natural_alignment`].
    pub natural_alignment: u64,
}

impl Sizes {
    fn new(family: &Family, bias: u64) -> Sizes {
        Sizes {
            is_linked: family.reach == Reach::Linker,
            usable_size: family.usable_size().map(|address| bias.wrapping_add(address)),
            classes: family.classes.map(|(address, count)| (bias.wrapping_add(address), count)),
            natural_alignment: family.natural_alignment(),
        }
    }
}

/// What is to be done with a binary.
#[derive(Debug, Clone, Default)]
pub struct Plan {
    /// Functions to hook.
    pub hooks: Vec<Hook>,
    /// The families of those functions.
    pub families: Vec<Sizes>,
    /// Functions that cannot be hooked.
    pub refused: Vec<(String, Refusal)>,
    /// Code of the allocators, as first address and length: calls from there are part of a call
    /// that is recorded already.
    pub ranges: Vec<(u64, u64)>,
}

/// Bytes that are read behind a function: a jump may cover padding.
const BEHIND: u64 = 32;
/// Bytes that are read of a function without a size, and at most of any.
const UNSIZED: u64 = 64;
const MOST_BYTES: u64 = 1 << 20;
/// Larger than the code of any allocator.
const MOST_HULL: u64 = 4 << 20;

impl Plan {
    /// Plans hooks for families of the binary in `path`, which is loaded with `bias`.
    #[must_use]
    pub fn new(path: &Path, binary: &Binary, families: &[&Family], bias: u64) -> Plan {
        let mut plan = Plan::default();
        let Ok(file) = File::open(path) else { return plan };
        for (index, family) in families.iter().enumerate() {
            for function in family.functions.iter().filter(|function| function.shape != Shape::UsableSize) {
                match examine(&file, binary, function, bias) {
                    Ok(hook) => plan.hooks.push(Hook { family: index, ..hook }),
                    Err(refusal) => plan.refused.push((function.name.clone(), refusal)),
                }
            }
            plan.ranges.extend(ranges(binary, family, bias));
            plan.families.push(Sizes::new(family, bias));
        }
        plan.skip_forwarders();
        plan.hooks.truncate(island::MOST);
        plan
    }

    /// Adds functions that jump to a function of the probe; those that cannot be hooked stay as
    /// they are.
    pub fn add_jumps(&mut self, path: &Path, binary: &Binary, names: &[&str], bias: u64) {
        let Ok(file) = File::open(path) else { return };
        for (name, address, size) in definitions(path, names) {
            let (shape, alignment) = (Shape::UsableSize, Alignment::None);
            let function = Function { name, shape, alignment, address, size };
            if let Ok(hook) = examine(&file, binary, &function, bias) {
                let is_known = self.hooks.iter().any(|known| known.site.at == hook.site.at);
                if !is_known && self.hooks.len() < island::MOST {
                    self.hooks.push(Hook { way: Way::Jump, ..hook });
                }
            }
        }
    }

    /// Drops functions that end in jumps to other hooked ones only, and sends functions of which
    /// some path ends so always to the probe.
    fn skip_forwarders(&mut self) {
        let entries: BTreeSet<u64> = self.hooks.iter().map(|hook| hook.site.at).collect();
        // A site is behind a landing pad of 4 bytes, if there is one.
        let is_hooked = |target: u64| entries.contains(&target) || entries.contains(&(target + 4));
        self.hooks.retain(|hook| {
            let forwards = hook.site.forwards_to();
            forwards.is_empty() || !forwards.iter().all(|target| is_hooked(*target))
        });
        for hook in &mut self.hooks {
            if hook.site.exits.iter().any(|exit| is_hooked(*exit)) {
                hook.way = Way::CellAlways;
            }
        }
    }
}

fn examine(file: &File, binary: &Binary, function: &Function, bias: u64) -> Result<Hook, Refusal> {
    let piece = binary
        .code
        .iter()
        .find(|code| (code.address..code.address.saturating_add(code.bytes)).contains(&function.address));
    let piece = piece.ok_or(Refusal::Changed)?;
    let left = piece.address + piece.bytes - function.address;
    let size = if function.size == 0 { UNSIZED } else { function.size.min(MOST_BYTES) };
    let mut code = vec![0; (size + BEHIND).min(left) as usize];
    let offset = piece.offset + (function.address - piece.address);
    file.read_exact_at(&mut code, offset).map_err(|_| Refusal::Changed)?;
    let entry = bias.wrapping_add(function.address);
    let site = Site::examine(&code, entry, function.size.min(MOST_BYTES) as usize)?;
    let from = (site.at - entry) as usize;
    let original = code.get(from..from + site.len).ok_or(Refusal::TooShort)?.to_vec();
    let way = match function.shape.size() {
        Some(Size::Text) => Way::CellAlways,
        _ => Way::Cell(function.shape),
    };
    let Function { name, shape, alignment, .. } = function.clone();
    Ok(Hook { name, shape, alignment, family: 0, way, site, original })
}

/// The code of an allocator: everything between its first and its last function, without the parts
/// around functions of the rest of the program.
fn ranges(binary: &Binary, family: &Family, bias: u64) -> Vec<(u64, u64)> {
    // libc's `reallocarray` is in a file of its own, beside code that allocates for itself.
    let is_apart = |function: &Function| {
        family.allocator == Allocator::Libc && matches!(&*function.name, "reallocarray" | "cfree")
    };
    let mut functions: Vec<&Function> = family.functions.iter().collect();
    functions.sort_unstable_by_key(|function| (is_apart(function), function.address));
    let mut found: Vec<(u64, u64)> = Vec::new();
    let mut last_is_apart = true;
    for function in functions {
        let end = function.address + function.size;
        let joins = |(start, _): &&mut (u64, u64)| {
            let between = *start..function.address;
            !binary.others.iter().any(|other| between.contains(other)) && end - *start <= MOST_HULL
        };
        let is_apart = is_apart(function);
        match found.last_mut().filter(|_| !is_apart && !last_is_apart).filter(joins) {
            Some(group) => group.1 = group.1.max(end),
            None => found.push((function.address, end)),
        }
        last_is_apart = is_apart;
    }
    found.into_iter().map(|(start, end)| (bias.wrapping_add(start), end - start)).collect()
}
