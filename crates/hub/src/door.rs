//! Where connections come in: plain, or through TLS. Handshakes run beside each other, so that a client that
//! is slow to shake hands keeps nobody else out, and are bounded in time and number.

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::connect_info::Connected;
use axum::serve::{IncomingStream, Listener};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc};
use tokio_rustls::TlsAcceptor;

/// How long a client may take to shake hands.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// Handshakes at the same time.
const AT_ONCE: usize = 256;
/// The pause after the machine has no more file descriptors to give.
const BREATHER: Duration = Duration::from_millis(100);

/// Who is at the other end of a connection.
#[derive(Clone, Copy, Debug)]
pub struct Peer(pub SocketAddr);

impl Connected<IncomingStream<'_, Door>> for Peer {
    fn connect_info(stream: IncomingStream<'_, Door>) -> Self {
        Self(*stream.remote_addr())
    }
}

/// A connection, whatever it is wrapped in.
pub trait Wire: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> Wire for T {}

type Accepted = (Box<dyn Wire>, SocketAddr);

/// Where connections come in.
pub struct Door {
    local: SocketAddr,
    way: Way,
}

enum Way {
    Plain(TcpListener),
    Tls(mpsc::Receiver<Accepted>),
}

impl Door {
    /// A door without TLS.
    pub fn plain(listener: TcpListener) -> io::Result<Self> {
        Ok(Self { local: listener.local_addr()?, way: Way::Plain(listener) })
    }

    /// A door with the certificate and the key in these PEM files.
    pub fn tls(listener: TcpListener, certificate: &Path, key: &Path) -> io::Result<Self> {
        let local = listener.local_addr()?;
        let acceptor = acceptor(certificate, key)?;
        let (sender, receiver) = mpsc::channel(AT_ONCE);
        tokio::spawn(shake_hands(listener, acceptor, sender));
        Ok(Self { local, way: Way::Tls(receiver) })
    }
}

impl Listener for Door {
    type Io = Box<dyn Wire>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> Accepted {
        match &mut self.way {
            Way::Plain(listener) => {
                let (stream, peer) = next(listener).await;
                (Box::new(stream), peer)
            }
            Way::Tls(accepted) => match accepted.recv().await {
                Some(accepted) => accepted,
                None => std::future::pending().await,
            },
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.local)
    }
}

/// The next connection. A machine without file descriptors has some again soon.
async fn next(listener: &TcpListener) -> (TcpStream, SocketAddr) {
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => {
                // Answers are small and awaited: none of them waits to be sent with another.
                let _ = stream.set_nodelay(true);
                return (stream, peer);
            }
            Err(error) => {
                tracing::warn!(%error, "a connection could not be taken");
                tokio::time::sleep(BREATHER).await;
            }
        }
    }
}

async fn shake_hands(listener: TcpListener, acceptor: TlsAcceptor, to: mpsc::Sender<Accepted>) {
    let room = Arc::new(Semaphore::new(AT_ONCE));
    loop {
        let Ok(place) = Arc::clone(&room).acquire_owned().await else { return };
        let (stream, peer) = tokio::select! {
            next = next(&listener) => next,
            () = to.closed() => return,
        };
        let (acceptor, to) = (acceptor.clone(), to.clone());
        tokio::spawn(async move {
            let shaken = tokio::time::timeout(HANDSHAKE, acceptor.accept(stream)).await;
            drop(place);
            match shaken {
                // A door that is closed takes nobody in.
                Ok(Ok(stream)) => drop(to.send((Box::new(stream), peer)).await),
                Ok(Err(error)) => tracing::debug!(%peer, %error, "a TLS handshake failed"),
                Err(_) => tracing::debug!(%peer, "a TLS handshake took too long"),
            }
        });
    }
}

fn acceptor(certificate: &Path, key: &Path) -> io::Result<TlsAcceptor> {
    let bad = |path: &Path, why: String| {
        io::Error::new(io::ErrorKind::InvalidData, format!("{}: {why}", path.display()))
    };
    let chain = CertificateDer::pem_file_iter(certificate)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| bad(certificate, format!("no PEM certificate can be read: {error}")))?;
    if chain.is_empty() {
        return Err(bad(certificate, "it holds no certificate".to_owned()));
    }
    let secret = PrivateKeyDer::from_pem_file(key)
        .map_err(|error| bad(key, format!("no PEM private key can be read: {error}")))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, secret))
        .map_err(|error| bad(certificate, format!("it does not go with the key: {error}")))?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}
