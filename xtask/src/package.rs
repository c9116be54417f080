//! `package`: a Debian package of the executable, the links for its old names, shell completions
//! and manual pages.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use heapwise_testkit::failure::Failure;

use crate::runner::{self, Build};

/// Tools that heapwise replaces. Their links are in a folder of their own, because another package
/// may have a tool of the same name.
const TOOLS: [&str; 4] = ["jeprof", "mem_parser", "mem_profiler", "mprof"];
const TOOLS_FOLDER: &str = "usr/lib/heapwise/bin";

/// Builds the package and prints its path.
pub(crate) fn command(root: &Path) -> Result<(), Failure> {
    let package = build(root)?;
    println!("{}", package.display());
    Ok(())
}

/// Builds the package in `target/package`.
fn build(root: &Path) -> Result<PathBuf, Failure> {
    let executable = runner::build_heapwise(root, Build::Release)?;
    let folder = root.join("target/package");
    let tree = folder.join("root");
    runner::fresh_folder(&folder)?;
    install(&executable, &tree.join("usr/bin/heapwise"), 0o755)?;
    for tool in TOOLS {
        let link = tree.join(TOOLS_FOLDER).join(tool);
        make_parent(&link)?;
        symlink("../../../bin/heapwise", &link).map_err(|error| Failure::at(&link, error))?;
    }
    install(&root.join("crates/probe/include/heapwise.h"), &tree.join("usr/include/heapwise.h"), 0o644)?;
    for name in ["README.md", "README.zh-CN.md", "CHANGELOG.md", "LICENSE-MIT", "LICENSE-APACHE"] {
        install(&root.join(name), &tree.join("usr/share/doc/heapwise").join(name), 0o644)?;
    }
    manuals(root, &folder, &tree)?;
    let architecture = first_line(Command::new("dpkg").arg("--print-architecture"))?;
    let control = tree.join("DEBIAN/control");
    make_parent(&control)?;
    write(&control, &control_text(&architecture, &libc_version()?))?;
    let package = folder.join(format!("heapwise_{}_{architecture}.deb", env!("CARGO_PKG_VERSION")));
    let mut pack = Command::new("dpkg-deb");
    runner::output(pack.args(["--root-owner-group", "--build"]).arg(&tree).arg(&package))?;
    Ok(package)
}

/// Completions where each shell looks for them, and compressed manual pages.
fn manuals(root: &Path, folder: &Path, tree: &Path) -> Result<(), Failure> {
    let made = folder.join("manuals");
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    let mut make = Command::new(cargo);
    make.args(["run", "--quiet", "--package", "heapwise", "--example", "manuals", "--"]);
    runner::run(make.arg(&made).current_dir(root))?;
    for (from, to) in [
        ("heapwise.bash", "usr/share/bash-completion/completions/heapwise"),
        ("_heapwise", "usr/share/zsh/vendor-completions/_heapwise"),
        ("heapwise.fish", "usr/share/fish/vendor_completions.d/heapwise.fish"),
    ] {
        install(&made.join("completions").join(from), &tree.join(to), 0o644)?;
    }
    let man = made.join("man");
    for page in fs::read_dir(&man).map_err(|error| Failure::at(&man, error))? {
        let page = page.map_err(|error| Failure::at(&man, error))?;
        let to = tree.join("usr/share/man/man1").join(page.file_name());
        install(&page.path(), &to, 0o644)?;
        runner::run(Command::new("gzip").args(["-9", "-n"]).arg(&to))?;
    }
    Ok(())
}

/// What the machine that built the executable has.
fn libc_version() -> Result<String, Failure> {
    first_line(Command::new("dpkg-query").args(["-W", "-f", "${Version}\n", "libc6"]))
}

fn control_text(architecture: &str, libc: &str) -> String {
    // Without the revision of the distribution.
    let libc = libc.split('-').next().unwrap_or(libc);
    format!(
        "Package: heapwise\n\
         Version: {}\n\
         Architecture: {architecture}\n\
         Section: devel\n\
         Priority: optional\n\
         Maintainer: The heapwise authors <heapwise@localhost>\n\
         Depends: libc6 (>= {libc})\n\
         Description: heap profiler: who is holding the memory?\n \
         Samples a running process, or records every block of a program. Reads and writes\n \
         the profiles of jemalloc, gperftools, heaptrack and pprof. The commands of the\n \
         tools that it replaces are in /{TOOLS_FOLDER}.\n",
        env!("CARGO_PKG_VERSION")
    )
}

fn first_line(command: &mut Command) -> Result<String, Failure> {
    let output = runner::output(command)?;
    Ok(String::from_utf8_lossy(&output.stdout).lines().next().unwrap_or_default().to_owned())
}

fn install(from: &Path, to: &Path, mode: u32) -> Result<(), Failure> {
    make_parent(to)?;
    fs::copy(from, to).map_err(|error| Failure::at(from, error))?;
    fs::set_permissions(to, fs::Permissions::from_mode(mode)).map_err(|error| Failure::at(to, error))
}

fn make_parent(path: &Path) -> Result<(), Failure> {
    let parent = path.parent().unwrap_or(path);
    fs::create_dir_all(parent).map_err(|error| Failure::at(parent, error))
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    fs::write(path, text).map_err(|error| Failure::at(path, error))
}
