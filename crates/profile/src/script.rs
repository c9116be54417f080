//! Frames of a language runtime (Python, Lua or Ruby functions) between native frames.
//!
//! Readers of a Python program want Python lines. [`fold_native`] takes the native frames out of
//! stacks that have lines of a script; what a native library allocates for a line counts for the
//! line.

use heapwise_format::segment::{Runtime, RuntimeLanguage};

use crate::{Location, LocationId, Module, Profile, StackId, StackTable};

/// Directories of code that is not the program's own, and the names of frozen modules.
const INSTALLED: [&str; 2] = ["/site-packages/", "/dist-packages/"];
const STANDARD: [&str; 5] = ["/lib/python", "/lib64/python", "/share/lua/", "/lib/lua/", "/lib/ruby/"];
const FROZEN: &str = "<frozen ";
/// Ruby's own methods that are written in Ruby.
const INTERNAL: &str = "<internal:";

/// Whether stacks of a profile have frames of a language runtime.
#[must_use]
pub fn is_followed(profile: &Profile) -> bool {
    profile.meta.recorded.runtime.is_some_and(Runtime::has_lines)
}

/// The language whose frames stacks of a profile have.
#[must_use]
pub fn language(profile: &Profile) -> Option<RuntimeLanguage> {
    let runtime = profile.meta.recorded.runtime.filter(|_| is_followed(profile));
    runtime.map(|runtime| runtime.language)
}

/// Whether a source file belongs to the standard library or an installed package of Python, Lua or
/// Ruby.
#[must_use]
pub fn is_library(file: &str) -> bool {
    file.starts_with(FROZEN)
        || file.starts_with(INTERNAL)
        || INSTALLED.iter().chain(&STANDARD).any(|directory| file.contains(directory))
}

/// Starts of the names of interpreters' binaries.
const INTERPRETERS: [&str; 6] = ["libpython", "python", "liblua", "lua", "libruby", "ruby"];

/// Whether a native function belongs to an interpreter, or to a library that the interpreter loads,
/// in a profile with frames of `language`.
pub(crate) fn is_native_library(language: RuntimeLanguage, module: &Module, function: &str) -> bool {
    // Lua is part of many executables; its functions have names such as `luaL_newstate`.
    let is_lua_function = || {
        let name = function.strip_prefix("lua").unwrap_or("");
        name.trim_start_matches(|c: char| c.is_ascii_uppercase()).starts_with('_')
    };
    INTERPRETERS.iter().any(|start| module.name().starts_with(start))
        || is_library(&module.path)
        || language == RuntimeLanguage::Lua && is_lua_function()
}

/// The package or module of a source file: below the directory of a library, the first directory or
/// file; else the file itself.
#[must_use]
pub fn package(file: &str) -> &str {
    let below = |directory: &&str| file.rfind(*directory).map(|at| &file[at + directory.len()..]);
    // The directory's name ends with a version, or not.
    let standard = |directory: &&str| below(directory)?.split_once('/').map(|(_, path)| path);
    let path = file
        .strip_prefix(FROZEN)
        .or_else(|| INSTALLED.iter().find_map(below))
        .or_else(|| STANDARD.iter().find_map(standard));
    path.and_then(|path| path.split(['/', '.', '>']).next()).unwrap_or(file)
}

/// Whether the program or a runtime named the frame itself: a line of a script, or a label.
fn is_declared(location: &Location) -> bool {
    location.module.is_none() && location.address == 0 && !location.lines.is_empty()
}

/// Whether a frame is a line of a script.
fn is_script(profile: &Profile, location: &Location) -> bool {
    let mut functions = location.lines.iter().filter_map(|line| profile.functions.get(line.function.index()));
    is_declared(location) && functions.any(|function| !function.file.is_empty())
}

/// Whether a location is a line of a runtime that was followed: readers want its file and line.
#[must_use]
pub fn is_line(profile: &Profile, location: LocationId) -> bool {
    is_followed(profile)
        && profile.locations.get(location.index()).is_some_and(|location| is_script(profile, location))
}

