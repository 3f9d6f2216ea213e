//! Ctrl-C and the request to stop that service managers send.

use crate::exit::Exit;
use crate::trouble::Trouble;

/// Who wants us to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// A person, with Ctrl-C.
    Interrupt,
    /// A service manager.
    Terminate,
}

impl Signal {
    /// How a worker that ran until it was stopped ends: for a service manager that is the normal end.
    pub fn exit(self) -> Exit {
        match self {
            Self::Interrupt => Exit::Interrupted,
            Self::Terminate => Exit::Ok,
        }
    }
}

/// Waits for signals. From its making on they no longer end the process.
#[cfg(unix)]
pub struct Interrupt {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl Interrupt {
    /// Begins to take signals.
    pub fn new() -> Result<Self, Trouble> {
        use tokio::signal::unix::{SignalKind, signal};
        let cannot =
            |error: std::io::Error| Trouble::failed(format!("signals cannot be taken: {error}"));
        Ok(Self {
            interrupt: signal(SignalKind::interrupt()).map_err(cannot)?,
            terminate: signal(SignalKind::terminate()).map_err(cannot)?,
        })
    }

    /// The next one.
    pub async fn next(&mut self) -> Signal {
        tokio::select! {
            _ = self.interrupt.recv() => Signal::Interrupt,
            _ = self.terminate.recv() => Signal::Terminate,
        }
    }
}

/// Waits for signals.
#[cfg(not(unix))]
pub struct Interrupt;

#[cfg(not(unix))]
impl Interrupt {
    /// Begins to take signals.
    pub fn new() -> Result<Self, Trouble> {
        Ok(Self)
    }

    /// The next one.
    pub async fn next(&mut self) -> Signal {
        // Where Ctrl-C cannot be waited for, it ends the process as usual.
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
        Signal::Interrupt
    }
}
