//! Where the server is, and connections to it with the settings that every one of them has.

use std::time::Duration;

use redis::io::tcp::TcpSettings;
use redis::{Connection, ConnectionInfo, IntoConnectionInfo, RedisError, Value};
use runcue_store::{Result, StoreError};

use crate::failure::{Unreadable, explain};
use crate::keys::Keys;
use crate::script::Script;

/// How long a server may take to accept a connection.
const CONNECT: Duration = Duration::from_secs(5);
/// How long a server may take to answer. Whoever waits longer thinks that it is gone.
const ANSWER: Duration = Duration::from_secs(5);

/// How often scripts that the server has forgotten are told it again.
const TRIES: u32 = 3;

/// Between two looks when nothing is heard.
const LOOK: Duration = Duration::from_secs(1);

/// Between two looks at the settings that can lose what was acknowledged.
const LOOK_AT_SETTINGS: Duration = Duration::from_secs(60);

/// The address of a queue on a server.
#[derive(Clone, Debug)]
pub struct Options {
    info: ConnectionInfo,
    /// The names of the queue's keys.
    pub keys: Keys,
    /// The address as it may be shown: without a password.
    pub place: String,
    /// A server that throws keys away when memory is short is accepted.
    pub accept_eviction: bool,
    /// `now` is the caller's, not the server's. For tests with instants of their own.
    pub caller_clock: bool,
    /// Commits may be transactions, where the server lets them.
    pub transactions: bool,
    /// Between two looks whether others have written, when nothing is heard of it.
    pub look: Duration,
    /// Between two looks whether the server throws keys away by now.
    pub look_at_settings: Duration,
}

impl Options {
    /// Reads an address such as `redis://host:6379/0?prefix=runcue&space=default`.
    ///
    /// # Errors
    /// [`StoreError::BadAddress`] says what is wrong with it.
    pub fn parse(url: &str) -> Result<Self> {
        let (address, query) = url.split_once('?').unwrap_or((url, ""));
        let shown = without_password(address);
        let bad = |why: String| StoreError::BadAddress { place: shown.clone(), why };
        let (mut prefix, mut space) = ("runcue".to_owned(), "default".to_owned());
        let (mut accept_eviction, mut caller_clock, mut transactions) = (false, false, true);
        let mut for_client = Vec::new();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            match (name, value) {
                ("prefix", value) if is_name(value) => value.clone_into(&mut prefix),
                ("space", value) if is_name(value) => value.clone_into(&mut space),
                ("prefix" | "space", _) => {
                    return Err(bad(format!(
                        "{name}={value}: letters, digits, '.', '-' and '_' are allowed"
                    )));
                }
                ("eviction", "accept") => accept_eviction = true,
                ("transactions", "off") => transactions = false,
                ("clock", "caller") => caller_clock = true,
                ("clock", "server") => caller_clock = false,
                // What a Unix socket's address needs.
                ("db" | "user" | "pass", _) => for_client.push(pair),
                _ => {
                    return Err(bad(format!(
                        "{pair} means nothing here; prefix=NAME, space=NAME, eviction=accept and transactions=off do"
                    )));
                }
            }
        }
        let address = match for_client.is_empty() {
            true => address.to_owned(),
            false => format!("{address}?{}", for_client.join("&")),
        };
        let info =
            address.as_str().into_connection_info().map_err(|error| explain(&shown, &error))?;
        let settings = TcpSettings::default().set_nodelay(true).set_keepalive(keepalive());
        #[cfg(target_os = "linux")]
        let settings = settings.set_user_timeout(ANSWER);
        let info = info.set_tcp_settings(settings);
        let keys = Keys::new(&prefix, &space);
        Ok(Self {
            info,
            keys,
            place: shown,
            accept_eviction,
            caller_clock,
            transactions,
            look: LOOK,
            look_at_settings: LOOK_AT_SETTINGS,
        })
    }

    /// Connects.
    ///
    /// # Errors
    /// What the server, or its absence, means.
    pub fn connect(&self) -> Result<Link> {
        let open = || -> std::result::Result<Connection, RedisError> {
            let client = redis::Client::open(self.info.clone())?;
            let connection = client.get_connection_with_timeout(CONNECT)?;
            connection.set_read_timeout(Some(ANSWER))?;
            connection.set_write_timeout(Some(ANSWER))?;
            Ok(connection)
        };
        let connection = open().map_err(|error| explain(&self.place, &error))?;
        let (keys, place) = (self.keys.clone(), self.place.clone());
        Ok(Link { connection, keys, place, owed: 0, early: None })
    }
}

fn keepalive() -> redis::io::tcp::socket2::TcpKeepalive {
    redis::io::tcp::socket2::TcpKeepalive::new().with_time(Duration::from_secs(5))
}

