//! Solvers: programs that jobs bring along. Each is downloaded once, verified while it comes in, and kept under the
//! name of its own checksum, so that any number of agents on a machine share one cache and none of them ever runs
//! half a file.

use std::collections::{BTreeSet, HashSet};
use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::StreamExt;
use reqwest::Url;
use sha2::{Digest, Sha256};

use crate::client::http_client;

/// How long one download may take.
const PATIENCE: Duration = Duration::from_secs(600);
/// Redirects that are followed.
const REDIRECTS: usize = 5;

/// Why a solver cannot be run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SolverTrouble {
    /// Another try may go better.
    #[error("{0}")]
    Later(String),
    /// It never will.
    #[error("{0}")]
    Never(String),
}

/// The cache of solvers.
pub struct Solvers {
    directory: PathBuf,
    max: u64,
    plain_hosts: Arc<BTreeSet<String>>,
    unchecked: bool,
    http: reqwest::Client,
    /// Checksums of files that this process has verified.
    verified: Mutex<HashSet<String>>,
}

impl Solvers {
    /// A cache in a directory.
    pub fn new(
        directory: PathBuf,
        max: u64,
        plain_hosts: BTreeSet<String>,
        unchecked: bool,
    ) -> Result<Self, String> {
        let plain_hosts = Arc::new(plain_hosts);
        let allowed = Arc::clone(&plain_hosts);
        let follow = reqwest::redirect::Policy::custom(move |attempt| {
            if attempt.previous().len() > REDIRECTS {
                return attempt.error("too many redirects");
            }
            match check_url(attempt.url(), &allowed) {
                Ok(()) => attempt.follow(),
                Err(why) => attempt.error(why),
            }
        });
        let http = http_client(follow)?;
        Ok(Self { directory, max, plain_hosts, unchecked, http, verified: Mutex::default() })
    }

    /// The program, downloaded if need be.
    pub async fn get(&self, url: &str, checksum: Option<&str>) -> Result<PathBuf, SolverTrouble> {
        let never = |why: String| SolverTrouble::Never(why);
        let url = Url::parse(url).map_err(|error| never(format!("solver_url {url}: {error}")))?;
        check_url(&url, &self.plain_hosts).map_err(never)?;
        let checksum = match checksum {
            Some(text) => Some(checked(text)?),
            None if self.unchecked => None,
            None => {
                return Err(never("solver_checksum is missing: a solver nobody vouches for is not \
                                  run; start the agent with --allow-unchecked-solvers if that is meant"
                    .to_owned()));
            }
        };
        self.make_directory().map_err(|error| {
            let place = self.directory.display();
            SolverTrouble::Later(format!("the solver cache {place} cannot be made: {error}"))
        })?;
        let Some(checksum) = checksum else { return self.download(&url, None).await };
        let path = self.directory.join(&checksum);
        if self.is_good(&path, &checksum).await {
            return Ok(path);
        }
        // Whoever comes second waits and finds it done.
        let lock = self.directory.join(format!("{checksum}.lock"));
        let _held = tokio::task::spawn_blocking(move || {
            let file = File::options().create(true).write(true).truncate(false).open(lock)?;
            file.lock()?;
            Ok::<File, std::io::Error>(file)
        })
        .await
        .map_err(|error| SolverTrouble::Later(error.to_string()))?
        .map_err(|error| {
            SolverTrouble::Later(format!("the solver cache cannot be locked: {error}"))
        })?;
        if self.is_good(&path, &checksum).await {
            return Ok(path);
        }
        self.download(&url, Some(&checksum)).await
    }

    fn make_directory(&self) -> std::io::Result<()> {
        std::fs::create_dir_all(&self.directory)
    }

    /// Whether the file is there and is what its name says. A file that is not is taken away.
    async fn is_good(&self, path: &Path, checksum: &str) -> bool {
        let known = self.verified.lock().unwrap_or_else(PoisonError::into_inner).contains(checksum);
        if known && path.exists() {
            return true;
        }
        let (file, wanted) = (path.to_owned(), checksum.to_owned());
        let found = tokio::task::spawn_blocking(move || digest_of(&file)).await;
        match found {
            Ok(Ok(found)) if found == wanted => {
                let mut verified = self.verified.lock().unwrap_or_else(PoisonError::into_inner);
                verified.insert(wanted);
                true
            }
            Ok(Ok(_)) => {
                tracing::warn!(solver = checksum, "a damaged solver was taken out of the cache");
                let _ = std::fs::remove_file(path);
                false
            }
            _ => false,
        }
    }

