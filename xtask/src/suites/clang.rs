//! clang and LLVM's tools over many inputs: every file they write.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;

use super::{Stage, Suite, Under};
use heapwise_testkit::failure::Failure;

pub(super) const SUITE: Suite = Suite {
    name: "clang",
    packages: &[("/usr/bin/clang", "clang"), ("/usr/bin/opt", "llvm")],
    is_short: true,
    run,
};

fn run(stage: &Stage, under: &Under<'_>) -> Result<Option<String>, Failure> {
    let folder = stage.root.join("tests/programs");
    let entries = fs::read_dir(&folder).map_err(|error| Failure::at(&folder, error))?;
    let mut inputs: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    inputs.retain(|path| path.extension().is_some_and(|ending| ending == "c"));
    inputs.sort();
    if stage.is_short {
        inputs.truncate(3);
    }
    let mut verdicts = String::new();
    for input in &inputs {
        let name = input.to_string_lossy().into_owned();
        let steps: [(&str, &[&str]); 4] = [
            ("/usr/bin/clang", &["-D_GNU_SOURCE", "-O2", "-g", "-c", "-o", "out.o", &name]),
            ("/usr/bin/clang", &["-D_GNU_SOURCE", "-O1", "-emit-llvm", "-c", "-o", "out.bc", &name]),
            ("/usr/bin/opt", &["-O3", "-o", "opt.bc", "out.bc"]),
            ("/usr/bin/llvm-dis", &["-o", "opt.ll", "opt.bc"]),
        ];
        for (tool, arguments) in steps {
            let status = under.output(tool, arguments)?.status;
            verdicts += &format!("{tool} {name} {status}\n");
        }
        for file in ["out.o", "out.bc", "opt.bc", "opt.ll"] {
            let mut hasher = DefaultHasher::new();
            fs::read(stage.scratch.join(file)).unwrap_or_default().hash(&mut hasher);
            verdicts += &format!("{name} {file} {:016x}\n", hasher.finish());
        }
    }
    Ok(Some(verdicts))
}
