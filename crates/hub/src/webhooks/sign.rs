//! The signature of a delivery: HMAC-SHA256 over the instant and the body, so that a receiver knows who sent it and
//! when, and can refuse what somebody else has sent again.

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

/// What a signature begins with: how it was made.
const VERSION: &str = "v1";

/// The signature of a body that is sent at an instant, as its header has it.
pub fn signature(secret: &str, millis: i64, body: &[u8]) -> String {
    let timestamp = millis.to_string();
    format!("{VERSION}={}", hex(&mac(secret.as_bytes(), &[timestamp.as_bytes(), b".", body])))
}

fn mac(key: &[u8], parts: &[&[u8]]) -> [u8; 32] {
    // A key of this algorithm may have any length.
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(key) else { unreachable!() };
    parts.iter().for_each(|part| mac.update(part));
    mac.finalize().into_bytes().into()
}

/// Lower-case hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_vectors_of_rfc_4231_come_out() {
        let of = |key: &[u8], data: &[u8]| hex(&mac(key, &[data]));
        assert_eq!(
            of(&[0x0b; 20], b"Hi There"),
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"
        );
        assert_eq!(
            of(b"Jefe", b"what do ya want for nothing?"),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
        );
        assert_eq!(
            of(&[0xaa; 131], b"Test Using Larger Than Block-Size Key - Hash Key First"),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54"
        );
    }

    #[test]
    fn what_is_signed_is_the_instant_a_dot_and_the_body() {
        let whole = hex(&mac(b"secret", &[b"1700000000000.{}"]));
        assert_eq!(signature("secret", 1_700_000_000_000, b"{}"), format!("v1={whole}"));
    }
}