fn is_name(value: &str) -> bool {
    !value.is_empty() && value.chars().all(|c| c.is_ascii_alphanumeric() || ".-_".contains(c))
}

/// An address with `***` for what stands between its user and its host.
fn without_password(address: &str) -> String {
    let Some((scheme, rest)) = address.split_once("://") else { return address.to_owned() };
    let Some((login, host)) = rest.rsplit_once('@') else { return address.to_owned() };
    let user = login.split_once(':').map_or(login, |(user, _)| user);
    format!("{scheme}://{user}:***@{host}")
}

/// A connection that knows the keys of its queue. Its calls block.
pub struct Link {
    connection: Connection,
    keys: Keys,
    place: String,
    /// How many replies come before those to the next commands, because nobody has waited for them.
    owed: usize,
    /// They, when they came.
    early: Option<Vec<Value>>,
}

impl std::fmt::Debug for Link {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Link").field("place", &self.place).finish_non_exhaustive()
    }
}

/// Commands that go to the server together.
#[derive(Debug, Default)]
pub struct Batch {
    packed: Vec<u8>,
    count: usize,
}

impl Batch {
    /// Adds a command.
    pub fn add(&mut self, words: &[&[u8]]) {
        self.command(words.len());
        words.iter().for_each(|word| self.word(word));
    }

    /// Begins a command of so many words, which are to follow.
    pub fn command(&mut self, words: usize) {
        self.head(b'*', words);
        self.count += 1;
    }

    /// Adds a word of a command.
    pub fn word(&mut self, word: &[u8]) {
        self.head(b'$', word.len());
        self.packed.extend_from_slice(word);
        self.packed.extend_from_slice(b"\r\n");
    }

    /// Adds a word that is a key of a queue.
    pub fn key(&mut self, keys: &Keys, name: &str) {
        self.head(b'$', keys.prefix().len() + name.len());
        self.packed.extend_from_slice(keys.prefix().as_bytes());
        self.packed.extend_from_slice(name.as_bytes());
        self.packed.extend_from_slice(b"\r\n");
    }

    fn head(&mut self, kind: u8, len: usize) {
        // Most words are short, and there are thousands of them in a commit.
        let mut digits = [0; 20];
        let (mut at, mut rest) = (digits.len(), len);
        loop {
            at -= 1;
            digits[at] = b'0' + (rest % 10).to_le_bytes()[0];
            rest /= 10;
            if rest == 0 {
                break;
            }
        }
        self.packed.push(kind);
        self.packed.extend_from_slice(&digits[at..]);
        self.packed.extend_from_slice(b"\r\n");
    }

    /// Adds all of another.
    fn append(&mut self, other: &Self) {
        self.packed.extend_from_slice(&other.packed);
        self.count += other.count;
    }

    /// How many commands there are.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there is nothing to send.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }
}

impl Link {
    /// The names of the queue's keys.
    pub fn keys(&self) -> &Keys {
        &self.keys
    }

    /// Where the server is.
    pub fn place(&self) -> &str {
        &self.place
    }

    /// The connection itself, to wait for news on.
    pub fn into_connection(self) -> Connection {
        self.connection
    }

    /// Says what an error means.
    pub fn explain(&self, error: &RedisError) -> StoreError {
        explain(&self.place, error)
    }

    /// Says what a value that does not read back means.
    pub fn unreadable(&self, why: Unreadable) -> StoreError {
        why.at(&self.place)
    }

    /// One command whose second word is a key of the queue.
    pub fn command(&mut self, verb: &str, key: &str, rest: &[&[u8]]) -> Result<Value> {
        let key = self.keys.key(key);
        let mut words = vec![verb.as_bytes(), key.as_bytes()];
        words.extend_from_slice(rest);
        self.plain(&words)
    }

    /// One command.
    pub fn plain(&mut self, words: &[&[u8]]) -> Result<Value> {
        let mut batch = Batch::default();
        batch.add(words);
        let value = self.send(&batch)?.pop().unwrap_or(Value::Nil);
        self.good(value)
    }

    /// Adds a command on a key of the queue to a batch.
    pub fn queue(&self, batch: &mut Batch, verb: &str, key: &str, rest: &[&[u8]]) {
        batch.command(rest.len() + 2);
        batch.word(verb.as_bytes());
        batch.key(&self.keys, key);
        rest.iter().for_each(|word| batch.word(word));
    }

    /// Adds a script as text, which cannot be unknown to the server.
    pub fn queue_text(&self, batch: &mut Batch, script: &str, arguments: &[&[u8]]) {
        batch.command(arguments.len() + 4);
        batch.word(b"EVAL");
        batch.word(script.as_bytes());
        batch.word(b"1");
        batch.key(&self.keys, "meta");
        arguments.iter().for_each(|argument| batch.word(argument));
    }

