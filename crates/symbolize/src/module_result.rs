//! Symbols of one binary: from the cache, and from its files for addresses that the cache lacks.

use std::path::PathBuf;

use heapwise_profile::{BuildId, Function, FunctionId, Line};

use crate::{
    Detail, FileOffset, ModuleReport, Options, Problem, Resolver, Svma,
    cache::{self, Remembered},
    elf,
    image::ImageIdentity,
    module_request::ModuleRequest,
    search::{self, Wanted},
};

/// Symbols of one binary, from the cache and from its files.
pub(crate) struct ModuleResult<'a> {
    pub(crate) request: &'a ModuleRequest,
    build_id: BuildId,
    /// The open binary, until its addresses are looked up.
    pub(crate) resolver: Option<Resolver>,
    /// The binary that was opened, and its separate debug file.
    opened: Option<(PathBuf, Option<PathBuf>)>,
    image: ImageIdentity,
    pub(crate) known: Remembered,
    /// Whether every file that should have been read was there: worth caching.
    pub(crate) is_whole: bool,
    /// Offsets that the cache did not have, with their addresses.
    pub(crate) missing: Vec<(FileOffset, Svma)>,
    cached: usize,
    problems: Vec<Problem>,
}

impl<'a> ModuleResult<'a> {
    /// Reads the cache, and opens the binary if that is not enough.
    pub(crate) fn prepare(request: &'a ModuleRequest, options: &Options) -> Self {
        let mut result = Self {
            request,
            build_id: request.build_id.clone(),
            resolver: None,
            opened: None,
            image: ImageIdentity::default(),
            known: Remembered::default(),
            is_whole: true,
            missing: Vec::new(),
            cached: 0,
            problems: Vec::new(),
        };
        let wanted = Wanted {
            path: &request.path,
            build_id: &request.build_id,
            is_main: request.is_main,
            time_unix_ns: request.time_unix_ns,
        };
        let present = search::present(&wanted, options);
        if result.recall(options, present.as_ref()) {
            return result;
        }
        let image = match search::binary(&wanted, options) {
            Ok(image) => image,
            Err(problems) => {
                result.problems = problems;
                return result;
            }
        };
        let found = ImageIdentity::of(&image.path);
        if result.build_id.is_empty() || found != present {
            result.build_id = elf::build_id(&image);
            if result.recall(options, found.as_ref()) {
                return result;
            }
        }
        result.image =
            found.unwrap_or_else(|| ImageIdentity { path: image.path.clone(), ..Default::default() });
        match Resolver::new(image, options) {
            Ok(resolver) => result.open(resolver),
            Err(problem) => result.problems.push(problem),
        }
        result
    }

    /// Takes the results of the cache if they are those of `image`, the file that would be read;
    /// true when these are complete. Results outlive their file.
    fn recall(&mut self, options: &Options, image: Option<&ImageIdentity>) -> bool {
        let Some(directory) = &options.cache_dir else {
            return false;
        };
        let Some(known) = cache::load(directory, &self.build_id) else {
            return false;
        };
        let path = &self.request.path;
        if !image.map_or_else(|| known.image.is_named_as(path), |image| *image == known.image) {
            return false;
        }
        if known.detail < Detail::Lines && search::may_have_debug_file(path, &self.build_id, options) {
            return false;
        }
        let mut offsets = self.request.offsets.iter();
        let is_known = |(offset, _): &&(FileOffset, FileOffset)| known.places.contains_key(offset);
        self.cached = offsets.by_ref().filter(is_known).count();
        self.image = known.image.clone();
        self.known = known;
        self.cached == self.request.offsets.len()
    }

    fn open(&mut self, resolver: Resolver) {
        if resolver.detail() != self.known.detail {
            self.known = Remembered::default();
            self.cached = 0;
        }
        self.known.detail = resolver.detail();
        self.known.image = self.image.clone();
        for (offset, mapped_from) in &self.request.offsets {
            if self.known.places.contains_key(offset) {
                continue;
            }
            match resolver.svma_of(*offset, *mapped_from) {
                Some(svma) => self.missing.push((*offset, svma)),
                None if resolver.is_whole() => drop(self.known.places.insert(*offset, Vec::new())),
                None => {}
            }
        }
        self.problems.extend_from_slice(resolver.problems());
        self.opened = Some((resolver.path().to_owned(), resolver.debug_path()));
        self.resolver = Some(resolver);
    }

    /// Writes the cache if there is something new.
    pub(crate) fn remember(&self, options: &Options) {
        let is_new = self.opened.is_some() && self.is_whole;
        if let Some(directory) = options.cache_dir.as_ref().filter(|_| is_new) {
            cache::store(directory, &self.build_id, &self.known);
        }
    }

    /// Closes the files of the binary; the results stay.
    pub(crate) fn close(&mut self) {
        self.resolver = None;
        self.missing = Vec::new();
    }

    pub(crate) fn lines(&self, offset: FileOffset) -> &[Line] {
        self.known.places.get(&offset).map_or(&[], Vec::as_slice)
    }

    /// Whether the lines name a function, rather than the start of a function without a name.
    pub(crate) fn has_name(&self, lines: &[Line]) -> bool {
        let function = lines.last().map(|line| &self.known.functions[line.function.index()]);
        function.is_some_and(|function| !function.system_name.is_empty())
    }

    /// A function as the profile is to show it.
    pub(crate) fn function(&self, id: FunctionId) -> Function {
        let mut function = self.known.functions[id.index()].clone();
        if function.system_name.is_empty() {
            let path = &self.request.path;
            function.name.insert_str(0, path.rsplit('/').next().unwrap_or(path));
        }
        function
    }

    pub(crate) fn report(&self) -> ModuleReport {
        let offsets = &self.request.offsets;
        let is_resolved = |(offset, _): &&(FileOffset, FileOffset)| self.has_name(self.lines(*offset));
        let mut problems = self.problems.clone();
        if problems.is_empty() {
            match self.known.detail {
                Detail::None => problems.push(Problem::NoSymbols),
                Detail::Names => problems.push(Problem::NoDebugInfo),
                Detail::Lines => {}
            }
        }
        let (image, debug_file) = self.opened.clone().unzip();
        ModuleReport {
            path: self.request.path.clone(),
            build_id: self.build_id.clone(),
            image,
            debug_file: debug_file.flatten(),
            detail: self.known.detail,
            addresses: offsets.len(),
            resolved: offsets.iter().filter(is_resolved).count(),
            cached: self.cached,
            problems,
        }
    }
}
