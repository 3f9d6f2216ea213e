//! A server that cannot be used for a while, under a running handle: `trouble()` says why in one line with the place
//! and the fix, it says nothing any more when that is over, and work flows without anybody's help.

use std::sync::Arc;
use std::time::Duration;

use runcue_store::{Store, SubmitBatch};
use runcue_store_redis::{RedisStore, open_url};
use runcue_store_suite::scene::{BEGINNING, drain, id, job};
use runcue_test_servers::{Proxy, Redis};
use tokio::time::timeout;

/// What has not happened by then does not happen.
const BOUND: Duration = Duration::from_secs(30);

/// A handle that is asked for something all the time, as a daemon's is.
struct Daemon {
    store: Arc<RedisStore>,
    next: u128,
}

impl Daemon {
    async fn on(url: &str) -> Self {
        let store = Arc::new(open_url(url).unwrap());
        let mut daemon = Self { store, next: 1 };
        daemon.works().await;
        daemon
    }

    /// Asks again and again until the store is in trouble, or until it is not any more. Answers what it says.
    async fn until(&mut self, in_trouble: bool) -> Option<String> {
        let look = async {
            loop {
                let batch = SubmitBatch::of(vec![job(self.next)]);
                // What is asked now may wait for the server longer than it takes to see what is the matter.
                let asked = self.store.submit(BEGINNING, batch);
                let asked = timeout(Duration::from_millis(300), asked).await;
                let told = self.store.trouble();
                if told.is_some() == in_trouble && (in_trouble || matches!(asked, Ok(Ok(_)))) {
                    return told;
                }
                tokio::task::yield_now().await;
            }
        };
        let told = timeout(BOUND, look).await;
        told.unwrap_or_else(|_| panic!("{:?} is all it says", self.store.trouble()))
    }

    /// It is in trouble, and says so.
    async fn says(&mut self, words: &[&str]) -> String {
        let line = self.until(true).await.unwrap();
        assert_eq!(line.lines().count(), 1, "{line}");
        for word in words {
            assert!(line.contains(word), "{word:?} is not in {line:?}");
        }
        line
    }

    /// It is in no trouble, and a job goes through.
    async fn works(&mut self) {
        self.until(false).await;
        let had = drain(self.store.clone(), BEGINNING, 1, 5).await;
        assert!(had.contains(&id(self.next)), "{had:?}");
        assert_eq!(self.store.trouble(), None);
        assert_eq!(self.store.check(BEGINNING).await.unwrap(), Vec::<String>::new());
        self.next += 1;
    }
}

fn control(server: &Redis) -> redis::Connection {
    redis::Client::open(server.url()).unwrap().get_connection().unwrap()
}

fn command(control: &mut redis::Connection, words: &[&str]) {
    redis::cmd(words[0]).arg(&words[1..]).exec(control).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_goes_away_is_named_until_it_is_back() {
    let mut server = Redis::settings().durable().start().unwrap();
    let mut daemon = Daemon::on(&server.url()).await;
    for _ in 0..2 {
        server.kill9();
        let url = server.url();
        daemon.says(&[&url]).await;
        // The first word of it may be that the connection has ended.
        let look = async {
            while !daemon.says(&[&url]).await.contains("nothing listens at") {
                tokio::task::yield_now().await;
            }
        };
        timeout(BOUND, look).await.unwrap();
        daemon.says(&["start the server"]).await;
        server.restart().unwrap();
        daemon.works().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_password_that_changes_is_asked_for_until_it_fits_again() {
    let server = Redis::settings().password("secret").start().unwrap();
    let mut daemon = Daemon::on(&server.url()).await;
    let mut control = control(&server);
    let kill = ["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"];
    command(&mut control, &["CONFIG", "SET", "requirepass", "another"]);
    // Those who are connected go on, until the connection is lost.
    daemon.works().await;
    command(&mut control, &kill);
    let place = server.url().replace("secret", "***");
    let words = [&place[..], "refuses the user name or password", "correct it"];
    let line = daemon.says(&words).await;
    assert!(!line.contains("secret") && !line.contains("another"), "{line}");
    command(&mut control, &["CONFIG", "SET", "requirepass", "secret"]);
    daemon.works().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_password_that_is_wanted_from_now_on_is_asked_for() {
    let server = Redis::settings().start().unwrap();
    let mut daemon = Daemon::on(&server.url()).await;
    let mut control = control(&server);
    command(&mut control, &["CONFIG", "SET", "requirepass", "secret"]);
    command(&mut control, &["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
    daemon.says(&[&server.url(), "wants a password", "redis://:PASSWORD@HOST"]).await;
    command(&mut control, &["CONFIG", "SET", "requirepass", ""]);
    daemon.works().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_with_as_many_connections_as_it_may_have_is_named_with_the_fix() {
    let server = Redis::settings().start().unwrap();
    let proxy = Proxy::to(server.port()).unwrap();
    let mut daemon = Daemon::on(&server.url_through(&proxy)).await;
    let mut control = control(&server);
    proxy.refuse();
    command(&mut control, &["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
    command(&mut control, &["CLIENT", "KILL", "TYPE", "pubsub"]);
    command(&mut control, &["CONFIG", "SET", "maxclients", "1"]);
    proxy.heal();
    let place = server.url_through(&proxy);
    // Until then nobody let it in at all.
    let look = async {
        while !daemon.says(&[&place]).await.contains("as many") {
            tokio::task::yield_now().await;
        }
    };
    timeout(BOUND, look).await.unwrap();
    daemon.says(&["raise its maxclients"]).await;
    command(&mut control, &["CONFIG", "SET", "maxclients", "100"]);
    daemon.works().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_right_that_is_taken_away_is_asked_for_until_it_is_given_back() {
    let server = Redis::settings().start().unwrap();
    let mut control = control(&server);
    let given = ["ACL", "SETUSER", "me", "reset", "on", ">pass", "~*", "&*", "+@all"];
    command(&mut control, &given);
    let url = server.url().replace("redis://", "redis://me:pass@");
    let place = url.replace("pass", "***");
    for (space, revoked) in
        [("a&transactions=off", "-evalsha"), ("b", "resetkeys"), ("c", "-@write")]
    {
        let mut daemon = Daemon::on(&format!("{url}?space={space}")).await;
        command(&mut control, &["ACL", "SETUSER", "me", revoked]);
        daemon.says(&[&place, "may not do this", "ACL SETUSER"]).await;
        command(&mut control, &given);
        daemon.works().await;
    }
}
