//! Writes shell completions and manual pages, from the definitions of the command line.
//!
//! `cargo run --example manuals -- DIR` makes `DIR/completions` and `DIR/man`.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use clap_complete::Shell;

fn main() -> io::Result<()> {
    let folder = std::env::args_os().nth(1).map_or_else(|| PathBuf::from("."), PathBuf::from);
    completions(&folder.join("completions"))?;
    let man = folder.join("man");
    fs::create_dir_all(&man)?;
    clap_mangen::generate_to(heapwise::command(), &man)
}

fn completions(folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        clap_complete::generate_to(shell, &mut heapwise::command(), "heapwise", folder)?;
    }
    Ok(())
}
