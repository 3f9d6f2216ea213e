//! One worker process as the pool sees it: lines in, lines out, and its end.
//!
//! Owns the pipes and their bounds. What a line means is `wire`'s, how long to wait for it the pool's.

use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{ChildStderr, ChildStdin, ChildStdout};

use super::wire::MAX_LINE;
use crate::capture::{Captured, Tail};
use crate::command::CommandSpec;
use crate::group::Group;
use crate::run::Exit;
use crate::spawn::SpawnError;

const CHUNK: usize = 16 * 1024;

/// How much of a worker's standard error is kept to explain a crash.
const STDERR: usize = 16 * 1024;

/// How long a killed worker may take to go.
const REAP: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(super) struct Worker {
    group: Group,
    stdin: Option<ChildStdin>,
    outbox: Vec<u8>,
    sent: usize,
    stdout: Option<ChildStdout>,
    inbox: Vec<u8>,
    /// No line break is in the inbox before this.
    searched: usize,
    stderr: Option<ChildStderr>,
    noise: Vec<u8>,
    tail: Tail,
    /// Whether it ever said anything: a new worker may be slow to come up.
    pub(super) is_up: bool,
}

/// What a worker did.
#[derive(Debug)]
pub(super) enum Heard {
    Line(Vec<u8>),
    /// More than a line may hold.
    TooLong,
    /// It closed its output, or it ended.
    End,
}

impl Worker {
    pub(super) fn spawn(spec: &CommandSpec) -> Result<Self, SpawnError> {
        let (group, pipes) = Group::spawn(spec, Stdio::piped())?;
        Ok(Self {
            group,
            stdin: pipes.stdin,
            outbox: Vec::new(),
            sent: 0,
            stdout: pipes.stdout,
            inbox: Vec::new(),
            searched: 0,
            stderr: pipes.stderr,
            noise: Vec::new(),
            tail: Tail::new(STDERR),
            is_up: false,
        })
    }

    pub(super) fn pid(&self) -> u32 {
        self.group.pid()
    }

    pub(super) fn is_gone(&mut self) -> bool {
        self.group.is_gone()
    }

    /// Puts a line in the outbox; `hear` sends it while it listens.
    pub(super) fn say(&mut self, line: Vec<u8>) {
        self.outbox = line;
        self.outbox.push(b'\n');
        self.sent = 0;
        self.tail = Tail::new(STDERR);
    }

    /// Waits for the next line, sending what is in the outbox and letting standard error flow. Cancel safe.
    pub(super) async fn hear(&mut self) -> Heard {
        loop {
            if let Some(heard) = self.next_line() {
                self.is_up = true;
                return heard;
            }
            if self.stdout.is_none() {
                return Heard::End;
            }
            tokio::select! {
                biased;
                () = fill(&mut self.stdout, &mut self.inbox) => {}
                () = fill(&mut self.stderr, &mut self.noise) => {
                    self.tail.push(&self.noise);
                    self.noise.clear();
                }
                () = send(&mut self.stdin, &self.outbox, &mut self.sent) => {}
                // Last, so that what it said before it ended is read first. Someone it started may hold its output
                // open without it.
                () = self.group.exited() => self.hear_out().await,
            }
        }
    }

    fn next_line(&mut self) -> Option<Heard> {
        let fresh = &self.inbox[self.searched..];
        if let Some(at) = fresh.iter().position(|byte| *byte == b'\n') {
            let rest = self.inbox.split_off(self.searched + at + 1);
            let mut line = std::mem::replace(&mut self.inbox, rest);
            line.pop();
            self.searched = 0;
            return Some(Heard::Line(line));
        }
        self.searched = self.inbox.len();
        (self.inbox.len() > MAX_LINE).then_some(Heard::TooLong)
    }

    /// After its end: reads what is in the pipes and no more, then closes them.
    async fn hear_out(&mut self) {
        let everything = async {
            while self.stdout.is_some() && self.inbox.len() <= MAX_LINE {
                fill(&mut self.stdout, &mut self.inbox).await;
            }
        };
        let _ = tokio::time::timeout(REST, everything).await;
        self.stdout = None;
    }

    /// Asks the worker to end, kills its group after the grace, and says how it ended.
    pub(super) async fn stop(mut self, grace: Duration) -> (Option<Exit>, Captured) {
        self.stdin = None;
        self.group.terminate();
        let _ = tokio::time::timeout(grace, self.group.exited()).await;
        self.bury().await
    }

    /// Kills what is left of the worker's group and says how it ended.
    pub(super) async fn bury(mut self) -> (Option<Exit>, Captured) {
        let noise = async {
            while self.stderr.is_some() {
                fill(&mut self.stderr, &mut self.noise).await;
                self.tail.push(&self.noise);
                self.noise.clear();
            }
        };
        let _ = tokio::time::timeout(REST, noise).await;
        let status = tokio::time::timeout(REAP, self.group.reap()).await;
        let exit = status.ok().and_then(Result::ok).map(Exit::from);
        (exit, self.tail.finish())
    }
}

/// How long to wait for the rest of a dead worker's output, which someone it started may hold open.
const REST: Duration = Duration::from_millis(250);

/// Reads one piece; waits for ever if the pipe is closed, and closes it at its end.
async fn fill<R: tokio::io::AsyncRead + Unpin>(pipe: &mut Option<R>, buffer: &mut Vec<u8>) {
    let Some(open) = pipe else {
        return std::future::pending().await;
    };
    buffer.reserve(CHUNK);
    if !matches!(open.read_buf(buffer).await, Ok(1..)) {
        *pipe = None;
    }
}

/// Writes one piece; waits for ever if there is nothing to write.
async fn send(pipe: &mut Option<ChildStdin>, outbox: &[u8], sent: &mut usize) {
    match pipe {
        Some(open) if *sent < outbox.len() => match open.write(&outbox[*sent..]).await {
            Ok(written @ 1..) => *sent += written,
            _ => *pipe = None,
        },
        _ => std::future::pending().await,
    }
}
