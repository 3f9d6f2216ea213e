//! Tokens over HTTP, for whoever may do everything.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};

use crate::access::Role;
use crate::error::{Answer, Code, Refusal};
use crate::hub::Shared;
use crate::openapi::{Described, Schema, instant, must, object, read_as, text, word};
use crate::tokens::{self, MAX_NAME, TokenError, TokenInfo};
use crate::wire::{Body, Part};

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

impl Described for Role {
    const NAME: &'static str = "Role";

    fn schema() -> Schema {
        word(&["read", "submit", "work", "admin"])
    }
}

impl Described for NewTokenBody {
    const NAME: &'static str = "NewToken";

    fn schema() -> Schema {
        let name = text().with("pattern", "^[A-Za-z0-9._-]+$").up_to(MAX_NAME);
        read_as::<Self>([must("name", name), must("role", Role::schema())])
    }
}

impl Described for TokenBody {
    const NAME: &'static str = "MadeToken";

    fn schema() -> Schema {
        let token = text().says("Shown this once.");
        object([must("name", text()), must("role", Role::schema()), must("token", token)])
    }
}

impl Described for TokenInfo {
    const NAME: &'static str = "Token";

    fn schema() -> Schema {
        let made = instant().or_null().says("`null` for one that was given at start.");
        object([must("name", text()), must("role", Role::schema()), must("created_at", made)])
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
    Part(name): Part<String>,
) -> Answer<StatusCode> {
    tokens::revoke(&*hub.store, hub.now(), &name).await?;
    hub.learn_tokens().await?;
    Ok(StatusCode::NO_CONTENT)
}
