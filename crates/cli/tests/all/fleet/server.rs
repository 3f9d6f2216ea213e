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

    /// A proxy in front of it, and its address there.
    pub fn behind_proxy(&self) -> (Proxy, String) {
        let port = match self {
            Self::Postgres(server) => server.port(),
            Self::Redis(server) => server.port(),
        };
        let proxy = Proxy::to(port).unwrap();
        let url = match self {
            Self::Postgres(server) => server.url_through(&proxy),
            Self::Redis(server) => server.url_through(&proxy),
        };
        (proxy, url)
    }

    /// Kills it with -9 and starts it again on what is on disk.
    pub fn kill_and_restart(&mut self) {
        match self {
            Self::Postgres(server) => {
                server.kill9();
                server.restart().unwrap();
            }
            Self::Redis(server) => {
                server.kill9();
                server.restart().unwrap();
            }
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
