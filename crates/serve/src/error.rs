//! Why a request has no answer: a status, and one line for the person who asked.

use super::http::{Response, Status};
use heapwise_capture::failure::Failure;

/// A refusal in words.
#[derive(Debug, Clone)]
pub(crate) struct HttpError {
    pub status: Status,
    pub message: String,
}

/// What endpoints and sources return.
pub(crate) type Result<T = Response> = std::result::Result<T, HttpError>;

impl HttpError {
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

impl From<Failure> for HttpError {
    fn from(failure: Failure) -> Self {
        Self::failed(failure.to_string())
    }
}

impl From<HttpError> for Response {
    fn from(trouble: HttpError) -> Self {
        Response::error(trouble.status, &trouble.message)
    }
}