/// By function: whether a line of a script is in it.
pub(crate) fn functions(profile: &Profile) -> Vec<bool> {
    let mut is_script_function = vec![false; profile.functions.len()];
    for location in profile.locations.iter().filter(|location| is_script(profile, location)) {
        for line in &location.lines {
            is_script_function[line.function.index()] = true;
        }
    }
    is_script_function
}

/// Takes native frames out of stacks with lines of a script, where a runtime is followed. Other
/// stacks stay as they are.
pub fn fold_native(profile: &mut Profile) {
    if !is_followed(profile) {
        return;
    }
    let mut folder = Folder::new(profile);
    let stacks: Vec<StackId> = profile.samples.iter().map(|sample| folder.fold(sample.stack)).collect();
    let Folder { folded, locations, .. } = folder;
    for (sample, stack) in profile.samples.iter_mut().zip(stacks) {
        sample.stack = stack;
    }
    (profile.stacks, profile.locations) = (folded, locations);
}

/// New stacks and locations of a profile: those that are in use.
struct Folder<'a> {
    profile: &'a Profile,
    /// By stack: whether it has a line of a script.
    has_script: Vec<bool>,
    folded: StackTable,
    locations: Vec<Location>,
    /// By location: the new one.
    new_locations: Vec<Option<LocationId>>,
}

impl<'a> Folder<'a> {
    fn new(profile: &'a Profile) -> Self {
        let scripts: Vec<bool> =
            profile.locations.iter().map(|location| is_script(profile, location)).collect();
        let mut has_script: Vec<bool> = Vec::with_capacity(profile.stacks.len());
        for stack in profile.stacks.ids() {
            let caller = profile.stacks.parent(stack).is_some_and(|caller| has_script[caller.index()]);
            has_script.push(caller || scripts[profile.stacks.location(stack).index()]);
        }
        let new_locations = vec![None; profile.locations.len()];
        Self { profile, has_script, folded: StackTable::default(), locations: Vec::new(), new_locations }
    }

    /// The new stack of a sample.
    fn fold(&mut self, stack: StackId) -> StackId {
        let profile = self.profile;
        let is_folded = self.has_script[stack.index()];
        let path = profile.stacks.leaf_to_root(stack).map(|node| profile.stacks.location(node));
        let stays = |id: &LocationId| !is_folded || is_declared(&profile.locations[id.index()]);
        let mut path: Vec<LocationId> = path.filter(stays).collect();
        path.reverse();
        let mut new = None;
        for location in path {
            let location = self.location(location);
            new = Some(self.folded.child(new, location));
        }
        // No stack is empty: the frames of a stack without script all stay.
        new.unwrap_or(stack)
    }

    fn location(&mut self, old: LocationId) -> LocationId {
        let Self { profile, locations, new_locations, .. } = self;
        *new_locations[old.index()].get_or_insert_with(|| {
            locations.push(profile.locations[old.index()].clone());
            LocationId::new(locations.len() - 1)
        })
    }
}

#[cfg(test)]
mod tests {
    use heapwise_format::segment::RuntimeSupport;

    #[test]
    fn packages_of_files() {
        for (file, name) in [
            ("/usr/lib/python3.11/json/decoder.py", "json"),
            ("/usr/lib/python3.11/threading.py", "threading"),
            ("/opt/app/lib/python/threading.py", "threading"),
            ("/usr/lib/python3/dist-packages/six.py", "six"),
            ("/home/me/venv/lib/python3.12/site-packages/numpy/linalg/linalg.py", "numpy"),
            ("<frozen importlib._bootstrap_external>", "importlib"),
            ("<frozen zipimport>", "zipimport"),
            ("/usr/share/lua/5.4/pl/List.lua", "pl"),
            ("/usr/local/share/lua/5.4/inspect.lua", "inspect"),
            ("/home/me/app/views/json.py", "/home/me/app/views/json.py"),
            ("<string>", "<string>"),
        ] {
            assert_eq!(package(file), name);
        }
    }

    use super::*;
    use crate::builder::Builder;
    use crate::{Function, FunctionId, Line, Module, Values};

