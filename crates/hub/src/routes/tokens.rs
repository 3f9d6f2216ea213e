//! Tokens over HTTP, for whoever may do everything.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};

use crate::access::Role;
use crate::error::{Answer, Code, Refusal};
use crate::hub::Shared;
use crate::tokens::{self, TokenError, TokenInfo};
use crate::wire::Body;

/// A token to be made.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewTokenBody {
    name: String,
    role: Role,
}

/// A token that was made.
#[derive(Serialize)]
pub struct TokenBody {
    /// Its name.
    pub name: String,
    /// What it may do.
    pub role: Role,
    /// The token, shown this once.
    pub token: String,
}

impl From<TokenError> for Refusal {
    fn from(error: TokenError) -> Self {
        let code = match error {
            TokenError::Store(error) => return error.into(),
            TokenError::Name => Code::Invalid,
            TokenError::Taken(_) => Code::Conflict,
            TokenError::Unknown(_) => Code::NotFound,
            TokenError::NoBits(_) => Code::Internal,
        };
        Self::new(code, error.to_string())
    }
}

/// `GET /api/tokens`
pub async fn list(State(hub): State<Arc<Shared>>) -> Answer<Json<Vec<TokenInfo>>> {
    hub.learn_tokens().await?;
    Ok(Json(hub.access.all().iter().map(TokenInfo::from).collect()))
}

/// `POST /api/tokens`
pub async fn create(
    State(hub): State<Arc<Shared>>,
    Body(body): Body<NewTokenBody>,
) -> Answer<(StatusCode, Json<TokenBody>)> {
    let token = tokens::create(&*hub.store, hub.now(), &body.name, body.role).await?;
    hub.learn_tokens().await?;
    Ok((StatusCode::CREATED, Json(TokenBody { name: body.name, role: body.role, token })))
}

/// `DELETE /api/tokens/{name}`
pub async fn revoke(
    State(hub): State<Arc<Shared>>,
    Path(name): Path<String>,
) -> Answer<StatusCode> {
    tokens::revoke(&*hub.store, hub.now(), &name).await?;
    hub.learn_tokens().await?;
    Ok(StatusCode::NO_CONTENT)
}
