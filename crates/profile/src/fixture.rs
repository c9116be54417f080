//! Profiles written down as folded stacks, for tests with expectations computed by hand.

use crate::{
    Function, FunctionId, Line, Location, LocationId, Module, ModuleId, Profile, Sample, Thread, ThreadId,
    Values,
};

/// One stack a line: `main;f;g BYTES OBJECTS [THREAD]`, in use and allocated alike. A frame may be
/// `module!function:line`, and without a name before the `!` one that a script engine declared; a
/// frame `a/b` is `b` inlined into `a`; `?` is unresolved.
///
/// # Panics
/// On text that is not of this form.
#[must_use]
pub fn profile(text: &str) -> Profile {
    let mut profile = Profile::default();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let mut fields = line.split_whitespace();
        let frames = fields.next().unwrap();
        let numbers: Vec<f64> = fields.map(|field| field.parse().unwrap()).collect();
        let path: Vec<LocationId> = frames.split(';').map(|frame| location(&mut profile, frame)).collect();
        let thread = numbers.get(2).map(|tid| thread(&mut profile, *tid as u64));
        let (bytes, objects) = (numbers[0], numbers[1]);
        let values =
            Values { alloc_objects: objects, alloc_bytes: bytes, inuse_objects: objects, inuse_bytes: bytes };
        let stack = profile.stacks.intern(path).unwrap();
        profile.samples.push(Sample { stack, thread, sizes: None, values, variance: Values::default() });
    }
    profile
}

fn thread(profile: &mut Profile, tid: u64) -> ThreadId {
    let known = profile.threads.iter().position(|thread| thread.tid == tid);
    ThreadId::new(known.unwrap_or_else(|| {
        let name = format!("worker-{tid}");
        profile.threads.push(Thread { tid, number: tid, name });
        profile.threads.len() - 1
    }))
}

fn location(profile: &mut Profile, text: &str) -> LocationId {
    let (module, rest) = text.split_once('!').unwrap_or(("app", text));
    let module = (!module.is_empty()).then(|| module_id(profile, module));
    let mut location = Location { module, ..Location::default() };
    if let Some(module) = module.filter(|_| rest == "?") {
        location.address = profile.modules[module.index()].start + 0x234;
    } else {
        location.lines = rest.split('/').rev().map(|name| line(profile, name)).collect();
    }
    let known = profile.locations.iter().position(|other| *other == location);
    LocationId::new(known.unwrap_or_else(|| {
        profile.locations.push(location);
        profile.locations.len() - 1
    }))
}

fn module_id(profile: &mut Profile, name: &str) -> ModuleId {
    let known = profile.modules.iter().position(|module| module.path == name);
    ModuleId::new(known.unwrap_or_else(|| {
        let start = 0x1000 * (profile.modules.len() as u64 + 1);
        profile.modules.push(Module {
            path: name.to_owned(),
            start,
            end: start + 0x1000,
            ..Module::default()
        });
        profile.modules.len() - 1
    }))
}

fn line(profile: &mut Profile, text: &str) -> Line {
    let (name, line) = match text.rsplit_once(':') {
        Some((name, number)) if number.parse::<u32>().is_ok() => (name, number.parse().unwrap()),
        _ => (text, 0),
    };
    let known = profile.functions.iter().position(|other| other.name == name);
    let function = known.unwrap_or_else(|| {
        profile.functions.push(Function {
            name: name.to_owned(),
            file: if line > 0 { "app.c".to_owned() } else { String::new() },
            ..Function::default()
        });
        profile.functions.len() - 1
    });
    Line { function: FunctionId::new(function), line }
}
