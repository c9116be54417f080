//! HTTP errors: a status and one line for the user.

use super::http::{Response, Status};
use heapwise_capture::failure::Failure;
use heapwise_profile::printable::printable;

/// An error response.
#[derive(Debug, Clone)]
pub(crate) struct HttpError {
    pub status: Status,
    pub message: String,
}

/// What endpoints and sources return.
pub(crate) type Result<T = Response> = std::result::Result<T, HttpError>;

impl HttpError {
    /// 400: the request is malformed.
    pub(crate) fn bad(message: impl Into<String>) -> Self {
        Self { status: Status::BadRequest, message: message.into() }
    }

    /// 404: there is no such thing.
    pub(crate) fn missing(message: impl Into<String>) -> Self {
        Self { status: Status::NotFound, message: message.into() }
    }

    /// 503: the answer is larger than the memory that the server may take for it.
    pub(crate) fn too_large(most_bytes: usize) -> Self {
        let most = heapwise_profile::quantity::bytes(most_bytes as f64);
        let message = format!(
            "the answer is larger than {most}; focus on a part, start the server with more --memory, or use \
             `heapwise export`"
        );
        Self { status: Status::Unavailable, message }
    }

    /// 503: the answer is not there yet.
    pub(crate) fn unavailable(message: impl Into<String>) -> Self {
        Self { status: Status::Unavailable, message: message.into() }
    }

    /// 500: a valid request failed.
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
        Response::error(trouble.status, &printable(&trouble.message))
    }
}
