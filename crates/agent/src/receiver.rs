//! Receivers: what each gets, and over which protocol.

mod files;
mod fleet;
mod otlp;
mod parca;
mod pyroscope;

use std::path::PathBuf;

use heapwise_profile::{Metric, Profile};
use heapwise_render::export::{Format, export};

use crate::batch::{Entry, Header};
use crate::request::{Address, Request};

/// A receiver, as the user names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Receiver {
    /// `heapwise-fleet`: whole batches.
    Fleet(Address),
    /// Grafana Pyroscope: pprof over its push API.
    Pyroscope(Address),
    /// Parca: pprof over gRPC.
    Parca(Address),
    /// An OpenTelemetry receiver: OTLP profiles over HTTP or gRPC.
    Otlp(Address),
    /// A directory: one profile file per entry.
    Files(PathBuf),
}

impl Receiver {
    /// Its name in status, metrics and the spool.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Receiver::Fleet(_) => "fleet",
            Receiver::Pyroscope(_) => "pyroscope",
            Receiver::Parca(_) => "parca",
            Receiver::Otlp(_) => "otlp",
            Receiver::Files(_) => "files",
        }
    }

    /// The encoder of its requests. `headers` go with every request, `since_ns` is the start of the
    /// agent.
    pub(crate) fn encoder(self, headers: &[(String, String)], since_ns: u64) -> Box<dyn Encode> {
        let headers = headers.to_vec();
        match self {
            Receiver::Fleet(address) => Box::new(fleet::Fleet { address, headers }),
            Receiver::Pyroscope(address) => Box::new(pyroscope::Pyroscope::new(address, headers, since_ns)),
            Receiver::Parca(address) => Box::new(parca::Parca { address, headers }),
            Receiver::Otlp(address) => Box::new(otlp::Otlp::new(address, headers, since_ns)),
            Receiver::Files(directory) => Box::new(files::Files { directory }),
        }
    }
}

/// Makes the requests of a receiver. An entry is encoded once and its request sent until it is
/// answered.
pub(crate) trait Encode: Send {
    /// Whether a request takes all entries of a batch, or one.
    fn takes_batches(&self) -> bool {
        false
    }

    /// The request for these entries; `None` for an entry that cannot be read.
    fn encode(&mut self, entries: &[Entry]) -> Option<Request>;
}

/// The profile of an entry, without the columns that other tools do not know.
fn profile_of(entry: &Entry) -> Option<Profile> {
    let mut profile = heapwise_profile::read(&entry.profile).ok()?;
    profile.extra.clear();
    profile.meta.time_unix_ns = Some(entry.header.time_ns);
    Some(profile)
}

fn pprof(profile: &Profile) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    export(profile, Format::Pprof, Metric::InuseSpace, &mut bytes).ok()?;
    Some(bytes)
}

/// The labels of an entry that are known, by the names that Prometheus and its relatives use.
fn labels(header: &Header) -> Vec<(&'static str, String)> {
    let labels = &header.labels;
    let known = [
        ("service_name", labels.service.clone()),
        ("service_version", labels.release.clone()),
        ("host", labels.host.clone()),
        ("container_id", labels.container.clone()),
        ("end", header.end.map(|end| end.to_string()).unwrap_or_default()),
    ];
    known.into_iter().filter(|(_, value)| !value.is_empty()).collect()
}

#[cfg(test)]
pub(crate) mod sample;
#[cfg(test)]
mod tests;
