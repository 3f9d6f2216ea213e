//! Spans on their way to a collector: in batches, over HTTP, and never at the cost of work. Owns what is kept when the
//! collector is away, which is one batch and what fits in the queue, and what is said about it, which is little.
//!
//! ```text
//! queue ─▶ batch (512 spans, or 5 s after the first) ─▶ POST ─▶ taken: the next
//!                                                            ─▶ not now (429, 502, 503, 504, nobody there): once more later
//!                                                            ─▶ refused: dropped
//! ```

use std::time::Duration;

use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};
use reqwest::{Client, Response, StatusCode, Url};
use serde::Deserialize;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::otlp;
use crate::settings::Settings;
use crate::span::{Ended, Spans};

/// Spans of one request.
const MOST: usize = 512;
/// How long the first span of a batch waits for company, and how long until the next try.
const EVERY: Duration = Duration::from_secs(5);
/// The longest that a collector may send us away for.
const LONGEST: Duration = Duration::from_secs(60);
/// How long a collector may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long a connection may take.
const CONNECT: Duration = Duration::from_secs(3);
/// How long the last spans may take at the end of the process.
const FLUSH: Duration = Duration::from_secs(3);

/// Delivers spans in the background.
///
/// ```no_run
/// use runcue_trace::{Exporter, Settings, Tracer};
///
/// # async fn example(random: fn() -> u128) -> Result<(), String> {
/// let (mut tracer, mut exporter) = (Tracer::off(), None);
/// // Nothing, unless the environment names a collector.
/// if let Some(settings) = Settings::read(&|name| std::env::var(name).ok()) {
///     let (on, spans) = Tracer::new(settings.sampler, random);
///     (tracer, exporter) = (on, Some(Exporter::start(settings, spans)?));
/// }
/// // Give the tracer to an engine, run it, stop it; then:
/// # drop(tracer);
/// if let Some(exporter) = exporter {
///     exporter.flush().await;
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Exporter {
    stop: CancellationToken,
    done: JoinHandle<()>,
}

impl Exporter {
    /// Begins to deliver, in the runtime of the caller.
    ///
    /// # Errors
    /// What is wrong with the settings, in words.
    pub fn start(settings: Settings, spans: Spans) -> Result<Self, String> {
        let delivery = Delivery::new(settings, spans, EVERY)?;
        let stop = CancellationToken::new();
        let done = tokio::spawn(delivery.run(stop.clone()));
        Ok(Self { stop, done })
    }

    /// Delivers what there is, as far as that is possible within three seconds.
    pub async fn flush(self) {
        self.stop.cancel();
        let abort = self.done.abort_handle();
        if tokio::time::timeout(FLUSH, self.done).await.is_err() {
            abort.abort();
            tracing::debug!("the last spans were not delivered in time");
        }
    }
}

/// What became of a batch.
enum Answer {
    Taken,
    NotNow { why: String, after: Option<Duration> },
    Refused(String),
}

struct Delivery {
    client: Client,
    url: Url,
    resource: Vec<(String, String)>,
    spans: Spans,
    batch: Vec<Ended>,
    every: Duration,
    /// Trouble is told once, until it is over.
    told: bool,
    dropped: u64,
}

