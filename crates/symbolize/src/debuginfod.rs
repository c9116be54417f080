//! Binaries and debug files from debuginfod servers, kept beside the cache.

use std::{
    fs,
    io::{self, Read},
    path::{Path, PathBuf},
    time::Duration,
};

use heapwise_profile::BuildId;

use crate::{Options, Problem, elf::Elf, image::Image, private_file};

/// Time a server has to begin its answer; servers that unpack an archive first take seconds.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(20);
/// Time for a whole file.
const TOTAL_TIMEOUT: Duration = Duration::from_secs(300);
/// Largest file taken.
const MAX_BYTES: u64 = 8 << 30;
/// How long a server's "not found" or timeout is cached: the same as elfutils' client.
const REMEMBERED_FOR: Duration = Duration::from_secs(600);

/// Kind of file that a server has for a build-id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Artifact {
    Executable,
    DebugInfo,
}

impl Artifact {
    fn name(self) -> &'static str {
        match self {
            Artifact::Executable => "executable",
            Artifact::DebugInfo => "debuginfo",
        }
    }
}

/// Takes a file from earlier downloads or from the first server that has it. Needs a cache
/// directory to put it.
pub(crate) fn fetch(
    build_id: &BuildId,
    artifact: Artifact,
    options: &Options,
    problems: &mut Vec<Problem>,
) -> Option<Image> {
    let place = CachedFile::of(build_id, artifact, options)?;
    if let Some(image) = verified(&place.file, build_id) {
        return Some(image);
    }
    if is_recent(&place.absent) {
        return None;
    }
    let mut all_answered = true;
    for server in &options.debuginfod_urls {
        let down = place.down(server);
        if is_recent(&down) {
            all_answered = false;
            continue;
        }
        let url = server.trim_end_matches('/');
        let url = format!("{url}/buildid/{build_id}/{}", artifact.name());
        match download(&url, &place.file) {
            Ok(true) => return verified(&place.file, build_id),
            Ok(false) => {}
            Err(reason) => {
                all_answered = false;
                mark(&down);
                problems.push(Problem::Debuginfod { url: server.clone(), reason });
            }
        }
    }
    if all_answered {
        mark(&place.absent);
    }
    None
}

/// Whether asking the servers for debug information may help.
pub(crate) fn may_have(build_id: &BuildId, options: &Options) -> bool {
    CachedFile::of(build_id, Artifact::DebugInfo, options).is_some_and(|place| {
        let servers = &options.debuginfod_urls;
        !is_recent(&place.absent) && servers.iter().any(|server| !is_recent(&place.down(server)))
    })
}

/// Where the file of one request is kept, and what is remembered about it.
struct CachedFile {
    directory: PathBuf,
    file: PathBuf,
    /// All servers returned "not found".
    absent: PathBuf,
}

impl CachedFile {
    fn of(build_id: &BuildId, artifact: Artifact, options: &Options) -> Option<Self> {
        let directory = options.cache_dir.as_ref()?.join("debuginfod");
        if build_id.is_empty() || options.debuginfod_urls.is_empty() {
            return None;
        }
        let file = directory.join(format!("{build_id}.{}", artifact.name()));
        Some(Self { absent: file.with_added_extension("absent"), file, directory })
    }

    /// The server did not answer: not to be waited for once per binary.
    fn down(&self, server: &str) -> PathBuf {
        self.directory.join(format!("{:08x}.down", crc32fast::hash(server.as_bytes())))
    }
}

/// Leaves a mark that holds for [`REMEMBERED_FOR`].
fn mark(path: &Path) {
    // Best effort: without it, the next run downloads again.
    let _ = private_file::write(path, |_| Ok(()));
}

/// A download is used only if it has the requested build-id.
fn verified(path: &Path, build_id: &BuildId) -> Option<Image> {
    let image = Image::open(path).ok()?;
    let found = Elf::parse(&image).ok()?.build_id();
    (found == *build_id).then_some(image)
}

fn is_recent(path: &Path) -> bool {
    let age = fs::metadata(path).and_then(|meta| meta.modified());
    age.is_ok_and(|time| time.elapsed().is_ok_and(|age| age < REMEMBERED_FOR))
}

/// Whether the server had the file; the file is complete or not there at all.
fn download(url: &str, path: &Path) -> Result<bool, String> {
    let agent: ureq::Agent = ureq::Agent::config_builder()
        .timeout_connect(Some(ANSWER_TIMEOUT))
        .timeout_recv_response(Some(ANSWER_TIMEOUT))
        .timeout_global(Some(TOTAL_TIMEOUT))
        .build()
        .into();
    let answer = match agent.get(url).call() {
        Ok(answer) => answer,
        Err(ureq::Error::StatusCode(404)) => return Ok(false),
        Err(error) => return Err(error.to_string()),
    };
    let mut body = answer.into_body().into_reader().take(MAX_BYTES);
    private_file::write(path, |file| io::copy(&mut body, file).map(|_| ()))
        .map(|()| true)
        .map_err(|error| error.to_string())
}
