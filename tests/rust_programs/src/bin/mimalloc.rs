//! Over mimalloc, inside the executable.

use rust_programs::Counted;

#[global_allocator]
static ALLOCATOR: Counted<mimalloc::MiMalloc> = Counted(mimalloc::MiMalloc);

fn main() {
    rust_programs::main();
}
