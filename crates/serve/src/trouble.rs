//! Why a request has no answer: a status, and one line for the person who asked.

use super::http::{Response, Status};
use heapwise_capture::failure::Failure;

/// A refusal in words.
#[derive(Debug, Clone)]
pub(crate) struct Trouble {
    pub status: Status,
    pub message: String,
}

/// What endpoints and sources return.
pub(crate) type Answer<T = Response> = Result<T, Trouble>;

impl Trouble {
    /// The request asks for something that does not make sense.
    pub(crate) fn bad(message: impl Into<String>) -> Self {
        Self { status: Status::BadRequest, message: message.into() }
    }

    /// The request asks for something that is not there.
    pub(crate) fn missing(message: impl Into<String>) -> Self {
        Self { status: Status::NotFound, message: message.into() }
    }

    /// The request is right, and yet it did not work.
    pub(crate) fn failed(message: impl Into<String>) -> Self {
        Self { status: Status::Internal, message: message.into() }
    }
}

impl From<Failure> for Trouble {
    fn from(failure: Failure) -> Self {
        Self::failed(failure.to_string())
    }
}

impl From<Trouble> for Response {
    fn from(trouble: Trouble) -> Self {
        Response::error(trouble.status, &trouble.message)
    }
}