    /// Adds a script to a batch. Its one key is `meta`, from which it makes the others.
    pub fn queue_script(&self, batch: &mut Batch, script: Script, arguments: &[&[u8]]) {
        let meta = self.keys.key("meta");
        let mut words: Vec<&[u8]> =
            vec![b"EVALSHA", script.hash().as_bytes(), b"1", meta.as_bytes()];
        words.extend_from_slice(arguments);
        batch.add(&words);
    }

    /// Sends commands and answers their replies. Scripts that the server has forgotten are sent again, and then
    /// everything is: whatever is in a batch may be done twice.
    pub fn all(&mut self, batch: &Batch) -> Result<Vec<Value>> {
        let mut replies = self.send(batch)?;
        let mut tries = TRIES;
        while tries > 0 && replies.iter().any(is_forgotten) {
            tries -= 1;
            // Together, so that there is hardly a moment in which they could be forgotten again.
            let mut again = Batch::default();
            for script in Script::ALL {
                again.add(&[b"SCRIPT", b"LOAD", script.text().as_bytes()]);
            }
            let scripts = again.len();
            again.append(batch);
            let mut loaded = self.send(&again)?;
            replies = loaded.split_off(scripts);
            for reply in loaded {
                self.good(reply)?;
            }
        }
        replies.into_iter().map(|reply| self.good(reply)).collect()
    }

    /// Runs one script.
    pub fn script(&mut self, script: Script, arguments: &[&[u8]]) -> Result<Value> {
        let mut batch = Batch::default();
        self.queue_script(&mut batch, script, arguments);
        Ok(self.all(&batch)?.pop().unwrap_or(Value::Nil))
    }

    /// Sends commands once and answers what came of each, errors of the server too.
    pub fn send(&mut self, batch: &Batch) -> Result<Vec<Value>> {
        if batch.is_empty() {
            return Ok(Vec::new());
        }
        self.write(batch)?;
        self.receive(batch.count)
    }

    /// Sends commands. Their replies are to be received.
    pub fn write(&mut self, batch: &Batch) -> Result<()> {
        let sent = self.connection.send_packed_command(&batch.packed);
        sent.map_err(|error| explain(&self.place, &error))
    }

    /// The replies to the latest commands.
    pub fn receive(&mut self, count: usize) -> Result<Vec<Value>> {
        self.settle()?;
        self.replies(count)
    }

    /// Sends commands whose replies nobody waits for. They are kept until [`Link::take_early`] or the next such commands.
    pub fn write_ahead(&mut self, batch: &Batch) -> Result<()> {
        self.settle()?;
        self.early = None;
        self.write(batch)?;
        self.owed = batch.count;
        Ok(())
    }

    /// The replies to such commands.
    pub fn take_early(&mut self) -> Result<Option<Vec<Value>>> {
        self.settle()?;
        Ok(self.early.take())
    }

    fn settle(&mut self) -> Result<()> {
        let owed = std::mem::take(&mut self.owed);
        if owed > 0 {
            self.early = Some(self.replies(owed)?);
        }
        Ok(())
    }

    fn replies(&mut self, count: usize) -> Result<Vec<Value>> {
        let replies = (0..count).map(|_| self.connection.recv_response());
        replies.collect::<std::result::Result<_, _>>().map_err(|error| explain(&self.place, &error))
    }

    /// A reply, unless it is an error.
    pub fn good(&self, value: Value) -> Result<Value> {
        value.extract_error().map_err(|error| explain(&self.place, &error))
    }
}

fn is_forgotten(reply: &Value) -> bool {
    matches!(reply, Value::ServerError(error) if error.code() == "NOSCRIPT")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn why(url: &str) -> String {
        Options::parse(url).unwrap_err().to_string()
    }

    #[test]
    fn an_address_names_prefix_and_space_of_the_keys() {
        let options = Options::parse("redis://localhost/2?prefix=acme&space=night").unwrap();
        assert_eq!(options.keys.prefix(), "acme:{night}:");
        assert_eq!(Options::parse("redis://localhost").unwrap().keys.prefix(), "runcue:{default}:");
    }

    #[test]
    fn a_password_is_never_shown() {
        let options = Options::parse("redis://me:secret@host:6380/0?prefix=a").unwrap();
        assert_eq!(options.place, "redis://me:***@host:6380/0");
        assert!(!why("redis://:secret@host/0?nonsense=1").contains("secret"));
        assert!(!why("redis://:secret@host:notaport/0").contains("secret"));
    }

    #[test]
    fn a_wrong_address_says_what_is_wrong() {
        assert!(why("redis://host/0?prefix=a b").contains("letters"));
        assert!(why("redis://host/0?color=red").contains("color=red means nothing here"));
        assert!(why("redis://host:notaport/0").contains("redis://host:6379/0"));
        assert!(why("http://host").contains("redis://host:6379/0"));
    }
}
