//! What every request passes before it reaches a route: is it addressed to us, does the page that sent it
//! belong to us, who sends it, and may they do that.

use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::{ConnectInfo, Request, State};
use axum::http::{HeaderMap, Method, header};
use axum::middleware::Next;
use axum::response::Response;

use crate::access::{Caller, Role};
use crate::door::Peer;
use crate::error::{Code, Refusal};
use crate::hub::Shared;

/// The cookie a page logs in with.
pub const COOKIE: &str = "runcue_token";
/// The header that no foreign page can set without being asked for permission first.
pub const BY_SCRIPT: &str = "x-requested-with";

/// Where a request comes from, as far as is known.
pub fn address(request: &Request) -> IpAddr {
    let peer = request.extensions().get::<ConnectInfo<Peer>>();
    peer.map_or(IpAddr::from([0, 0, 0, 0]), |peer| peer.0.0.ip())
}

/// Checks host and origin and finds out who sends it. Routes that need no role come through too.
pub async fn identify(
    State(hub): State<Arc<Shared>>,
    mut request: Request,
    next: Next,
) -> Result<Response, Refusal> {
    let headers = request.headers();
    check_host(headers, &hub.config.hosts)?;
    check_origin(headers, request.method(), &hub.config.hosts)?;
    if let Some(caller) = caller(&hub, &request)? {
        if caller.by_cookie && changes(request.method()) && !headers.contains_key(BY_SCRIPT) {
            return Err(Refusal::new(Code::WrongOrigin, "a page must send X-Requested-With")
                .help("send the header X-Requested-With: runcue, or use a bearer token"));
        }
        request.extensions_mut().insert(caller);
    }
    Ok(next.run(request).await)
}

/// Lets through only callers whose role allows it.
pub async fn require(role: Role, request: Request, next: Next) -> Result<Response, Refusal> {
    let Some(caller) = request.extensions().get::<Caller>() else {
        return Err(Refusal::new(Code::Unauthorized, "this needs a token")
            .help("send Authorization: Bearer TOKEN; `runcue token create NAME` makes one"));
    };
    if !caller.role.may(role) {
        let (has, needs) = (caller.role.as_str(), role.as_str());
        let why = format!("token {} has the role {has}, this needs {needs}", caller.name);
        return Err(Refusal::new(Code::Forbidden, why));
    }
    Ok(next.run(request).await)
}

fn changes(method: &Method) -> bool {
    !matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS)
}

fn caller(hub: &Shared, request: &Request) -> Result<Option<Caller>, Refusal> {
    let open =
        || Caller { name: "anybody".to_owned(), role: Role::Admin, open: true, by_cookie: false };
    if hub.access.is_open() {
        return Ok(Some(open()));
    }
    let bearer = bearer(request.headers());
    let by_cookie = bearer.is_none();
    let Some(secret) = bearer.or_else(|| cookie(request.headers())) else { return Ok(None) };
    let (from, now) = (address(request), hub.now());
    match hub.access.of(secret) {
        // Behind a proxy everybody has one address: whoever has a good token is not kept out by others' bad ones.
        Some((name, role)) => Ok(Some(Caller { name, role, open: false, by_cookie })),
        // A cookie of a token that is gone is an old login, not a guess.
        None if by_cookie => Ok(None),
        None => {
            if let Some(span) = hub.access.barred(from, now) {
                let why = "too many wrong tokens from this address";
                return Err(Refusal::new(Code::TooManyAttempts, why).after(span));
            }
            hub.access.guessed_wrong(from, now);
            Err(Refusal::new(Code::Unauthorized, "the token is not known")
                .help("`runcue token list` shows which there are"))
        }
    }
}

/// The bearer token of a request.
pub fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, secret) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| secret.trim())
}

fn cookie(headers: &HeaderMap) -> Option<&str> {
    let cookies = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut pairs = cookies.flat_map(|cookies| cookies.split(';'));
    pairs.find_map(|pair| pair.trim().strip_prefix(COOKIE)?.strip_prefix('='))
}

