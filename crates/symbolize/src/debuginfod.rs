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
/// How long a server's "no" is remembered: the same as elfutils' client.
const ABSENT_FOR: Duration = Duration::from_secs(600);

/// What a server has of a build-id.
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
    let directory = options.cache_dir.as_ref()?.join("debuginfod");
    if build_id.is_empty() || options.debuginfod_urls.is_empty() {
        return None;
    }
    let path = directory.join(format!("{build_id}.{}", artifact.name()));
    if let Some(image) = verified(&path, build_id) {
        return Some(image);
    }
    let absent = path.with_added_extension("absent");
    if is_recent(&absent) {
        return None;
    }
    for server in &options.debuginfod_urls {
        let url = server.trim_end_matches('/');
        let url = format!("{url}/buildid/{build_id}/{}", artifact.name());
        match download(&url, &path) {
            Ok(true) => return verified(&path, build_id),
            Ok(false) => {}
            Err(reason) => problems.push(Problem::Debuginfod { url: server.clone(), reason }),
        }
    }
    if problems.is_empty() {
        // Best effort: not remembering a "no" only costs asking again.
        let _ = private_file::write(&absent, |_| Ok(()));
    }
    None
}

/// A download is used only if it is what was asked for.
fn verified(path: &Path, build_id: &BuildId) -> Option<Image> {
    let image = Image::open(path).ok()?;
    let found = Elf::parse(&image).ok()?.build_id();
    (found == *build_id).then_some(image)
}

fn is_recent(path: &PathBuf) -> bool {
    let age = fs::metadata(path).and_then(|meta| meta.modified());
    age.is_ok_and(|time| time.elapsed().is_ok_and(|age| age < ABSENT_FOR))
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
