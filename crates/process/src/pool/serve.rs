//! The worker's side of the pool: a loop for the user's own program.
//!
//! Owns the worker's standard output, which carries the protocol. On Unix whatever else the program prints there is
//! sent to standard error instead, so a stray `println!` breaks nothing; on Windows it must not print. A handler that
//! panics ends the worker, which is what crash isolation is for.

use std::io::{self, BufRead, Read, Write};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use serde_json::Value;

use super::wire::{FailureKind, MAX_LINE, Request, Said};

/// How often a busy worker gives a sign of life.
const BEAT: Duration = Duration::from_secs(1);

/// Why a handler failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct HandlerError {
    /// For a person to read.
    pub message: String,
    /// Whether trying again makes sense.
    pub kind: FailureKind,
}

impl HandlerError {
    /// A failure that may go away by itself.
    pub fn transient(message: impl Into<String>) -> Self {
        Self { message: message.into(), kind: FailureKind::Transient }
    }

    /// A failure that will not go away.
    pub fn permanent(message: impl Into<String>) -> Self {
        Self { message: message.into(), kind: FailureKind::Permanent }
    }
}

/// How a handler reports back while it works.
#[derive(Debug)]
pub struct Reporter<'a> {
    id: &'a str,
    pipe: &'a Pipe,
}

impl Reporter<'_> {
    /// Says how far the handler is; `percent` above 100 counts as 100. Nobody listening is no error: the worker is
    /// about to be ended.
    pub fn progress(&self, percent: u8, message: Option<&str>) {
        let _ = self.pipe.say(&Said {
            id: Some(self.id.to_owned()),
            progress: Some(percent.min(100)),
            message: message.map(str::to_owned),
            ..Said::default()
        });
    }
}

/// Serves requests from standard input until it is closed. While the handler works, a thread it cannot block gives
/// signs of life.
///
/// # Errors
/// Standard input or output failed, or a request is not of the protocol.
pub fn serve(
    handler: impl Fn(Request, &Reporter<'_>) -> Result<Value, HandlerError>,
) -> io::Result<()> {
    let pipe = Arc::new(Pipe::open()?);
    let beating = Arc::clone(&pipe);
    std::thread::Builder::new().name("beat".to_owned()).spawn(move || beating.beat())?;
    pipe.say(&beat())?;
    let mut input = io::stdin().lock();
    while let Some(request) = next(&mut input)? {
        let id = request.id.clone();
        pipe.set_busy(true);
        let reporter = Reporter { id: &id, pipe: &pipe };
        let outcome = handler(request, &reporter);
        pipe.set_busy(false);
        pipe.say(&reply(id, outcome))?;
    }
    Ok(())
}

fn next(input: &mut impl BufRead) -> io::Result<Option<Request>> {
    let mut line = Vec::new();
    let read = input.take(MAX_LINE as u64 + 1).read_until(b'\n', &mut line)?;
    if read == 0 {
        return Ok(None);
    }
    // A line that was cut off is no JSON either.
    Ok(Some(serde_json::from_slice(&line)?))
}

fn reply(id: String, outcome: Result<Value, HandlerError>) -> Said {
    let said = Said { id: Some(id), ..Said::default() };
    match outcome {
        Ok(result) => Said { result: Some(result), ..said },
        Err(error) => Said { error: Some(error.message), kind: Some(error.kind), ..said },
    }
}

fn beat() -> Said {
    Said { beat: Some(true), ..Said::default() }
}

/// The way to the pool, shared by the loop, the handler and the beat.
#[derive(Debug)]
struct Pipe {
    out: Mutex<Out>,
    busy: Mutex<bool>,
    changed: Condvar,
}

impl Pipe {
    fn open() -> io::Result<Self> {
        Ok(Self {
            out: Mutex::new(take_stdout()?),
            busy: Mutex::new(false),
            changed: Condvar::new(),
        })
    }

    fn say(&self, said: &Said) -> io::Result<()> {
        let mut line = serde_json::to_vec(said)?;
        if line.len() > MAX_LINE {
            let id = said.id.clone().unwrap_or_default();
            let message = format!("the reply is {} bytes long, more than {MAX_LINE}", line.len());
            line = serde_json::to_vec(&reply(id, Err(HandlerError::permanent(message))))?;
        }
        line.push(b'\n');
        let mut out = self.out.lock().unwrap_or_else(PoisonError::into_inner);
        out.write_all(&line)?;
        out.flush()
    }

    fn set_busy(&self, busy: bool) {
        *self.busy.lock().unwrap_or_else(PoisonError::into_inner) = busy;
        self.changed.notify_one();
    }

    /// Beats while a handler works, and costs nothing while none does. With nobody to hear it the pool is dead, and
    /// its worker goes too.
    fn beat(&self) {
        loop {
            let busy = self.busy.lock().unwrap_or_else(PoisonError::into_inner);
            let busy = self.changed.wait_while(busy, |busy| !*busy);
            let busy = busy.unwrap_or_else(PoisonError::into_inner);
            let waited = self.changed.wait_timeout_while(busy, BEAT, |busy| *busy);
            let (busy, _) = waited.unwrap_or_else(PoisonError::into_inner);
            let still = *busy;
            drop(busy);
            if still && self.say(&beat()).is_err() {
                std::process::exit(1);
            }
        }
    }
}

#[cfg(unix)]
type Out = std::fs::File;

/// Moves the protocol to a descriptor that nothing else writes to and no child inherits.
#[cfg(unix)]
fn take_stdout() -> io::Result<Out> {
    let ours = rustix::io::fcntl_dupfd_cloexec(io::stdout(), 3)?;
    rustix::stdio::dup2_stdout(io::stderr())?;
    Ok(ours.into())
}

#[cfg(not(unix))]
type Out = io::Stdout;

#[cfg(not(unix))]
fn take_stdout() -> io::Result<Out> {
    Ok(io::stdout())
}
