//! Compiles a folder of small C and C++ programs, one executable (or module) per file.
//!
//! Each file says in a line `// build: FLAGS` what it needs beyond the common flags, and in a line
//! `// compiler: NAME` which compiler, when it is not gcc or g++. `{out}` is replaced by the output
//! folder, `{here}` for the file's own; `-shared` makes a module `NAME.so`, built before the
//! programs that may link it. A file older than its result, as are all headers and what it includes
//! itself, is not compiled again.
//!
//! The environment may select another architecture: `HEAPWISE_CROSS` is put before the compilers'
//! names (`aarch64-linux-gnu-`), `HEAPWISE_CROSS_FLAGS` after the common flags. A file with a line
//! `// native: WHY` is then skipped. A file with a line `// needs: PATH` is skipped where that file
//! is missing; tests that use it are ignored by default and run by `cargo xtask test`, which
//! installs it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

use crate::failure::Failure;

/// The machine to compile for.
pub struct Target {
    /// Before the compilers' names.
    pub prefix: String,
    /// After the common flags.
    pub flags: Vec<String>,
}

impl Target {
    fn of_environment() -> Target {
        let variable = |name| std::env::var(name).unwrap_or_default();
        let flags = variable("HEAPWISE_CROSS_FLAGS");
        Target {
            prefix: variable("HEAPWISE_CROSS"),
            flags: flags.split_whitespace().map(str::to_owned).collect(),
        }
    }

    fn is_this_machine(&self) -> bool {
        self.prefix.is_empty()
    }
}

/// One source file and what becomes of it.
struct Program {
    source: PathBuf,
    compiler: String,
    flags: Vec<String>,
    target: PathBuf,
    /// Source files of this repository that it includes from other directories.
    included: Vec<PathBuf>,
}

impl Program {
    /// `None` when it cannot be compiled for `whom`.
    fn read(source: PathBuf, out: &Path, whom: &Target) -> Result<Option<Program>, Failure> {
        let text = fs::read_to_string(&source).map_err(|e| Failure::at(&source, e))?;
        let says = |what: &str| text.lines().find_map(|line| line.strip_prefix(what));
        if says("// native: ").is_some() && !whom.is_this_machine() {
            return Ok(None);
        }
        if says("// needs: ").is_some_and(|file| !Path::new(file).exists()) {
            return Ok(None);
        }
        let cpp = source.extension().is_some_and(|e| e == "cpp");
        let (compiler, standard) = if cpp { ("g++", "-std=gnu++20") } else { ("gcc", "-std=gnu17") };
        let compiler = format!("{}{}", whom.prefix, says("// compiler: ").unwrap_or(compiler));
        let mut flags = whom.flags.clone();
        flags.push(standard.to_owned());
        let own = says("// build: ").unwrap_or_default().split_whitespace();
        let here = source.parent().unwrap_or(Path::new("."));
        let place = |flag: &str| {
            flag.replace("{out}", &out.to_string_lossy()).replace("{here}", &here.to_string_lossy())
        };
        flags.extend(own.map(place));

        let mut target = out.join(source.file_stem().unwrap_or_default());
        if flags.iter().any(|flag| flag == "-shared") {
            target.set_extension("so");
            let name = target.file_name().unwrap_or_default().to_string_lossy();
            flags.push(format!("-Wl,-soname,{name}"));
        }
        let quoted = text.lines().filter_map(|line| line.strip_prefix("#include \"")?.split('"').next());
        let included = quoted.map(|file| here.join(file)).collect();
        Ok(Some(Program { included, compiler, flags, target, source: source.clone() }))
    }

    fn is_module(&self) -> bool {
        self.target.extension().is_some()
    }

    fn compile(&self) -> Result<(), Failure> {
        let compiler = &self.compiler;
        let status = Command::new(compiler)
            .args(["-D_GNU_SOURCE", "-g", "-O2", "-Wall", "-Wextra"])
            // A victim discards blocks on purpose, and requests impossible sizes.
            .args(["-Wno-unused-result", "-Wno-alloc-size-larger-than", "-Wno-infinite-recursion"])
            .arg("-o")
            .arg(&self.target)
            .arg(&self.source)
            .args(&self.flags)
            .status()
            .map_err(|e| Failure::at(Path::new(compiler), e))?;
        if status.success() {
            Ok(())
        } else {
            Err(Failure::new(format!("{compiler} {}", self.source.display())))
        }
    }
}

fn modified(path: &Path) -> Option<SystemTime> {
    fs::metadata(path).and_then(|m| m.modified()).ok()
}

/// Compiles every `.c` and `.cpp` file of `sources` into `out`, for whom the environment says; the
/// programs' paths, sorted.
pub fn build(sources: &Path, out: &Path) -> Result<Vec<PathBuf>, Failure> {
    build_for(&Target::of_environment(), sources, out)
}

/// Compiles them for `whom`.
pub fn build_for(whom: &Target, sources: &Path, out: &Path) -> Result<Vec<PathBuf>, Failure> {
    fs::create_dir_all(out).map_err(|e| Failure::at(out, e))?;
    // `{out}` must mean the same folder to the compiler, wherever it runs.
    let out = out.canonicalize().map_err(|e| Failure::at(out, e))?;
    let mut programs = Vec::new();
    let mut newest_header = None;
    for entry in fs::read_dir(sources).map_err(|e| Failure::at(sources, e))? {
        let path = entry.map_err(|e| Failure::at(sources, e))?.path();
        match path.extension().and_then(|e| e.to_str()) {
            Some("c" | "cpp") => programs.extend(Program::read(path, &out, whom)?),
            Some("h") => newest_header = newest_header.max(modified(&path)),
            _ => {}
        }
    }
    programs.sort_by_key(|p| (!p.is_module(), p.source.clone()));
    for program in &programs {
        let included = program.included.iter().filter_map(|file| modified(file)).max();
        let inputs = modified(&program.source).max(newest_header).max(included);
        if modified(&program.target) < inputs {
            program.compile()?;
        }
    }
    Ok(programs.into_iter().filter(|p| !p.is_module()).map(|p| p.target).collect())
}
