//! A TCP proxy that stands between a client and a server and loses what it is told to lose.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use crate::Trouble;

/// What happens to a connection when a chosen request comes by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The connection ends before the server sees the request.
    LoseRequest,
    /// The server does as it is asked, and the connection ends before its reply comes back.
    LoseReply,
}

/// A proxy on a free loopback port. Ends when this value is dropped.
#[derive(Debug)]
pub struct Proxy {
    port: u16,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    moved: Condvar,
}

/// A fault that is to happen.
#[derive(Debug)]
struct Armed {
    /// Bytes by which a request is known.
    marker: Vec<u8>,
    fault: Fault,
    /// How many such requests pass before.
    skip: usize,
    /// How many more times it happens.
    times: usize,
    /// Everything is refused from then on.
    then_refuse: bool,
}

#[derive(Debug)]
struct State {
    server: SocketAddr,
    armed: Option<Armed>,
    /// Faults that have happened.
    faults: usize,
    /// Nothing is passed on, and no connection is ended: the network is parted.
    parted: bool,
    /// New connections are ended at once.
    refusing: bool,
    closed: bool,
    open: Vec<TcpStream>,
}

impl Proxy {
    /// In front of a server on a loopback port.
    ///
    /// # Errors
    /// If there is no free port.
    pub fn to(port: u16) -> Result<Self, Trouble> {
        let listener =
            TcpListener::bind(("127.0.0.1", 0)).map_err(Trouble::with("no free loopback port"))?;
        let own = listener.local_addr().map_err(Trouble::with("no free loopback port"))?.port();
        let state = Mutex::new(State::new(port));
        let shared = Arc::new(Shared { state, moved: Condvar::new() });
        let listening = shared.clone();
        thread::spawn(move || listening.listen(&listener));
        Ok(Self { port: own, shared })
    }

    /// The port on 127.0.0.1 that clients connect to.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The next so many requests with these bytes in them suffer a fault.
    pub fn arm(&self, bytes: &[u8], fault: Fault, times: usize) {
        self.shared.lock().armed =
            Some(Armed { marker: bytes.to_vec(), fault, skip: 0, times, then_refuse: false });
    }

    /// The nth request from now on with these bytes in it suffers a fault, counted from zero. With
    /// `then_refuse` the server is out of reach from then on, until [`Proxy::heal`].
    pub fn arm_nth(&self, bytes: &[u8], fault: Fault, nth: usize, then_refuse: bool) {
        self.shared.lock().armed =
            Some(Armed { marker: bytes.to_vec(), fault, skip: nth, times: 1, then_refuse });
    }

    /// Nothing more is to happen.
    pub fn disarm(&self) {
        self.shared.lock().armed = None;
    }

    /// How many faults there have been.
    pub fn faults(&self) -> usize {
        self.shared.lock().faults
    }

    /// Waits until there have been so many faults.
    pub fn await_faults(&self, count: usize) {
        let mut state = self.shared.lock();
        while state.faults < count {
            state = self.shared.moved.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Ends every connection there is; new ones are welcome.
    pub fn cut(&self) {
        self.shared.lock().cut();
    }

    /// Ends every connection there is and every new one, until [`Proxy::heal`].
    pub fn refuse(&self) {
        let mut state = self.shared.lock();
        state.refusing = true;
        state.cut();
    }

    /// New connections are to another server on a loopback port. Those there are stay where they are.
    pub fn lead_to(&self, port: u16) {
        self.shared.lock().server = loopback(port);
    }

    /// Passes nothing on and ends nothing, until [`Proxy::heal`]: what a lost network looks like.
    pub fn part(&self) {
        self.shared.lock().parted = true;
    }

    /// Everything is passed on again.
    pub fn heal(&self) {
        let mut state = self.shared.lock();
        (state.parted, state.refusing) = (false, false);
        self.shared.moved.notify_all();
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.closed = true;
        state.cut();
        self.shared.moved.notify_all();
        drop(state);
        // The listener is asked to look at `closed`.
        let _ = TcpStream::connect(("127.0.0.1", self.port));
    }
}

fn loopback(port: u16) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], port))
}

