//! The pipes of a running command: output out, input in, all at once and never blocking each other.
//!
//! Owns buffers and the order of bytes. Knows nothing of time; `run` decides how long to pump.

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{ChildStderr, ChildStdin, ChildStdout};

use super::{Output, Stream};
use crate::capture::{Captured, Tail, whole_characters};
use crate::group::Pipes;
use crate::progress::Lines;

/// A quarter of a pipe: large output takes few reads, small output little memory.
const CHUNK: usize = 16 * 1024;

pub(super) struct Pump<'a> {
    stdout: Source<ChildStdout>,
    stderr: Source<ChildStderr>,
    lines: Lines,
    stdin: Option<ChildStdin>,
    input: &'a [u8],
}

impl<'a> Pump<'a> {
    pub(super) fn new(pipes: Pipes, input: &'a [u8], limit: usize) -> Self {
        Self {
            stdout: Source::new(pipes.stdout, limit),
            stderr: Source::new(pipes.stderr, limit),
            lines: Lines::default(),
            stdin: pipes.stdin,
            input,
        }
    }

    /// Moves one piece in one direction; waits for ever when there is nothing left to move. Cancel safe.
    pub(super) async fn step(&mut self, sink: &mut impl FnMut(Output<'_>)) {
        tokio::select! {
            () = self.stdout.fill() => self.hand_over_stdout(sink),
            () = self.stderr.fill() => self.hand_over_stderr(sink),
            () = feed(&mut self.stdin, &mut self.input) => {}
        }
    }

    /// Reads both streams to their end.
    pub(super) async fn drain(&mut self, sink: &mut impl FnMut(Output<'_>)) {
        self.stdin = None;
        while self.stdout.is_open() || self.stderr.is_open() {
            self.step(sink).await;
        }
    }

    /// Hands over what was held back, and what is kept.
    pub(super) fn finish(mut self, sink: &mut impl FnMut(Output<'_>)) -> (Captured, Captured) {
        self.stdout.pipe = None;
        self.stderr.pipe = None;
        self.hand_over_stdout(sink);
        self.hand_over_stderr(sink);
        self.lines.finish(|line| sink(Output::Line(line)));
        (self.stdout.tail.finish(), self.stderr.tail.finish())
    }

    fn hand_over_stdout(&mut self, sink: &mut impl FnMut(Output<'_>)) {
        let lines = &mut self.lines;
        self.stdout.hand_over(|chunk| {
            sink(Output::Chunk(Stream::Stdout, chunk));
            lines.push(chunk, |line| sink(Output::Line(line)));
        });
    }

    fn hand_over_stderr(&mut self, sink: &mut impl FnMut(Output<'_>)) {
        self.stderr.hand_over(|chunk| sink(Output::Chunk(Stream::Stderr, chunk)));
    }
}

/// One output stream: what was read and not handed over yet, and what is kept of the rest.
struct Source<R> {
    pipe: Option<R>,
    fresh: Vec<u8>,
    tail: Tail,
}

impl<R: AsyncRead + Unpin> Source<R> {
    fn new(pipe: Option<R>, limit: usize) -> Self {
        Self { pipe, fresh: Vec::with_capacity(CHUNK), tail: Tail::new(limit) }
    }

    fn is_open(&self) -> bool {
        self.pipe.is_some()
    }

    async fn fill(&mut self) {
        let Some(pipe) = &mut self.pipe else {
            return std::future::pending().await;
        };
        // At most three bytes are held back, so there is always room. An unreadable pipe is a closed one.
        if !matches!(pipe.read_buf(&mut self.fresh).await, Ok(1..)) {
            self.pipe = None;
        }
    }

    fn hand_over(&mut self, take: impl FnOnce(&[u8])) {
        let ready = if self.is_open() { whole_characters(&self.fresh) } else { self.fresh.len() };
        if ready > 0 {
            take(&self.fresh[..ready]);
            self.tail.push(&self.fresh[..ready]);
            self.fresh.drain(..ready);
        }
    }
}

/// Writes some of the input, and closes the pipe after the last of it. A command need not read: then it is closed.
async fn feed(stdin: &mut Option<ChildStdin>, input: &mut &[u8]) {
    let Some(pipe) = stdin else {
        return std::future::pending().await;
    };
    if !input.is_empty()
        && let Ok(written @ 1..) = pipe.write(input).await
    {
        *input = &input[written..];
        return;
    }
    *stdin = None;
}
