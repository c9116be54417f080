//! A directory with one profile file per entry.

use std::path::PathBuf;

use crate::batch::Entry;
use crate::receiver::Encode;
use crate::request::Request;

pub(super) struct Files {
    pub(super) directory: PathBuf,
}

impl Encode for Files {
    fn encode(&mut self, entries: &[Entry]) -> Option<Request> {
        let [Entry { header, profile }] = entries else { return None };
        let program = header.program.rsplit('/').next().filter(|name| !name.is_empty());
        // Times of one process sort by name.
        let name = format!("{}.{}.{}.hwp", program.unwrap_or("program"), header.pid, header.time_ns);
        Some(Request::File { path: self.directory.join(name), content: profile.clone() })
    }
}