    /// `main` calls `app.py:3`, which calls native code that allocates; `main` allocates, too.
    fn profile(support: RuntimeSupport) -> Profile {
        let mut builder = Builder::new("test");
        builder.module(Module {
            path: "/bin/python".into(),
            start: 1 << 20,
            end: 2 << 20,
            ..Module::default()
        });
        let [main, eval, inner] = [8, 16, 24].map(|at| builder.address((1 << 20) + at, true));
        let line = builder.named("run");
        let label = builder.named("[job]");
        let one = Values { inuse_bytes: 1.0, ..Values::default() };
        for path in [vec![main, eval, line, label, inner], vec![main, inner]] {
            let stack = builder.stack(path);
            builder.add(stack, None, None, one, Values::default());
        }
        let mut profile = builder.finish();
        profile.functions.push(Function { name: "run".into(), file: "app.py".into(), ..Function::default() });
        let function = FunctionId::new(profile.functions.len() - 1);
        profile.locations[line.index()].lines = vec![Line { function, line: 3 }];
        profile.meta.recorded.runtime =
            Some(Runtime { language: RuntimeLanguage::Python, major: 3, minor: 11, support });
        profile
    }

    fn depths(profile: &Profile) -> Vec<usize> {
        profile.samples.iter().map(|sample| profile.stacks.leaf_to_root(sample.stack).count()).collect()
    }

    #[test]
    fn native_frames_around_a_script_are_folded() {
        let mut python = profile(RuntimeSupport::Followed);
        assert_eq!(depths(&python), [5, 2]);
        fold_native(&mut python);
        assert_eq!(depths(&python), [2, 2]);
        assert_eq!(python.locations.len(), 4);
        assert_eq!(python.total().inuse_bytes, 2.0);
        fold_native(&mut python);
        assert_eq!(depths(&python), [2, 2]);
    }

    /// Findings name the line of the script that allocated through native code.
    #[test]
    fn a_line_is_the_programs_own_code() {
        let own = |python: &Profile| {
            let code = crate::own_code::CodeFrames::new(python, &crate::own_code::OwnRule::default());
            let frames = code.from_own_code(python, python.samples[0].stack, 1);
            (frames[0].label.clone(), frames[0].line)
        };
        assert_eq!(own(&profile(RuntimeSupport::Followed)), ("run".to_owned(), 3));
        let (label, _) = own(&profile(RuntimeSupport::UnknownVersion));
        assert!(label.starts_with("python+0x"), "{label}");
    }

    /// The second stack has native frames of the interpreter only.
    #[test]
    fn the_interpreter_is_not_the_programs_own_code() {
        let python = profile(RuntimeSupport::Followed);
        let code = crate::own_code::CodeFrames::new(&python, &crate::own_code::OwnRule::default());
        assert!(code.own(&python, python.samples[0].stack).is_some());
        assert!(code.own(&python, python.samples[1].stack).is_none());
        let module = |path: &str| Module { path: path.into(), ..Module::default() };
        let is_library = |path, function| {
            let module = module(path);
            is_native_library(RuntimeLanguage::Lua, &module, function)
        };
        assert!(is_library("/usr/bin/server", "luaL_newstate") && is_library("/usr/bin/lua5.4", "f"));
        assert!(!is_library("/usr/bin/server", "luau") && !is_library("/usr/bin/server", "serve"));
        assert!(is_library("/v/lib/python3.11/site-packages/numpy/core.so", "f"));
    }

    #[test]
    fn stacks_of_other_runtimes_stay() {
        let mut other = profile(RuntimeSupport::UnknownVersion);
        fold_native(&mut other);
        assert_eq!(depths(&other), [5, 2]);
    }

    #[test]
    fn libraries_are_not_the_program() {
        for file in [
            "/usr/lib/python3.11/json/decoder.py",
            "/home/me/venv/lib/python3.12/site-packages/flask/app.py",
            "/usr/lib/python3/dist-packages/yaml/__init__.py",
            "<frozen importlib._bootstrap>",
        ] {
            assert!(is_library(file), "{file}");
        }
        for file in ["/home/me/app.py", "app.py", "<string>", "/srv/python3/app.py", "<stdin>"] {
            assert!(!is_library(file), "{file}");
        }
    }
}
