//! What a client is told when something does not work: one shape, a stable code, the place and the fix.

use std::time::Duration;

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use runcue_core::{JobId, NameError};
use runcue_store::StoreError;
use serde::Serialize;

/// The stable words for what went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Code {
    /// The request cannot be read.
    BadRequest,
    /// No token, or one that is not known.
    Unauthorized,
    /// The token's role does not allow it.
    Forbidden,
    /// The `Origin` is not the hub's.
    WrongOrigin,
    /// The `Host` is not the hub's.
    WrongHost,
    /// There is no such thing.
    NotFound,
    /// The route has no such method.
    MethodNotAllowed,
    /// The job is somebody else's by now.
    LeaseLost,
    /// What is asked does not fit the state of the thing.
    Conflict,
    /// The body is larger than it may be.
    TooLarge,
    /// The body is not JSON.
    UnsupportedMediaType,
    /// The request was read and makes no sense.
    Invalid,
    /// The queue has no room.
    QueueFull,
    /// Too many failed logins from one address.
    TooManyAttempts,
    /// A fault in the hub.
    Internal,
    /// The store cannot be used at the moment.
    Unavailable,
}

impl Code {
    /// Every code.
    pub const ALL: [Self; 16] = [
        Self::BadRequest,
        Self::Unauthorized,
        Self::Forbidden,
        Self::WrongOrigin,
        Self::WrongHost,
        Self::NotFound,
        Self::MethodNotAllowed,
        Self::LeaseLost,
        Self::Conflict,
        Self::TooLarge,
        Self::UnsupportedMediaType,
        Self::Invalid,
        Self::QueueFull,
        Self::TooManyAttempts,
        Self::Internal,
        Self::Unavailable,
    ];

    /// The HTTP status that goes with it.
    pub fn status(self) -> StatusCode {
        match self {
            Self::BadRequest => StatusCode::BAD_REQUEST,
            Self::Unauthorized => StatusCode::UNAUTHORIZED,
            Self::Forbidden | Self::WrongOrigin => StatusCode::FORBIDDEN,
            Self::WrongHost => StatusCode::MISDIRECTED_REQUEST,
            Self::NotFound => StatusCode::NOT_FOUND,
            Self::MethodNotAllowed => StatusCode::METHOD_NOT_ALLOWED,
            Self::LeaseLost | Self::Conflict => StatusCode::CONFLICT,
            Self::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::UnsupportedMediaType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::Invalid => StatusCode::UNPROCESSABLE_ENTITY,
            Self::QueueFull | Self::TooManyAttempts => StatusCode::TOO_MANY_REQUESTS,
            Self::Internal => StatusCode::INTERNAL_SERVER_ERROR,
            Self::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        }
    }
}

/// An answer that says no.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    /// The stable word.
    pub code: Code,
    /// What is the matter, naming the place.
    pub message: String,
    /// What to do about it.
    pub help: Option<String>,
    /// When to come back.
    pub retry_after: Option<Duration>,
}

/// What a handler answers.
pub type Answer<T> = Result<T, Refusal>;

impl Refusal {
    /// A refusal with a code and words.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), help: None, retry_after: None }
    }

    /// The same, with the fix.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// The same, with when to come back.
    #[must_use]
    pub fn after(mut self, span: Duration) -> Self {
        self.retry_after = Some(span);
        self
    }

    /// A field that makes no sense.
    pub fn field(field: &str, why: impl std::fmt::Display) -> Self {
        Self::new(Code::Invalid, format!("{field}: {why}"))
    }

    /// There is no such job.
    pub fn no_job(id: JobId) -> Self {
        Self::new(Code::NotFound, format!("there is no job {id}"))
            .help("GET /api/jobs lists what there is")
    }

    /// The job is not the caller's.
    pub fn lease_lost(id: JobId) -> Self {
        Self::new(Code::LeaseLost, format!("job {id} is not held by this worker"))
            .help("stop working on it and report nothing; claim another")
    }
}

#[derive(Serialize)]
struct Body<'a> {
    error: Inner<'a>,
}

#[derive(Serialize)]
struct Inner<'a> {
    code: Code,
    message: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    help: Option<&'a str>,
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        if self.code == Code::Internal {
            tracing::error!(error = %self.message, "a request failed");
        }
        let inner = Inner { code: self.code, message: &self.message, help: self.help.as_deref() };
        let mut response = (self.code.status(), axum::Json(Body { error: inner })).into_response();
        if let Some(span) = self.retry_after {
            let seconds = span.as_secs().max(1);
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if self.code == Code::Unauthorized {
            let scheme = HeaderValue::from_static("Bearer realm=\"runcue\"");
            response.headers_mut().insert(header::WWW_AUTHENTICATE, scheme);
        }
        response
    }
}

impl From<NameError> for Refusal {
    fn from(error: NameError) -> Self {
        Self::new(Code::Invalid, error.to_string())
    }
}

impl From<StoreError> for Refusal {
    fn from(error: StoreError) -> Self {
        let message = error.to_string();
        let code = match &error {
            StoreError::Full { .. } => {
                return Self::new(Code::QueueFull, message)
                    .after(Duration::from_secs(1))
                    .help("come back after Retry-After, or raise the cap: PUT /api/queues/{name}");
            }
            StoreError::Unavailable(_)
            | StoreError::DiskFull { .. }
            | StoreError::ReadOnly { .. }
            | StoreError::Closed => {
                return Self::new(Code::Unavailable, message).after(Duration::from_secs(2));
            }
            StoreError::NotFound(_) => Code::NotFound,
            StoreError::KeyTaken { .. } => Code::Conflict,
            StoreError::Newer { .. } | StoreError::Corrupt { .. } => Code::Internal,
            _ => Code::Invalid,
        };
        Self::new(code, message)
    }
}

impl From<runcue_engine::Error> for Refusal {
    fn from(error: runcue_engine::Error) -> Self {
        match error {
            runcue_engine::Error::Store(error) => error.into(),
            other => Self::new(Code::Invalid, other.to_string()),
        }
    }
}
