//! A server that throws keys away when memory is short: refused at every new connection, and named while a daemon runs.

use std::fmt::Write;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use runcue_store::{Store, SubmitBatch};
use runcue_store_redis::{Options, RedisStore, open, open_url};
use runcue_store_suite::scene::{BEGINNING, job};
use runcue_test_servers::Redis;
use tokio::time::timeout;

/// What has not happened by then does not happen.
const BOUND: Duration = Duration::from_secs(30);

fn set_policy(server: &Redis, policy: &str) {
    let said = server.command(&["CONFIG", "SET", "maxmemory-policy", policy]);
    assert_eq!(said.unwrap(), "+OK", "{policy}");
}

async fn submit(store: &RedisStore, n: u128) -> Result<(), String> {
    let submitted = store.submit(BEGINNING, SubmitBatch::of(vec![job(n)])).await;
    submitted.map(drop).map_err(|error| error.to_string())
}

#[tokio::test]
async fn every_policy_that_throws_keys_away_is_refused_unless_that_is_accepted() {
    let server = Redis::settings().start().unwrap();
    let words = ["ACL", "SETUSER", "me", "reset", "on", ">pass", "~*", "&*", "+@all", "-config"];
    assert_eq!(server.command(&words).unwrap(), "+OK");
    // Who may not ask for the settings is told of this one all the same.
    let urls = [server.url(), server.url().replace("redis://", "redis://me:pass@")];
    let kinds = ["lru", "lfu", "random"]
        .map(|kind| [format!("allkeys-{kind}"), format!("volatile-{kind}")]);
    let policies = kinds.into_iter().flatten().chain(["volatile-ttl".to_owned()]);
    for (n, policy) in (1..).zip(policies) {
        set_policy(&server, &policy);
        for url in &urls {
            let line = open_url(url).unwrap_err().to_string();
            assert_eq!(line.lines().count(), 1, "{line}");
            for word in [&policy[..], "CONFIG SET maxmemory-policy noeviction", "eviction=accept"] {
                assert!(line.contains(word), "{word:?} is not in {line:?}");
            }
            submit(&open_url(&format!("{url}?eviction=accept")).unwrap(), n).await.unwrap();
        }
    }
    set_policy(&server, "noeviction");
    urls.iter().for_each(|url| drop(open_url(url).unwrap()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_policy_that_changes_is_found_when_the_connection_is_made_anew() {
    let server = Redis::settings().start().unwrap();
    let store = open_url(&server.url()).unwrap();
    submit(&store, 1).await.unwrap();
    set_policy(&server, "allkeys-lfu");
    submit(&store, 2).await.unwrap();
    let kill = ["CLIENT", "KILL", "TYPE", "normal"];
    assert!(server.command(&kill).unwrap().starts_with(':'));
    let line = submit(&store, 3).await.unwrap_err();
    assert!(line.contains("allkeys-lfu") && line.contains("noeviction"), "{line}");
    assert_eq!(store.trouble(), Some(line));
    set_policy(&server, "noeviction");
    submit(&store, 3).await.unwrap();
    assert_eq!(store.trouble(), None);
    assert_eq!(store.stats(BEGINNING).await.unwrap().counts.queued, 3);
}

/// Keeps the warnings of this process.
#[derive(Clone, Default)]
struct Warnings(Arc<Mutex<Vec<String>>>);

impl Warnings {
    /// Waits for one with these words in it.
    async fn until(&self, words: &[&str]) -> String {
        let look = async {
            loop {
                let all = self.0.lock().unwrap().clone();
                let is_it = |line: &&String| words.iter().all(|word| line.contains(word));
                if let Some(line) = all.iter().find(is_it) {
                    return line.clone();
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let found = timeout(BOUND, look).await;
        found.unwrap_or_else(|_| panic!("{words:?} are not in {:?}", self.0.lock().unwrap()))
    }

    fn about(&self, word: &str) -> usize {
        self.0.lock().unwrap().iter().filter(|line| line.contains(word)).count()
    }
}

impl tracing::field::Visit for Line {
    fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn std::fmt::Debug) {
        write!(self.0, "{field}={value:?} ").unwrap();
    }
}

#[derive(Default)]
struct Line(String);

impl tracing::Subscriber for Warnings {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        *metadata.level() <= tracing::Level::WARN
    }

    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }

    fn event(&self, event: &tracing::Event<'_>) {
        let mut line = Line::default();
        event.record(&mut line);
        self.0.lock().unwrap().push(line.0);
    }

    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
    fn enter(&self, _: &tracing::span::Id) {}
    fn exit(&self, _: &tracing::span::Id) {}
}

/// How often the server was asked how it is. This asks it, too.
fn asked(server: &Redis) -> u64 {
    let count = "local said = redis.call('INFO', 'commandstats') \
        return tonumber(string.match(said, 'cmdstat_info:calls=(%d+)') or '0')";
    let said = server.command(&["EVAL", count, "0"]).unwrap();
    said.trim_start_matches(':').parse().unwrap()
}

/// Waits until others have looked so many times.
async fn until_looked(server: &Redis, times: u64) {
    let begun = asked(server);
    let look = async {
        let mut own = 1;
        while asked(server) < begun + own + times {
            own += 1;
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(BOUND, look).await.expect("nobody looked");
}

/// A daemon whose watcher looks at the policy often.
async fn watching(url: &str) -> RedisStore {
    let mut options = Options::parse(url).unwrap();
    options.look_at_settings = Duration::from_millis(20);
    let store = open(options).unwrap();
    store.changed(0).await;
    store
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_policy_that_changes_under_a_daemon_and_what_it_costs_are_said() {
    let warnings = Warnings::default();
    tracing::subscriber::set_global_default(warnings.clone()).unwrap();
    let server = Redis::settings().start().unwrap();
    let store = watching(&server.url()).await;
    // Whoever has accepted it is not told.
    let _accepted = watching(&format!("{}?prefix=other&eviction=accept", server.url())).await;
    submit(&store, 1).await.unwrap();
    set_policy(&server, "volatile-ttl");
    let line = warnings.until(&["volatile-ttl", "noeviction"]).await;
    assert!(line.contains(&server.url()), "{line}");
    until_looked(&server, 3).await;
    assert_eq!(warnings.about("volatile-ttl"), 1, "it is said once");
    set_policy(&server, "allkeys-random");
    warnings.until(&["allkeys-random", "noeviction"]).await;
    assert_eq!(warnings.about("keys away so far"), 0);
    for n in 0..50 {
        server.command(&["SET", &format!("another program's {n}"), &"x".repeat(10_000)]).unwrap();
    }
    assert_eq!(server.command(&["CONFIG", "SET", "maxmemory", "1"]).unwrap(), "+OK");
    // What needs memory makes the server throw something away.
    server.command(&["SET", "more", "1"]).unwrap();
    let line = warnings.until(&["thrown", "keys away", "runcue doctor"]).await;
    assert!(line.contains(&server.url()), "{line}");
}
