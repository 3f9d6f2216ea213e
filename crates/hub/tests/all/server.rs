//! A hub on a free port of loopback, and a client for it.

use std::sync::Arc;
use std::time::Duration;

use reqwest::{Method, RequestBuilder, Response, StatusCode};
use runcue_hub::{Door, Hub, HubConfig};
use runcue_store::{MemoryStore, Store};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

/// A hub that is served, until it is dropped.
pub struct Server {
    /// Its address.
    pub url: String,
    /// Its store.
    pub store: Arc<dyn Store>,
    stop: CancellationToken,
    client: reqwest::Client,
    token: Option<String>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// What an answer says.
pub struct Answer {
    /// Its status.
    pub status: StatusCode,
    /// Its headers.
    pub headers: reqwest::header::HeaderMap,
    /// Its body; null if there is none.
    pub body: Value,
}

impl Answer {
    /// The stable word of an error.
    pub fn code(&self) -> &str {
        self.body["error"]["code"].as_str().unwrap_or_default()
    }
}

impl Server {
    /// A hub on a store in memory that anybody may use.
    pub async fn open() -> Self {
        Self::with(HubConfig::default()).await
    }

    /// A hub on a store in memory.
    pub async fn with(config: HubConfig) -> Self {
        Self::on(Arc::new(MemoryStore::new()), config).await
    }

    /// A hub on a store.
    pub async fn on(store: Arc<dyn Store>, config: HubConfig) -> Self {
        let hub = Hub::open(Arc::clone(&store), config).await.unwrap();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let stop = CancellationToken::new();
        let stopped = stop.clone().cancelled_owned();
        tokio::spawn(async move {
            hub.serve(Door::plain(listener).unwrap(), stopped).await.unwrap();
        });
        let _ = rustls::crypto::ring::default_provider().install_default();
        Self { url, store, stop, client: reqwest::Client::new(), token: None }
    }

    /// The same hub, asked with another token.
    pub fn as_token(&self, token: &str) -> Self {
        Self {
            url: self.url.clone(),
            store: Arc::clone(&self.store),
            stop: CancellationToken::new(),
            client: self.client.clone(),
            token: Some(token.to_owned()),
        }
    }

    /// A request to be sent.
    pub fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let request = self.client.request(method, format!("{}{path}", self.url));
        match &self.token {
            Some(token) => request.bearer_auth(token),
            None => request,
        }
    }

    /// Asks.
    pub async fn get(&self, path: &str) -> Answer {
        answer(self.request(Method::GET, path).send().await.unwrap()).await
    }

    /// Sends.
    pub async fn post(&self, path: &str, body: Value) -> Answer {
        answer(self.request(Method::POST, path).json(&body).send().await.unwrap()).await
    }

    /// Sends by another method.
    pub async fn send(&self, method: Method, path: &str, body: Value) -> Answer {
        answer(self.request(method, path).json(&body).send().await.unwrap()).await
    }

    /// Deletes.
    pub async fn delete(&self, path: &str) -> Answer {
        answer(self.request(Method::DELETE, path).send().await.unwrap()).await
    }

    /// Submits a job of a type and answers its id.
    pub async fn job(&self, kind: &str) -> String {
        let answer = self.post("/api/jobs", json!({ "type": kind })).await;
        assert_eq!(answer.status, 201, "{}", answer.body);
        answer.body["id"].as_str().unwrap().to_owned()
    }

    /// Claims by name what is not there.
    pub async fn claim_nothing(&self, worker: &str) {
        let answer = self.post("/api/jobs/claim", json!({ "worker_id": worker })).await;
        assert_eq!(answer.status, 204, "{}", answer.body);
    }

    /// Claims a job by name, which must be there.
    pub async fn claim(&self, worker: &str) -> Value {
        let answer = self.post("/api/jobs/claim", json!({ "worker_id": worker })).await;
        assert_eq!(answer.status, 200, "{}", answer.body);
        answer.body
    }
}

/// Reads an answer whole.
pub async fn answer(response: Response) -> Answer {
    let (status, headers) = (response.status(), response.headers().clone());
    let text = response.text().await.unwrap();
    let body = if text.is_empty() { Value::Null } else { serde_json::from_str(&text).unwrap() };
    Answer { status, headers, body }
}

/// Reads an event stream until it holds a text, with a bound.
pub async fn read_until(response: Response, text: &str) -> String {
    use futures_util::StreamExt as _;
    let mut stream = response.bytes_stream();
    let mut seen = String::new();
    let read = async {
        while let Some(piece) = stream.next().await {
            seen.push_str(&String::from_utf8_lossy(&piece.unwrap()));
            if seen.contains(text) {
                return;
            }
        }
    };
    let bounded = tokio::time::timeout(Duration::from_secs(20), read).await;
    assert!(bounded.is_ok(), "{text:?} did not come; there was: {seen}");
    seen
}
