//! `parca.profilestore.v1alpha1.ProfileStoreService` of Parca.

use prost::Message;

/// `WriteRawRequest`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct WriteRawRequest {
    #[prost(message, repeated, tag = "2")]
    pub(crate) series: Vec<RawProfileSeries>,
    /// Whether addresses are those of the files and not of the process.
    #[prost(bool, tag = "3")]
    pub(crate) normalized: bool,
}

/// Profiles of one set of labels.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct RawProfileSeries {
    #[prost(message, optional, tag = "1")]
    pub(crate) labels: Option<LabelSet>,
    #[prost(message, repeated, tag = "2")]
    pub(crate) samples: Vec<RawSample>,
}

/// Labels.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct LabelSet {
    #[prost(message, repeated, tag = "1")]
    pub(crate) labels: Vec<Label>,
}

/// A name and a value.
#[derive(Clone, PartialEq, Eq, Message)]
pub(crate) struct Label {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(string, tag = "2")]
    pub(crate) value: String,
}

/// A gzipped pprof file.
#[derive(Clone, PartialEq, Eq, Message)]
pub(crate) struct RawSample {
    #[prost(bytes = "vec", tag = "1")]
    pub(crate) raw_profile: Vec<u8>,
}
