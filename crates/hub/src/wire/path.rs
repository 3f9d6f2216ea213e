//! Reading the parts of a path: text that cannot be read is refused in the one shape that every error has.

use axum::extract::{FromRequestParts, Path};
use axum::http::request::Parts;
use serde::de::DeserializeOwned;

use crate::error::{Code, Refusal};

/// The parts of a path that stand for something.
#[derive(Debug)]
pub struct Part<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned + Send> FromRequestParts<S> for Part<T> {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refusal> {
        let read = Path::<T>::from_request_parts(parts, state).await;
        let Path(part) = read.map_err(|rejection| {
            Refusal::new(Code::BadRequest, format!("the path: {}", rejection.body_text()))
        })?;
        Ok(Self(part))
    }
}