/// A foreign name that was made to point here (DNS rebinding) is refused; addresses cannot be made to.
fn check_host(headers: &HeaderMap, allowed: &[String]) -> Result<(), Refusal> {
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    if host.is_empty() || is_ours(host, allowed) {
        return Ok(());
    }
    Err(Refusal::new(Code::WrongHost, format!("this hub does not answer for {host:?}"))
        .help("start it with --host NAME for every name it is reached by"))
}

fn is_ours(host: &str, allowed: &[String]) -> bool {
    let name = without_port(host);
    name.eq_ignore_ascii_case("localhost")
        || name.trim_matches(['[', ']']).parse::<IpAddr>().is_ok()
        || allowed.iter().any(|own| own.eq_ignore_ascii_case(name))
}

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    }
}

/// A page of another origin may not make a browser change anything here.
fn check_origin(headers: &HeaderMap, method: &Method, allowed: &[String]) -> Result<(), Refusal> {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let refused = || {
        Err(Refusal::new(Code::WrongOrigin, "the request comes from a page of another origin")
            .help("open the dashboard at the hub's own address, or start the hub with --host NAME"))
    };
    if changes(method) && headers.get("sec-fetch-site").is_some_and(|site| site == "cross-site") {
        return refused();
    }
    let Some(origin) = headers.get(header::ORIGIN) else { return Ok(()) };
    let place =
        origin.to_str().ok().and_then(|text| text.split_once("://")).map(|(_, place)| place);
    let same = place.is_some() && place == text(header::HOST);
    let named = place.is_some_and(|place| {
        allowed.iter().any(|own| own.eq_ignore_ascii_case(without_port(place)))
    });
    if same || named { Ok(()) } else { refused() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect()
    }

    #[test]
    fn only_our_own_names_and_addresses_are_answered_for() {
        let check = |host| check_host(&headers(&[("host", host)]), &["queue.example".to_owned()]);
        for ours in ["localhost:3000", "127.0.0.1", "[::1]:80", "queue.example", "QUEUE.example:1"]
        {
            assert!(check(ours).is_ok(), "{ours}");
        }
        for foreign in ["evil.example", "localhost.evil.example:3000", "queue.example.evil"] {
            assert_eq!(check(foreign).unwrap_err().code, Code::WrongHost, "{foreign}");
        }
    }

    #[test]
    fn a_page_of_another_origin_changes_nothing() {
        let check = |pairs: &[(&'static str, &str)]| {
            check_origin(&headers(pairs), &Method::POST, &[]).map_err(|refusal| refusal.code)
        };
        assert_eq!(check(&[("host", "localhost:3000")]), Ok(()));
        let own = [("host", "localhost:3000"), ("origin", "http://localhost:3000")];
        assert_eq!(check(&own), Ok(()));
        let other = [("host", "localhost:3000"), ("origin", "http://localhost:4000")];
        assert_eq!(check(&other), Err(Code::WrongOrigin));
        assert_eq!(check(&[("host", "localhost"), ("origin", "null")]), Err(Code::WrongOrigin));
        let quiet = [("host", "localhost"), ("sec-fetch-site", "cross-site")];
        assert_eq!(check(&quiet), Err(Code::WrongOrigin));
    }

    #[test]
    fn a_token_comes_as_a_bearer_or_in_our_cookie() {
        assert_eq!(bearer(&headers(&[("authorization", "bearer abc ")])), Some("abc"));
        assert_eq!(bearer(&headers(&[("authorization", "Basic abc")])), None);
        let cookies = headers(&[("cookie", "a=1; runcue_token=xyz; b=2")]);
        assert_eq!(cookie(&cookies), Some("xyz"));
        assert_eq!(cookie(&headers(&[("cookie", "runcue_tokenx=1")])), None);
    }
}
