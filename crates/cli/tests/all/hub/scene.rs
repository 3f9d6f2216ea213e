//! A hub process, agents, a place solvers are downloaded from, and a client small enough to be read at a glance.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::sandbox::Sandbox;

/// How long anything is waited for.
const PATIENCE: Duration = Duration::from_secs(60);

/// A process that is killed when it is dropped.
pub struct Process(pub Child);

impl Process {
    /// Sends a signal.
    pub fn signal(&self, name: &str) {
        let pid = self.0.id().to_string();
        let sent = std::process::Command::new("kill").args([name, &pid]).status().unwrap();
        assert!(sent.success());
    }

    /// Kills it and waits until it is gone.
    pub fn kill(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }

    /// Waits until it ends by itself.
    pub fn ended(&mut self) -> i32 {
        let until = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.0.try_wait().unwrap() {
                return status.code().unwrap_or(-1);
            }
            assert!(Instant::now() < until, "it does not end");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A hub on a queue of its own, with what its agents write.
pub struct Scene {
    /// The directory of everything.
    pub sandbox: Sandbox,
    /// The hub.
    pub hub: Process,
    port: u16,
    flags: Vec<String>,
}

impl Scene {
    /// A hub on any free port.
    pub fn new(flags: &[&str]) -> Self {
        Self::on(Sandbox::new(), flags)
    }

    /// A hub in a sandbox.
    pub fn on(sandbox: Sandbox, flags: &[&str]) -> Self {
        let flags: Vec<String> = flags.iter().map(|flag| (*flag).to_owned()).collect();
        let (hub, port) = serve(&sandbox, 0, &flags);
        Self { sandbox, hub, port, flags }
    }

    /// The hub's address.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// The port it listens on.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Starts the hub again where it was.
    pub fn restart(&mut self) {
        (self.hub, self.port) = serve(&self.sandbox, self.port, &self.flags);
    }

    /// An agent of this hub.
    pub fn agent(&self, id: &str, flags: &[&str]) -> Process {
        self.agent_of(&[&self.url()], id, flags)
    }

    /// An agent of these hubs.
    pub fn agent_of(&self, hubs: &[&str], id: &str, flags: &[&str]) -> Process {
        let mut words = vec!["worker", "--id", id, "--quiet"];
        for hub in hubs {
            words.extend(["--hub", hub]);
        }
        words.extend(flags);
        let log = std::fs::File::create(self.sandbox.path().join(format!("{id}.log"))).unwrap();
        let mut command = self.sandbox.command(&words);
        Process(command.stdout(Stdio::null()).stderr(log).spawn().unwrap())
    }

    /// Asks.
    pub fn get(&self, path: &str) -> (u16, Value) {
        call(self.port, "GET", path, None).unwrap()
    }

    /// Sends.
    pub fn post(&self, path: &str, body: &Value) -> (u16, Value) {
        call(self.port, "POST", path, Some(body)).unwrap()
    }

    /// Submits a job and answers its id.
    #[track_caller]
    pub fn job(&self, body: &Value) -> String {
        let (status, answer) = self.post("/api/jobs", body);
        assert_eq!(status, 201, "{answer}");
        answer["id"].as_str().unwrap().to_owned()
    }

    /// A job.
    pub fn show(&self, id: &str) -> Value {
        self.get(&format!("/api/jobs/{id}")).1
    }

    /// Waits until a job is in a state.
    #[track_caller]
    pub fn wait_for(&self, id: &str, state: &str) -> Value {
        let mut last = Value::Null;
        let until = Instant::now() + PATIENCE;
        while Instant::now() < until {
            last = self.show(id);
            if last["state"] == state {
                return last;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        panic!("the job is not {state}: {last}");
    }

    /// Waits until something holds.
    #[track_caller]
    pub fn until(&self, what: &str, mut holds: impl FnMut(&Self) -> bool) {
        let until = Instant::now() + PATIENCE;
        while !holds(self) {
            assert!(Instant::now() < until, "{what} did not come");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Starts a hub and reads where it listens.
pub fn serve(sandbox: &Sandbox, port: u16, flags: &[String]) -> (Process, u16) {
    let listen = format!("127.0.0.1:{port}");
    let mut words = vec!["--listen", &listen];
    words.extend(flags.iter().map(String::as_str));
    serve_as(sandbox, &words)
}

/// Starts a hub with nothing but these flags, and reads where it listens.
pub fn serve_as(sandbox: &Sandbox, flags: &[&str]) -> (Process, u16) {
    let words = [&["serve", "--json"], flags].concat();
    let log = std::fs::File::options()
        .create(true)
        .append(true)
        .open(sandbox.path().join("hub.log"))
        .unwrap();
    let mut command = sandbox.command(&words);
    let mut hub = Process(command.stdout(Stdio::piped()).stderr(log).spawn().unwrap());
    let mut line = String::new();
    BufReader::new(hub.0.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    let told: Value = serde_json::from_str(&line)
        .unwrap_or_else(|_| panic!("no hub: {line} {}", sandbox.read("hub.log")));
    let port = told["url"].as_str().unwrap().rsplit(':').next().unwrap().parse().unwrap();
    (hub, port)
}

/// One request on one connection.
pub fn call(
    port: u16,
    method: &str,
    path: &str,
    body: Option<&Value>,
) -> std::io::Result<(u16, Value)> {
    call_with(port, method, path, "", body)
}

/// The same, with more lines of headers.
pub fn call_with(
    port: u16,
    method: &str,
    path: &str,
    headers: &str,
    body: Option<&Value>,
) -> std::io::Result<(u16, Value)> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let text = body.map(Value::to_string).unwrap_or_default();
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n\
         {headers}Content-Length: {}\r\n\r\n{text}",
        text.len()
    )?;
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let status = line.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0);
    let mut length = None;
    loop {
        line.clear();
        reader.read_line(&mut line)?;
        if line.trim().is_empty() {
            break;
        }
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse::<usize>().ok();
        }
    }
    let mut bytes = vec![0; length.unwrap_or(0)];
    reader.read_exact(&mut bytes)?;
    let body = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
    Ok((status, body))
}

/// A place that one program is downloaded from, counted.
pub struct Files {
    /// Its address.
    pub url: String,
    /// The program's sha256.
    pub checksum: String,
    downloads: Arc<AtomicUsize>,
}

impl Files {
    /// Offers a shell script.
    pub fn offer(script: &str) -> Self {
        let body = format!("#!/bin/sh\n{script}\n").into_bytes();
        let checksum = Sha256::digest(&body).iter().map(|byte| format!("{byte:02x}")).collect();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/solver", listener.local_addr().unwrap());
        let downloads = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&downloads);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(mut stream) = stream else { return };
                let mut line = String::new();
                let mut reader = BufReader::new(stream.try_clone().unwrap());
                while reader.read_line(&mut line).is_ok_and(|read| read > 2) {
                    line.clear();
                }
                counted.fetch_add(1, Ordering::Relaxed);
                let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
                // A client that hung up has had enough.
                let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&body));
            }
        });
        Self { url, checksum, downloads }
    }

    /// How often it was downloaded.
    pub fn downloads(&self) -> usize {
        self.downloads.load(Ordering::Relaxed)
    }

    /// A job that runs it.
    pub fn job(&self, params: &Value) -> Value {
        json!({
            "type": "solve", "params": params, "solver_url": self.url,
            "solver_checksum": self.checksum, "retry": {"base_delay": 0, "jitter": false},
        })
    }
}
