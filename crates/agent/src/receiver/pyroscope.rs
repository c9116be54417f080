//! Pyroscope: `push.v1.PusherService/Push` by the Connect protocol, which is protobuf over HTTP.
//!
//! The profile type `memory` is what Pyroscope calls Go's heap profiles. Without the label
//! `__delta__` its ingester subtracts the previous profile itself, in some versions.

use prost::Message as _;

use crate::batch::{Entry, EntryId};
use crate::delta::Deltas;
use crate::receiver::{Encode, labels, pprof, profile_of};
use crate::request::{Address, Http, Request, Verdict};
use crate::wire::pyroscope::{LabelPair, PushRequest, RawProfileSeries, RawSample};

pub(super) struct Pyroscope {
    address: Address,
    headers: Vec<(String, String)>,
    deltas: Deltas,
}

impl Pyroscope {
    pub(super) fn new(address: Address, headers: Vec<(String, String)>, since_ns: u64) -> Self {
        Self { address, headers, deltas: Deltas::new(since_ns) }
    }
}

impl Encode for Pyroscope {
    fn encode(&mut self, entries: &[Entry]) -> Option<Request> {
        let mut series = Vec::new();
        for entry in entries {
            let header = &entry.header;
            let mut profile = profile_of(entry)?;
            let since_ns = self.deltas.subtract(header, &mut profile);
            profile.meta.duration_ns = Some(header.time_ns - since_ns);
            // A session per process: the server limits the number of sessions of a series.
            let process = EntryId::of(&header.labels.host, header.pid, header.start_ns, 0);
            let session = format!("{:016x}", process.0 as u64);
            let fixed = [("__name__", "memory"), ("__delta__", "false"), ("__session_id__", &session)];
            let fixed = fixed.map(|(name, value)| (name, value.to_owned()));
            let pair = |(name, value): (&str, String)| LabelPair { name: name.to_owned(), value };
            let labels = fixed.into_iter().chain(labels(header)).map(pair).collect();
            let sample = RawSample { raw_profile: pprof(&profile)?, id: header.id.to_string() };
            series.push(RawProfileSeries { labels, samples: vec![sample] });
        }
        Some(Request::Http(Http {
            url: self.address.url("/push.v1.PusherService/Push"),
            content_type: "application/proto",
            headers: [("connect-protocol-version".to_owned(), "1".to_owned())]
                .into_iter()
                .chain(self.headers.clone())
                .collect(),
            body: PushRequest { series }.encode_to_vec(),
            verdict: Verdict::ByStatus,
        }))
    }
}