impl Delivery {
    fn new(settings: Settings, spans: Spans, every: Duration) -> Result<Self, String> {
        let Settings { endpoint, headers, resource, .. } = settings;
        let url = Url::parse(&endpoint)
            .map_err(|error| format!("the endpoint is no address: {error}"))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(format!("the endpoint is reached by http or https, not {}", url.scheme()));
        }
        // A provider that is there already is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = Client::builder()
            .connect_timeout(CONNECT)
            .timeout(PATIENCE)
            .redirect(reqwest::redirect::Policy::none())
            .user_agent(concat!("runcue/", env!("CARGO_PKG_VERSION")))
            .default_headers(header_map(headers)?)
            .build()
            .map_err(|error| format!("TLS cannot be set up: {error}"))?;
        Ok(Self { client, url, resource, spans, batch: Vec::new(), every, told: false, dropped: 0 })
    }

    async fn run(mut self, stop: CancellationToken) {
        let mut again_after = None;
        while self.gather(&stop, again_after.unwrap_or(self.every)).await {
            again_after = self.deliver().await;
        }
        // Whoever could not take the last batch gets one more chance, and no more than that.
        while self.fill() && self.deliver().await.is_none() {}
        self.count_dropped();
        if self.dropped > 0 {
            tracing::info!(spans = self.dropped, "spans were dropped");
        }
    }

    /// Waits until there is something to deliver; false when it is time to end.
    async fn gather(&mut self, stop: &CancellationToken, pause: Duration) -> bool {
        // What was not taken the last time waits for its pause to be over, however much has come since.
        let again = !self.batch.is_empty();
        if !again {
            tokio::select! {
                () = stop.cancelled() => return false,
                came = self.spans.queue.recv_many(&mut self.batch, MOST) => if came == 0 { return false },
            }
        }
        let mut due = std::pin::pin!(tokio::time::sleep(pause));
        while again || self.batch.len() < MOST {
            let room = MOST.saturating_sub(self.batch.len());
            tokio::select! {
                () = stop.cancelled() => return false,
                () = &mut due => return true,
                came = self.spans.queue.recv_many(&mut self.batch, room), if room > 0 => {
                    if came == 0 { return false }
                }
            }
        }
        true
    }

    /// Takes what is there already; whether there is anything.
    fn fill(&mut self) -> bool {
        while self.batch.len() < MOST {
            match self.spans.next_now() {
                Some(span) => self.batch.push(span),
                None => break,
            }
        }
        !self.batch.is_empty()
    }

    /// Delivers the batch; answers how long to wait before it is tried again, if it has to be.
    async fn deliver(&mut self) -> Option<Duration> {
        match self.post().await {
            Answer::Taken => {
                self.batch.clear();
                if std::mem::take(&mut self.told) {
                    tracing::info!("traces are delivered again");
                }
                self.count_dropped();
                None
            }
            Answer::NotNow { why, after } => {
                self.complain(&why);
                Some(after.unwrap_or(self.every))
            }
            Answer::Refused(why) => {
                self.complain(&why);
                self.dropped += self.batch.len() as u64;
                self.batch.clear();
                None
            }
        }
    }

    async fn post(&self) -> Answer {
        let body = otlp::body(&self.resource, &self.batch);
        let request = self.client.post(self.url.clone()).header(CONTENT_TYPE, "application/json");
        match request.body(body).send().await {
            Ok(response) => judge(response).await,
            Err(error) => Answer::NotNow { why: innermost(&error), after: None },
        }
    }

    fn complain(&mut self, why: &str) {
        if std::mem::replace(&mut self.told, true) {
            return;
        }
        // The whole address may hold a secret.
        let host = self.url.host_str().unwrap_or_default();
        let port = self.url.port_or_known_default().unwrap_or_default();
        tracing::warn!(
            "traces cannot be delivered to {host}:{port}: {why}; work goes on without them"
        );
    }

    fn count_dropped(&mut self) {
        let dropped = self.spans.take_dropped();
        if dropped > 0 && self.dropped == 0 {
            tracing::warn!(
                "spans come faster than they are delivered; {dropped} were dropped so far"
            );
        }
        self.dropped += dropped;
    }
}

fn header_map(pairs: Vec<(String, String)>) -> Result<HeaderMap, String> {
    let mut headers = HeaderMap::new();
    for (name, value) in pairs {
        let bad = || format!("the header {name} cannot be sent");
        let key = HeaderName::from_bytes(name.as_bytes()).map_err(|_| bad())?;
        let mut value = HeaderValue::from_str(&value).map_err(|_| bad())?;
        value.set_sensitive(true);
        headers.insert(key, value);
    }
    Ok(headers)
}

/// What a collector says of spans that it took only in part.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Taken {
    partial_success: Option<Partial>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Partial {
    #[serde(default)]
    error_message: String,
}

async fn judge(response: Response) -> Answer {
    let status = response.status();
    if status.is_success() {
        let taken = response.json::<Taken>().await.ok().and_then(|taken| taken.partial_success);
        let message = taken.map(|partial| partial.error_message).filter(|text| !text.is_empty());
        if let Some(message) = message {
            tracing::debug!(message, "the collector did not take every span");
        }
        return Answer::Taken;
    }
    let why = format!("status {status}");
    match status {
        StatusCode::TOO_MANY_REQUESTS
        | StatusCode::BAD_GATEWAY
        | StatusCode::SERVICE_UNAVAILABLE
        | StatusCode::GATEWAY_TIMEOUT => {
            let after = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok());
            let after = after.and_then(|text| text.parse().ok()).map(Duration::from_secs);
            Answer::NotNow { why, after: after.map(|span| span.clamp(EVERY, LONGEST)) }
        }
        _ => Answer::Refused(why),
    }
}

