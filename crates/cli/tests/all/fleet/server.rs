//! A private server of either kind, and what can be done to it.

use runcue_test_servers::{Postgres, Proxy, Redis};

/// A server that may be killed and suspended.
pub enum Server {
    Postgres(Postgres),
    Redis(Redis),
}

impl Server {
    /// What it acknowledges is on disk.
    pub fn postgres() -> Self {
        Self::Postgres(Postgres::settings().durable().start().unwrap())
    }

    /// The same, by an append-only file that is synced at every change.
    pub fn redis() -> Self {
        Self::Redis(Redis::settings().durable().start().unwrap())
    }

    pub fn url(&self) -> String {
        match self {
            Self::Postgres(server) => server.url(),
            Self::Redis(server) => server.url(),
        }
    }

    pub fn port(&self) -> u16 {
        match self {
            Self::Postgres(server) => server.port(),
            Self::Redis(server) => server.port(),
        }
    }

    /// A proxy in front of it, and its address there.
    pub fn behind_proxy(&self) -> (Proxy, String) {
        let proxy = Proxy::to(self.port()).unwrap();
        let url = match self {
            Self::Postgres(server) => server.url_through(&proxy),
            Self::Redis(server) => server.url_through(&proxy),
        };
        (proxy, url)
    }

    /// Bytes by which a commit on the way to it is known.
    pub fn commit_marker(&self) -> &'static [u8] {
        match self {
            Self::Postgres(_) => b"write_turn",
            Self::Redis(_) => b"\"served\":",
        }
    }

    /// Kills it with -9 and starts it again on what is on disk.
    pub fn kill_and_restart(&mut self) {
        self.kill();
        self.restart();
    }

    /// Kills it with -9.
    pub fn kill(&mut self) {
        match self {
            Self::Postgres(server) => server.kill9(),
            Self::Redis(server) => server.kill9(),
        }
    }

    /// Starts it again on what is on disk.
    pub fn restart(&mut self) {
        match self {
            Self::Postgres(server) => server.restart().unwrap(),
            Self::Redis(server) => server.restart().unwrap(),
        }
    }

    pub fn freeze(&self) {
        match self {
            Self::Postgres(server) => server.freeze(),
            Self::Redis(server) => server.freeze(),
        }
    }

    pub fn thaw(&self) {
        match self {
            Self::Postgres(server) => server.thaw(),
            Self::Redis(server) => server.thaw(),
        }
    }
}
