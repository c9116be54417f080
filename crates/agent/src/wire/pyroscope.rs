//! `push.v1.PusherService` of Grafana Pyroscope.

use prost::Message;

/// `push.v1.PushRequest`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct PushRequest {
    #[prost(message, repeated, tag = "1")]
    pub(crate) series: Vec<RawProfileSeries>,
}

/// Profiles of one set of labels.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct RawProfileSeries {
    #[prost(message, repeated, tag = "1")]
    pub(crate) labels: Vec<LabelPair>,
    #[prost(message, repeated, tag = "2")]
    pub(crate) samples: Vec<RawSample>,
}

/// `types.v1.LabelPair`.
#[derive(Clone, PartialEq, Eq, Message)]
pub(crate) struct LabelPair {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(string, tag = "2")]
    pub(crate) value: String,
}

/// A gzipped pprof file and its id.
#[derive(Clone, PartialEq, Eq, Message)]
pub(crate) struct RawSample {
    #[prost(bytes = "vec", tag = "1")]
    pub(crate) raw_profile: Vec<u8>,
    #[prost(string, tag = "2")]
    pub(crate) id: String,
}