    async fn download(&self, url: &Url, checksum: Option<&str>) -> Result<PathBuf, SolverTrouble> {
        let part = Part::new(&self.directory)
            .map_err(|error| SolverTrouble::Later(format!("the solver cannot be kept: {error}")))?;
        let fetched = tokio::time::timeout(PATIENCE, self.fetch(url, part)).await;
        let (part, digest) = fetched
            .map_err(|_| SolverTrouble::Later(format!("{url}: the download took too long")))??;
        if let Some(wanted) = checksum
            && digest != wanted
        {
            return Err(SolverTrouble::Never(format!(
                "solver_checksum_mismatch: {url} has the sha256 {digest}, {wanted} was expected"
            )));
        }
        let path = self.directory.join(&digest);
        part.keep(&path)
            .map_err(|error| SolverTrouble::Later(format!("the solver cannot be kept: {error}")))?;
        self.verified.lock().unwrap_or_else(PoisonError::into_inner).insert(digest);
        Ok(path)
    }

    async fn fetch(&self, url: &Url, mut part: Part) -> Result<(Part, String), SolverTrouble> {
        let later = |why: String| SolverTrouble::Later(format!("{url}: {why}"));
        let answer = self.http.get(url.clone()).send().await;
        let answer = answer.map_err(|error| later(error.to_string()))?;
        let status = answer.status();
        if status.is_client_error() {
            return Err(SolverTrouble::Never(format!("{url}: the answer is {status}")));
        }
        if !status.is_success() {
            return Err(later(format!("the answer is {status}")));
        }
        let too_large =
            || SolverTrouble::Never(format!("{url}: it is larger than {} bytes", self.max));
        if answer.content_length().is_some_and(|length| length > self.max) {
            return Err(too_large());
        }
        let (mut hash, mut length) = (Sha256::new(), 0_u64);
        let mut pieces = answer.bytes_stream();
        while let Some(piece) = pieces.next().await {
            let piece = piece.map_err(|error| later(error.to_string()))?;
            length += piece.len() as u64;
            if length > self.max {
                return Err(too_large());
            }
            hash.update(&piece);
            part.file.write_all(&piece).map_err(|error| later(error.to_string()))?;
        }
        Ok((part, hex(&hash.finalize())))
    }
}

/// A download under way; what is not kept is taken away.
struct Part {
    path: PathBuf,
    file: File,
    kept: bool,
}

impl Part {
    fn new(directory: &Path) -> std::io::Result<Self> {
        let mut bits = [0_u8; 8];
        getrandom::fill(&mut bits).map_err(|error| std::io::Error::other(error.to_string()))?;
        let path = directory.join(format!("part-{}-{}", std::process::id(), hex(&bits)));
        let file = File::options().create_new(true).write(true).open(&path)?;
        Ok(Self { path, file, kept: false })
    }

