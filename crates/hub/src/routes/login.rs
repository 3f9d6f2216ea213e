//! Logging in from a browser: the token becomes a cookie that no script can read and no other site can send.

use std::sync::Arc;

use axum::extract::{ConnectInfo, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use serde::Deserialize;

use crate::access::{Caller, Role};
use crate::door::Peer;
use crate::error::{Answer, Code, Refusal};
use crate::guard::COOKIE;
use crate::hub::Shared;
use crate::openapi::{Described, Schema, flag, must, object, read_as, text};
use crate::wire::Body;

/// How long a login lasts, in seconds.
const LASTS: u32 = 30 * 24 * 3600;

/// A login.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoginBody {
    token: String,
}

impl Described for LoginBody {
    const NAME: &'static str = "Login";

    fn schema() -> Schema {
        read_as::<Self>([must("token", text())])
    }
}

impl Described for Caller {
    const NAME: &'static str = "Caller";

    fn schema() -> Schema {
        object([
            must("name", text()),
            must("role", Role::schema()),
            must("open", flag().says("Nobody needs a token here.")),
        ])
    }
}

/// `POST /api/login`
pub async fn login(
    State(hub): State<Arc<Shared>>,
    peer: Option<Extension<ConnectInfo<Peer>>>,
    Body(body): Body<LoginBody>,
) -> Answer<Response> {
    let from = peer.map_or([0, 0, 0, 0].into(), |Extension(peer)| peer.0.0.ip());
    let now = hub.now();
    if let Some(span) = hub.access.barred(from, now) {
        return Err(Refusal::new(Code::TooManyAttempts, "too many wrong tokens from this address")
            .after(span));
    }
    let Some((name, role)) = hub.access.of(body.token.trim()) else {
        hub.access.guessed_wrong(from, now);
        return Err(Refusal::new(Code::Unauthorized, "the token is not known")
            .help("`runcue token create NAME` makes one"));
    };
    let caller = Caller { name, role, open: false, by_cookie: true };
    let mut response = Json(caller).into_response();
    set_cookie(&hub, &mut response, body.token.trim(), LASTS)?;
    Ok(response)
}

fn set_cookie(hub: &Shared, response: &mut Response, token: &str, lasts: u32) -> Answer<()> {
    let secure = if hub.config.tls { "; Secure" } else { "" };
    let cookie =
        format!("{COOKIE}={token}; Path=/; Max-Age={lasts}; HttpOnly; SameSite=Strict{secure}");
    let value = HeaderValue::try_from(cookie)
        .map_err(|_| Refusal::field("token", "it holds characters that no token has"))?;
    response.headers_mut().insert(header::SET_COOKIE, value);
    Ok(())
}

/// `POST /api/logout`
pub async fn logout(State(hub): State<Arc<Shared>>) -> Answer<Response> {
    let mut response = StatusCode::NO_CONTENT.into_response();
    set_cookie(&hub, &mut response, "", 0)?;
    Ok(response)
}

/// `GET /api/me`
pub async fn me(caller: Option<Extension<Caller>>) -> Answer<Json<Caller>> {
    match caller {
        Some(Extension(caller)) => Ok(Json(caller)),
        None => Err(Refusal::new(Code::Unauthorized, "nobody is logged in")
            .help("POST /api/login with a token")),
    }
}