/// The innermost reason, which is the one that says something.
fn innermost(error: &dyn std::error::Error) -> String {
    let mut inner = error;
    while let Some(source) = inner.source() {
        inner = source;
    }
    inner.to_string()
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Read, Write};
    use std::net::TcpListener;
    use std::sync::mpsc;

    use runcue_core::Timestamp;

    use super::*;
    use crate::sampler::Sampler;
    use crate::span::{Details, Kind, Tracer};

    const NOW: Timestamp = Timestamp::from_millis(1_700_000_000_000);

    /// A collector that answers with these statuses in turn, and what it was sent: heads and bodies.
    fn collector(answers: &'static [u16]) -> (String, mpsc::Receiver<(String, serde_json::Value)>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/v1/traces", listener.local_addr().unwrap());
        let (heard, posts) = mpsc::channel();
        std::thread::spawn(move || {
            for (status, stream) in answers.iter().zip(listener.incoming()) {
                let mut stream = stream.unwrap();
                let mut reader = BufReader::new(stream.try_clone().unwrap());
                let mut head = String::new();
                while !head.ends_with("\r\n\r\n") {
                    assert!(reader.read_line(&mut head).unwrap() > 0, "{head}");
                }
                let lower = head.to_ascii_lowercase();
                let length = lower.split("content-length: ").nth(1).unwrap();
                let mut body = vec![0; length.lines().next().unwrap().parse().unwrap()];
                reader.read_exact(&mut body).unwrap();
                let answer = format!(
                    "HTTP/1.1 {status} X\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{{}}"
                );
                // Told of before it is answered: whoever has the answer may look at once.
                heard.send((lower, serde_json::from_slice(&body).unwrap())).unwrap();
                stream.write_all(answer.as_bytes()).unwrap();
            }
        });
        (url, posts)
    }

    fn names(body: &serde_json::Value) -> Vec<&str> {
        let spans = body["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().unwrap();
        spans.iter().map(|span| span["name"].as_str().unwrap()).collect()
    }

    fn begin(endpoint: String, every: Duration) -> (Tracer, Exporter) {
        let (tracer, spans) = Tracer::new(Sampler::default(), || 7);
        let settings = Settings {
            endpoint,
            headers: vec![("Authorization".to_owned(), "Bearer x".to_owned())],
            resource: Vec::new(),
            sampler: Sampler::default(),
            notices: Vec::new(),
        };
        let stop = CancellationToken::new();
        let delivery = Delivery::new(settings, spans, every).unwrap();
        let done = tokio::spawn(delivery.run(stop.clone()));
        (tracer, Exporter { stop, done })
    }

    fn make(tracer: &Tracer, name: &str) {
        let details = || Details {
            name: name.to_owned(),
            kind: Kind::Consumer,
            attributes: Vec::new(),
            error: None,
        };
        tracer.start(None, || NOW).unwrap().end(NOW, details);
    }

    async fn next(
        posts: mpsc::Receiver<(String, serde_json::Value)>,
    ) -> (mpsc::Receiver<(String, serde_json::Value)>, String, serde_json::Value) {
        tokio::task::spawn_blocking(move || {
            let (head, body) = posts.recv_timeout(Duration::from_secs(30)).unwrap();
            (posts, head, body)
        })
        .await
        .unwrap()
    }

    #[tokio::test]
    async fn what_was_not_taken_comes_again_and_what_was_refused_does_not() {
        let (url, posts) = collector(&[503, 200, 400, 200]);
        let (tracer, exporter) = begin(url, Duration::from_millis(5));
        make(&tracer, "a");
        let (posts, head, body) = next(posts).await;
        assert!(
            head.starts_with("post /v1/traces http/1.1")
                && head.contains("authorization: bearer x")
        );
        assert!(head.contains("content-type: application/json"), "{head}");
        assert_eq!(names(&body), ["a"]);
        let (posts, _, body) = next(posts).await;
        assert_eq!(names(&body), ["a"]);
        make(&tracer, "b");
        let (posts, _, body) = next(posts).await;
        assert_eq!(names(&body), ["b"]);
        make(&tracer, "c");
        let (_, _, body) = next(posts).await;
        assert_eq!(names(&body), ["c"]);
        exporter.flush().await;
    }

    #[tokio::test]
    async fn the_last_spans_are_delivered_in_batches_when_the_process_ends() {
        let (url, posts) = collector(&[200, 200, 200]);
        let (tracer, exporter) = begin(url, Duration::from_secs(3_600));
        for n in 0..MOST + 1 {
            make(&tracer, &n.to_string());
        }
        exporter.flush().await;
        let sizes: Vec<usize> = posts.try_iter().map(|(_, body)| names(&body).len()).collect();
        assert_eq!(sizes, [MOST, 1]);
    }

    #[test]
    fn an_endpoint_or_a_header_that_cannot_be_used_is_named() {
        let refused = |endpoint: &str, header: &str| {
            let (_, spans) = Tracer::new(Sampler::default(), || 7);
            let settings = Settings {
                endpoint: endpoint.to_owned(),
                headers: vec![(header.to_owned(), "secret".to_owned())],
                resource: Vec::new(),
                sampler: Sampler::default(),
                notices: Vec::new(),
            };
            Delivery::new(settings, spans, EVERY).err().unwrap()
        };
        assert!(refused("collector:4318", "x").contains("http or https"));
        assert!(refused("no address", "x").contains("no address"));
        let header = refused("http://x", "a b");
        assert!(header.contains("a b") && !header.contains("secret"), "{header}");
    }
}
