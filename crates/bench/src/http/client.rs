//! The client of every figure over HTTP: one connection that is kept open, one request at a time.

use std::net::SocketAddr;

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::{CONTENT_TYPE, HOST, HeaderValue};
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use serde::de::DeserializeOwned;
use tokio::net::TcpStream;

/// A connection that is kept open.
pub struct Connection {
    sender: SendRequest<Full<Bytes>>,
    host: HeaderValue,
}

impl Connection {
    pub async fn open(address: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let (sender, connection) = handshake(TokioIo::new(stream)).await?;
        // It ends with its sender; what goes wrong with it is seen by whoever sends.
        tokio::spawn(connection);
        Ok(Self { sender, host: HeaderValue::from_str(&address.to_string())? })
    }

    async fn send(
        &mut self,
        method: Method,
        path: &str,
        body: Bytes,
    ) -> Result<Response<Incoming>> {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(HOST, &self.host)
            .header(CONTENT_TYPE, HeaderValue::from_static("application/json"))
            .body(Full::new(body))?;
        self.sender.ready().await?;
        let response = self.sender.send_request(request).await?;
        let status = response.status();
        ensure!(status.is_success(), "{path} was answered with {status}");
        Ok(response)
    }

    /// Posts JSON and answers with the body of the answer.
    pub async fn post(&mut self, path: &str, body: impl Into<Bytes>) -> Result<Bytes> {
        let response = self.send(Method::POST, path, body.into()).await?;
        Ok(response.into_body().collect().await?.to_bytes())
    }

    /// Gets JSON.
    pub async fn get<T: DeserializeOwned>(&mut self, path: &str) -> Result<T> {
        let response = self.send(Method::GET, path, Bytes::new()).await?;
        let body = response.into_body().collect().await?.to_bytes();
        serde_json::from_slice(&body).with_context(|| format!("{path} was answered strangely"))
    }

    /// Opens a stream; the connection serves it and nothing else.
    pub async fn stream(mut self, path: &str) -> Result<(Self, Incoming)> {
        let response = self.send(Method::GET, path, Bytes::new()).await?;
        Ok((self, response.into_body()))
    }

    /// Registers as a worker, as agents do before they claim.
    pub async fn register(&mut self, worker: &str) -> Result<()> {
        let body = format!(r#"{{"worker_id":"{worker}","cores":4,"ram_gb":8,"tags":["linux"]}}"#);
        self.post("/api/workers/register", body).await.map(drop)
    }
}
