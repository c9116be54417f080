//! Over jemalloc, inside the executable.

use rust_programs::Counted;

#[global_allocator]
static ALLOCATOR: Counted<tikv_jemallocator::Jemalloc> = Counted(tikv_jemallocator::Jemalloc);

fn main() {
    rust_programs::main();
}
