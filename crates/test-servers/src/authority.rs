//! An authority of one's own that signs certificates for servers, with the openssl command.

use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::{Trouble, place};

/// A key on a curve that every server and client knows.
const KEY: [&str; 5] = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"];

/// Signs certificates. Gone, with all it made, when it is dropped.
#[derive(Debug)]
pub struct Authority {
    directory: TempDir,
}

/// A certificate and its key, as PEM files.
#[derive(Clone, Debug)]
pub struct Certificate {
    /// The certificate.
    pub certificate: PathBuf,
    /// Its key.
    pub key: PathBuf,
}

impl Authority {
    /// A new one, which nobody knows yet.
    ///
    /// # Errors
    /// If openssl is missing or fails.
    pub fn new() -> Result<Self, Trouble> {
        let authority = Self { directory: place::temporary()? };
        let (key, own) = (authority.path("ca.key"), authority.certificate());
        let subject = ["-x509", "-days", "2", "-subj", "/CN=an authority of tests"];
        authority.openssl("req", &[&KEY, &subject], &[("-keyout", &key), ("-out", &own)])?;
        Ok(authority)
    }

    /// Its own certificate: who knows this file trusts whatever it signed.
    pub fn certificate(&self) -> PathBuf {
        self.path("ca.pem")
    }

    /// Signs a certificate for names such as `IP:127.0.0.1` or `DNS:db.example`.
    ///
    /// # Errors
    /// If openssl fails.
    pub fn sign(&self, names: &str) -> Result<Certificate, Trouble> {
        let name = place::unique("server");
        let made = |ending: &str| self.path(&format!("{name}.{ending}"));
        let signed = Certificate { certificate: made("pem"), key: made("key") };
        let (request, extensions) = (made("csr"), made("ext"));
        let subject = ["-new", "-subj", "/CN=a server of tests"];
        let files = [("-keyout", signed.key.as_path()), ("-out", &request)];
        self.openssl("req", &[&KEY, &subject], &files)?;
        let text = format!("subjectAltName={names}\nbasicConstraints=critical,CA:FALSE\n");
        fs::write(&extensions, text).map_err(Trouble::with(extensions.display()))?;
        let files = [
            ("-in", request.as_path()),
            ("-CA", &self.certificate()),
            ("-CAkey", &self.path("ca.key")),
            ("-extfile", &extensions),
            ("-out", &signed.certificate),
        ];
        self.openssl("x509", &[&["-req", "-days", "2", "-CAcreateserial"]], &files)?;
        Ok(signed)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn openssl(
        &self,
        verb: &str,
        words: &[&[&str]],
        files: &[(&str, &Path)],
    ) -> Result<String, Trouble> {
        let mut line = vec![place::program("openssl", "openssl")?.display().to_string()];
        line.push(verb.to_owned());
        line.extend(words.concat().iter().map(|word| (*word).to_owned()));
        for (name, file) in files {
            line.extend([(*name).to_owned(), file.display().to_string()]);
        }
        place::run(&line)
    }
}
