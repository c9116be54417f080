//! Parca: `ProfileStoreService/WriteRaw` over gRPC.

use prost::Message as _;

use crate::batch::Entry;
use crate::grpc::Method;
use crate::receiver::{Encode, labels, pprof, profile_of};
use crate::request::{Address, Grpc, Request, Verdict};
use crate::wire::parca::{Label, LabelSet, RawProfileSeries, RawSample, WriteRawRequest};

const PATH: &str = "/parca.profilestore.v1alpha1.ProfileStoreService/WriteRaw";

pub(super) struct Parca {
    pub(super) address: Address,
    pub(super) headers: Vec<(String, String)>,
}

impl Encode for Parca {
    fn encode(&mut self, entries: &[Entry]) -> Option<Request> {
        let mut series = Vec::new();
        for entry in entries {
            let instance = format!("{}:{}", entry.header.labels.host, entry.header.pid);
            let fixed = [("__name__", "memory".to_owned()), ("instance", instance)];
            let label = |(name, value): (&str, String)| Label { name: name.to_owned(), value };
            let labels = fixed.into_iter().chain(labels(&entry.header)).map(label).collect();
            let sample = RawSample { raw_profile: pprof(&profile_of(entry)?)? };
            series.push(RawProfileSeries { labels: Some(LabelSet { labels }), samples: vec![sample] });
        }
        let method = Method {
            authority: self.address.authority().to_owned(),
            path: PATH,
            headers: self.headers.clone(),
        };
        // Addresses are those of the process.
        let body = WriteRawRequest { series, normalized: false }.encode_to_vec();
        Some(Request::Grpc(Grpc { method, body, verdict: Verdict::ByStatus }))
    }
}
