//! `heapwise-fleet`: `POST /v1/batches`.

use crate::batch::Entry;
use crate::receiver::Encode;
use crate::request::{Address, Http, Request, Verdict};

pub(super) struct Fleet {
    pub(super) address: Address,
    pub(super) headers: Vec<(String, String)>,
}

impl Encode for Fleet {
    fn takes_batches(&self) -> bool {
        true
    }

    fn encode(&mut self, entries: &[Entry]) -> Option<Request> {
        let mut body = Vec::new();
        entries.iter().for_each(|entry| entry.append_to(&mut body));
        Some(Request::Http(Http {
            url: self.address.url("/v1/batches"),
            content_type: "application/x-heapwise-batch",
            headers: self.headers.clone(),
            body,
            verdict: Verdict::ByStatus,
        }))
    }
}
