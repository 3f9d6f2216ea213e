//! Webhooks over HTTP, for whoever may do everything.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use runcue_core::{GroupName, StateWord, TaskName};
use serde::Deserialize;

use crate::error::{Answer, Code, Refusal};
use crate::hub::Shared;
use crate::openapi::{
    Described, Schema, an_id, both, instant, list_of, may, must, name, named, object, read_as,
    text, word,
};
use crate::webhooks::{self, MAX_URL, MadeWebhook, NewWebhook, SECRET, WebhookError, WebhookInfo};
use crate::wire::{Body, Part};

/// A webhook to be made.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewWebhookBody {
    url: String,
    events: Option<Vec<StateWord>>,
    task: Option<TaskName>,
    group: Option<GroupName>,
    secret: Option<String>,
}

impl From<WebhookError> for Refusal {
    fn from(error: WebhookError) -> Self {
        let code = match error {
            WebhookError::Store(error) => return error.into(),
            WebhookError::Url(_)
            | WebhookError::Event(_)
            | WebhookError::Task(_)
            | WebhookError::Secret => Code::Invalid,
            WebhookError::TooMany => Code::Conflict,
            WebhookError::Unknown(_) => Code::NotFound,
            WebhookError::NoBits(_) => Code::Internal,
        };
        Self::new(code, error.to_string())
    }
}

/// What ends a job.
fn ends() -> Schema {
    let finals = StateWord::ALL.into_iter().filter(|state| state.is_final());
    let words: Vec<&str> = finals.map(StateWord::as_str).collect();
    list_of(word(&words))
}

impl Described for NewWebhookBody {
    const NAME: &'static str = "NewWebhook";

    fn schema() -> Schema {
        let secret = text()
            .with("pattern", "^[!-~]+$")
            .with("minLength", *SECRET.start())
            .up_to(*SECRET.end())
            .or_null();
        read_as::<Self>([
            must(
                "url",
                text()
                    .with("pattern", "^https?://[^/@]")
                    .up_to(MAX_URL)
                    .says("By http or https, without a name or password."),
            ),
            may("events", ends().or_null().says("How jobs end that it tells of; none means all.")),
            may("task", name().or_null().says("Only jobs of this type.")),
            may("group", name().or_null().says("Only jobs of this group.")),
            may(
                "secret",
                secret.says("What deliveries are signed with; made here unless it says."),
            ),
        ])
    }
}

impl Described for WebhookInfo {
    const NAME: &'static str = "Webhook";

    fn schema() -> Schema {
        object([
            must("id", an_id()),
            must("url", text()),
            must("events", ends()),
            must("task", text().or_null()),
            must("group", text().or_null()),
            must("created_at", instant().says("It tells of nothing that happened before.")),
        ])
    }
}

impl Described for MadeWebhook {
    const NAME: &'static str = "MadeWebhook";

    fn schema() -> Schema {
        let secret = text().says("Shown this once.");
        both([named::<WebhookInfo>(), object([must("secret", secret)])])
    }
}

/// `GET /api/webhooks`
pub async fn list(State(hub): State<Arc<Shared>>) -> Answer<Json<Vec<WebhookInfo>>> {
    Ok(Json(webhooks::list(&*hub.store).await?))
}

/// `POST /api/webhooks`
pub async fn create(
    State(hub): State<Arc<Shared>>,
    Body(body): Body<NewWebhookBody>,
) -> Answer<(StatusCode, Json<MadeWebhook>)> {
    let NewWebhookBody { url, events, task, group, secret } = body;
    let events = events.unwrap_or_default().into_iter().collect();
    let new = NewWebhook { url, events, task, group, secret };
    let made = webhooks::create(&*hub.store, hub.now(), new).await?;
    Ok((StatusCode::CREATED, Json(made)))
}

/// `GET /api/webhooks/{id}`
pub async fn get(
    State(hub): State<Arc<Shared>>,
    Part(id): Part<String>,
) -> Answer<Json<WebhookInfo>> {
    Ok(Json(webhooks::find_info(&*hub.store, &id).await?))
}

/// `DELETE /api/webhooks/{id}`
pub async fn remove(State(hub): State<Arc<Shared>>, Part(id): Part<String>) -> Answer<StatusCode> {
    webhooks::remove(&*hub.store, hub.now(), &id).await?;
    Ok(StatusCode::NO_CONTENT)
}
