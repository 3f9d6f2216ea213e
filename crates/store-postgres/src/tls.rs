//! TLS for connections, with the words of PostgreSQL's `sslmode`: `prefer` and `require` encrypt without
//! asking who the server is, `verify-ca` and `verify-full` check its certificate.

use std::path::PathBuf;
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme,
};
use tokio_postgres::Socket;
use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres_rustls::MakeRustlsConnect;

/// What tokio-postgres is given.
pub type Tls = MakeRustlsConnect;
/// The stream it makes.
pub type TlsStream = <Tls as MakeTlsConnect<Socket>>::Stream;

/// Whether connections are encrypted, and how much of the server's certificate is checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Never.
    Disable,
    /// If the server can.
    #[default]
    Prefer,
    /// Always, with whoever answers.
    Require,
    /// Always, with a server whose certificate comes from a known authority.
    VerifyCa,
    /// Always, with a server whose certificate also names the host.
    VerifyFull,
}

impl Mode {
    /// From PostgreSQL's words.
    pub fn parse(word: &str) -> Result<Self, String> {
        Ok(match word {
            "disable" => Self::Disable,
            "prefer" | "allow" => Self::Prefer,
            "require" => Self::Require,
            "verify-ca" => Self::VerifyCa,
            "verify-full" => Self::VerifyFull,
            _ => {
                return Err(format!(
                    "sslmode={word} is not known; it is disable, prefer, require, verify-ca or verify-full"
                ));
            }
        })
    }
}

/// How connections are encrypted.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// Whether and how.
    pub mode: Mode,
    /// A file with the certificates of the authorities to trust; otherwise the machine's.
    pub root: Option<PathBuf>,
}

/// Makes a connector.
pub fn connector(settings: &Settings) -> Result<Tls, String> {
    let provider = Arc::new(ring::default_provider());
    let verifier: Arc<dyn ServerCertVerifier> = match settings.mode {
        Mode::VerifyCa | Mode::VerifyFull => {
            let roots = Arc::new(roots(settings)?);
            let builder = WebPkiServerVerifier::builder_with_provider(roots, provider.clone());
            let strict = builder.build().map_err(|error| format!("sslrootcert: {error}"))?;
            let any_name = settings.mode == Mode::VerifyCa;
            Arc::new(Verifier { strict: Some(strict), any_name, provider: provider.clone() })
        }
        _ => Arc::new(Verifier { strict: None, any_name: true, provider: provider.clone() }),
    };
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_no_client_auth();
    Ok(MakeRustlsConnect::new(config))
}

fn roots(settings: &Settings) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    let Some(path) = settings.root.as_ref().filter(|path| path.as_os_str() != "system") else {
        let found = rustls_native_certs::load_native_certs();
        roots.add_parsable_certificates(found.certs);
        if roots.is_empty() {
            return Err(
                "no authorities are known on this machine; name a file with sslrootcert".into()
            );
        }
        return Ok(roots);
    };
    let unreadable = |why: String| {
        let path = path.display();
        format!("sslrootcert={path} cannot be used: {why}; name a file with PEM certificates")
    };
    let certificates =
        CertificateDer::pem_file_iter(path).map_err(|error| unreadable(error.to_string()))?;
    for certificate in certificates {
        let certificate = certificate.map_err(|error| unreadable(error.to_string()))?;
        roots.add(certificate).map_err(|error| unreadable(error.to_string()))?;
    }
    if roots.is_empty() { Err(unreadable("there is none in it".to_owned())) } else { Ok(roots) }
}

/// Checks as much of a certificate as the mode asks for.
#[derive(Debug)]
struct Verifier {
    strict: Option<Arc<WebPkiServerVerifier>>,
    any_name: bool,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let Some(strict) = &self.strict else { return Ok(ServerCertVerified::assertion()) };
        match strict.verify_server_cert(certificate, between, name, ocsp, now) {
            Err(rustls::Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) if self.any_name => Ok(ServerCertVerified::assertion()),
            other => other,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