impl State {
    fn new(port: u16) -> Self {
        let (armed, faults, open) = (None, 0, Vec::new());
        let server = loopback(port);
        Self { server, armed, faults, parted: false, refusing: false, closed: false, open }
    }

    fn cut(&mut self) {
        for stream in self.open.drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn listen(self: Arc<Self>, listener: &TcpListener) {
        for client in listener.incoming() {
            let state = self.lock();
            if state.closed {
                return;
            }
            let refusing = state.refusing;
            drop(state);
            let Ok(client) = client else { continue };
            if !refusing {
                // A client whose server is away sees its connection end.
                let _ = self.connect(client);
            }
        }
    }

    fn connect(self: &Arc<Self>, client: TcpStream) -> std::io::Result<()> {
        let server = self.lock().server;
        let server = TcpStream::connect(server)?;
        client.set_nodelay(true)?;
        server.set_nodelay(true)?;
        self.lock().open.extend([client.try_clone()?, server.try_clone()?]);
        let doomed = Arc::new(Mutex::new(false));
        let (from, to) = (client.try_clone()?, server.try_clone()?);
        let (shared, mark) = (self.clone(), doomed.clone());
        thread::spawn(move || shared.requests(from, to, &mark));
        let shared = self.clone();
        thread::spawn(move || shared.replies(server, client, &doomed));
        Ok(())
    }

    fn requests(&self, mut from: TcpStream, mut to: TcpStream, doomed: &Mutex<bool>) {
        let mut buffer = vec![0; 64 * 1024];
        let mut tail = Vec::new();
        while let Ok(count) = from.read(&mut buffer) {
            if count == 0 {
                break;
            }
            let bytes = &buffer[..count];
            self.await_passage();
            let fault = self.fault_of(&mut tail, bytes);
            if fault == Some(Fault::LoseRequest) {
                self.count_fault();
                break;
            }
            // The server may answer what came before: the connection does not end before it has all of this.
            let held = fault.map(|_| {
                let mut doomed = doomed.lock().unwrap_or_else(PoisonError::into_inner);
                *doomed = true;
                doomed
            });
            let written = to.write_all(bytes);
            drop(held);
            if written.is_err() {
                break;
            }
        }
        // A reply that is to be lost is still waited for, so that the server has surely done its work.
        if !*doomed.lock().unwrap_or_else(PoisonError::into_inner) {
            end(&from, &to);
        }
    }

    fn replies(&self, mut from: TcpStream, mut to: TcpStream, doomed: &Mutex<bool>) {
        let mut buffer = vec![0; 64 * 1024];
        while let Ok(count) = from.read(&mut buffer) {
            if count == 0 {
                break;
            }
            self.await_passage();
            if *doomed.lock().unwrap_or_else(PoisonError::into_inner) {
                self.count_fault();
                break;
            }
            if to.write_all(&buffer[..count]).is_err() {
                break;
            }
        }
        end(&from, &to);
    }

    fn await_passage(&self) {
        let mut state = self.lock();
        while state.parted && !state.closed {
            state = self.moved.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// What is to happen to bytes that come after a tail of earlier ones.
    fn fault_of(&self, tail: &mut Vec<u8>, bytes: &[u8]) -> Option<Fault> {
        let mut state = self.lock();
        let armed = state.armed.as_mut()?;
        tail.extend_from_slice(bytes);
        let mut found = None;
        let mut from = 0;
        let marker = armed.marker.clone();
        while let Some(at) = tail[from..].windows(marker.len()).position(|window| window == marker)
        {
            from += at + marker.len();
            if armed.skip > 0 {
                armed.skip -= 1;
                continue;
            }
            found = Some(armed.fault);
            break;
        }
        let keep = (tail.len() - from).min(marker.len().saturating_sub(1));
        tail.drain(..tail.len() - keep);
        let fault = found?;
        armed.times -= 1;
        if armed.times == 0 {
            let then_refuse = armed.then_refuse;
            state.armed = None;
            state.refusing |= then_refuse;
        }
        Some(fault)
    }

    fn count_fault(&self) {
        self.lock().faults += 1;
        self.moved.notify_all();
    }
}

fn end(from: &TcpStream, to: &TcpStream) {
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}
