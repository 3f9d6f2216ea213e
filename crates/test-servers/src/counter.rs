//! A TCP relay that stands between clients and a server and counts round trips.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use crate::Trouble;

/// A relay on a free loopback port. It ends with the process.
#[derive(Debug)]
pub struct Counter {
    port: u16,
    trips: Arc<AtomicU64>,
}

impl Counter {
    /// In front of a server on a loopback port.
    ///
    /// # Errors
    /// If there is no free port.
    pub fn to(port: u16) -> Result<Self, Trouble> {
        let trouble = || Trouble::with("no free loopback port");
        let listener = TcpListener::bind(("127.0.0.1", 0)).map_err(trouble())?;
        let own = listener.local_addr().map_err(trouble())?.port();
        let server = SocketAddr::from(([127, 0, 0, 1], port));
        let trips: Arc<AtomicU64> = Arc::default();
        let counted = trips.clone();
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let Ok(server) = TcpStream::connect(server) else { continue };
                relay(client, server, &counted);
            }
        });
        Ok(Self { port: own, trips })
    }

    /// The port on 127.0.0.1 that clients connect to.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// How often a client has spoken after the server had, over all connections. Several messages without an
    /// answer in between are one.
    pub fn trips(&self) -> u64 {
        self.trips.load(Ordering::Acquire)
    }
}

fn relay(client: TcpStream, server: TcpStream, trips: &Arc<AtomicU64>) {
    let answered = Arc::new(AtomicBool::new(true));
    let (Ok(from_client), Ok(from_server)) = (client.try_clone(), server.try_clone()) else {
        return;
    };
    let (asked, counted) = (answered.clone(), trips.clone());
    thread::spawn(move || {
        pass(from_client, server, || {
            if asked.swap(false, Ordering::AcqRel) {
                counted.fetch_add(1, Ordering::AcqRel);
            }
        });
    });
    thread::spawn(move || pass(from_server, client, || answered.store(true, Ordering::Release)));
}

/// Passes on until one side ends; says so before each part.
fn pass(mut from: TcpStream, mut to: TcpStream, tell: impl Fn()) {
    let mut part = vec![0; 64 * 1024];
    let _ = to.set_nodelay(true);
    while let Ok(read) = from.read(&mut part) {
        tell();
        if read == 0 || to.write_all(&part[..read]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
    let _ = from.shutdown(Shutdown::Both);
}