    /// Durable before it has its name, so that a file with that name is always whole.
    fn keep(mut self, path: &Path) -> std::io::Result<()> {
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            self.file.set_permissions(std::fs::Permissions::from_mode(0o755))?;
        }
        self.file.sync_all()?;
        std::fs::rename(&self.path, path)?;
        self.kept = true;
        Ok(())
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        if !self.kept {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

fn digest_of(path: &Path) -> std::io::Result<String> {
    let mut file = File::open(path)?;
    let mut hash = Sha256::new();
    let mut piece = vec![0; 64 * 1024];
    loop {
        let read = file.read(&mut piece)?;
        if read == 0 {
            return Ok(hex(&hash.finalize()));
        }
        hash.update(&piece[..read]);
    }
}

/// A checksum becomes a file name, so nothing but 64 hexadecimal digits is one.
fn checked(text: &str) -> Result<String, SolverTrouble> {
    let text = text.strip_prefix("sha256:").unwrap_or(text).to_ascii_lowercase();
    if text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Ok(text);
    }
    Err(SolverTrouble::Never("solver_checksum: 64 hexadecimal digits are expected".to_owned()))
}

fn check_url(url: &Url, plain_hosts: &BTreeSet<String>) -> Result<(), String> {
    let host = url.host_str().unwrap_or_default();
    let bare = host.trim_matches(['[', ']']);
    let loopback = bare == "localhost"
        || bare.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback());
    match url.scheme() {
        "https" => Ok(()),
        "http" if loopback || plain_hosts.contains(host) => Ok(()),
        "http" => Err(format!(
            "{url}: solvers are fetched by https; --allow-http-host {host} allows http from there"
        )),
        other => Err(format!("{url}: solvers are fetched by https or http, not {other}")),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_http_is_for_loopback_and_named_hosts() {
        let named: BTreeSet<String> = ["files.example".to_owned()].into();
        let check = |url: &str| check_url(&Url::parse(url).unwrap(), &named);
        for good in ["https://any.example/x", "http://127.0.0.1:1/x", "http://[::1]/x"] {
            assert_eq!(check(good), Ok(()), "{good}");
        }
        assert_eq!(check("http://files.example/x"), Ok(()));
        assert!(check("http://other.example/x").unwrap_err().contains("--allow-http-host"));
        assert!(check("file:///etc/passwd").is_err());
    }

    #[test]
    fn a_checksum_is_never_a_path() {
        assert!(checked(&"a".repeat(64)).is_ok());
        assert!(checked("../../../../etc/passwd").is_err());
        assert!(checked(&format!("sha256:{}", "A".repeat(64))).is_ok());
    }

    /// Answers every request with the same bytes and answers where.
    async fn server(answer: Vec<u8>) -> String {
        use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/solver", listener.local_addr().unwrap());
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let _ = stream.read(&mut [0; 4096]).await;
                let _ = stream.write_all(&answer).await;
            }
        });
        url
    }

    fn plain(body: &str) -> Vec<u8> {
        // Without a length: it ends with the connection.
        format!("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n{body}").into_bytes()
    }

    fn cache(directory: &Path, max: u64) -> Solvers {
        Solvers::new(directory.to_owned(), max, BTreeSet::new(), false).unwrap()
    }

    fn sum(body: &str) -> String {
        hex(&Sha256::digest(body.as_bytes()))
    }

    #[tokio::test]
    async fn a_solver_that_is_too_large_is_given_up_while_it_comes_in() {
        let place = tempfile::tempdir().unwrap();
        let body = "0123456789";
        for answer in [
            plain(body),
            format!("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n{body}").into_bytes(),
        ] {
            let url = server(answer).await;
            let refused = cache(place.path(), 9).get(&url, Some(&sum(body))).await.unwrap_err();
            assert!(
                matches!(&refused, SolverTrouble::Never(why) if why.contains("larger than 9")),
                "{refused}"
            );
            assert!(cache(place.path(), 10).get(&url, Some(&sum(body))).await.is_ok());
            std::fs::remove_file(place.path().join(sum(body))).unwrap();
        }
    }

    #[tokio::test]
    async fn a_redirect_to_a_host_that_nobody_allowed_is_not_followed() {
        let place = tempfile::tempdir().unwrap();
        let moved =
            "HTTP/1.1 302 Found\r\nLocation: http://files.invalid/x\r\nContent-Length: 0\r\n\r\n";
        let url = server(moved.as_bytes().to_vec()).await;
        let refused = cache(place.path(), 100).get(&url, Some(&sum("x"))).await.unwrap_err();
        assert!(refused.to_string().contains("redirect"), "{refused}");
    }

    #[tokio::test]
    async fn a_file_of_the_cache_that_is_not_what_its_name_says_is_fetched_anew() {
        let place = tempfile::tempdir().unwrap();
        std::fs::write(place.path().join(sum("good")), "bad").unwrap();
        let url = server(plain("good")).await;
        let path = cache(place.path(), 100).get(&url, Some(&sum("good"))).await.unwrap();
        assert_eq!(std::fs::read_to_string(path).unwrap(), "good");
    }

    #[tokio::test]
    async fn a_solver_without_a_checksum_is_fetched_only_where_that_is_allowed() {
        let place = tempfile::tempdir().unwrap();
        let url = server(plain("any")).await;
        let refused = cache(place.path(), 100).get(&url, None).await.unwrap_err();
        assert!(refused.to_string().contains("--allow-unchecked-solvers"), "{refused}");
        let open = Solvers::new(place.path().to_owned(), 100, BTreeSet::new(), true).unwrap();
        assert!(open.get(&url, None).await.is_ok());
    }
}
