//! The file of clients. Each line has a client, the hash of its bearer token or certificate, its scopes and its names.

use std::sync::Arc;

use quorlock::Filter;

use super::{Clients, Identity, Proof, Scope, hex, sha256};

/// The length of the shortest valid bearer token. Shorter tokens could be guessed.
const TOKEN_BYTES_MIN: usize = 32;

/// The file of clients is invalid. The error does not repeat the line, which may contain a secret by mistake.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ClientsError {
    /// A line has too few or too many parts, or one of them is invalid.
    #[error("line {line}: {why}")]
    Line {
        /// The number of the line, from 1.
        line: usize,
        /// What is wrong with it.
        why: String,
    },
    /// The file has no client.
    #[error("the file has no client")]
    Empty,
    /// The bearer token is too short to be secret.
    #[error("a bearer token must have at least {TOKEN_BYTES_MIN} random characters: try `openssl rand -hex 32`")]
    Short,
}

/// Returns the hash of a bearer token for the file of clients. White space around the token is ignored.
///
/// # Errors
/// [`ClientsError::Short`] if the token is short enough to be guessed.
pub fn hash_bearer_token(token: &str) -> Result<String, ClientsError> {
    let token = token.trim();
    if token.len() < TOKEN_BYTES_MIN {
        return Err(ClientsError::Short);
    }
    Ok(format!("sha256:{}", hex(&sha256(token.as_bytes()))))
}

impl Clients {
    /// Reads the text of a file of clients. Each line has four parts; `#` starts a comment:
    ///
    /// ```text
    /// # client  bearer token, or cert:..       scopes      names
    /// billing   sha256:9f86d081884c7d65..      lock,read   invoices/*,ledger
    /// ops       sha256:60303ae22b998861..      read,admin  *
    /// ```
    ///
    /// # Errors
    /// [`ClientsError`] names the line.
    pub fn parse(text: &str) -> Result<Self, ClientsError> {
        let mut known: Vec<Arc<Identity>> = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or_default();
            if line.trim().is_empty() {
                continue;
            }
            let client = read(line).map_err(|why| ClientsError::Line { line: index + 1, why })?;
            if known.iter().any(|other| other.proof == client.proof) {
                return Err(ClientsError::Line { line: index + 1, why: "another line has the same hash".into() });
            }
            known.push(Arc::new(client));
        }
        if known.is_empty() { Err(ClientsError::Empty) } else { Ok(Self { known }) }
    }
}

fn read(line: &str) -> Result<Identity, String> {
    let parts: Vec<&str> = line.split_whitespace().collect();
    let [name, proof, scopes, names] = parts[..] else {
        return Err(format!("a line must have 4 parts (client, hash, scopes, names), not {}", parts.len()));
    };
    let proof = match proof.split_once(':') {
        Some(("sha256", digits)) => bytes(digits).map(Proof::Bearer),
        Some(("cert", digits)) => bytes(digits).map(Proof::Certificate),
        _ => None,
    };
    let proof = proof.ok_or("the hash must be sha256: or cert:, and 64 hexadecimal digits")?;
    let scopes: Option<Vec<Scope>> = scopes.split(',').map(Scope::parse).collect();
    let scopes = scopes.ok_or("the scopes must be read, lock or admin, separated by commas")?;
    let names = names.split(',').map(Filter::new).collect();
    Ok(Identity { name: name.to_owned(), limit_key: name.into(), proof: Some(proof), scopes, names })
}

/// Reads 64 hexadecimal digits. Certificate tools put colons between them.
fn bytes(digits: &str) -> Option<[u8; 32]> {
    let digits: String = digits.chars().filter(|digit| *digit != ':').collect();
    if digits.len() != 64 || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return None;
    }
    let byte = |at: usize| u8::from_str_radix(&digits[2 * at..2 * at + 2], 16).ok();
    let bytes: Option<Vec<u8>> = (0..32).map(byte).collect();
    bytes?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HASH: &str = "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";

    fn why(text: &str) -> String {
        Clients::parse(text).unwrap_err().to_string()
    }

    #[test]
    fn every_line_is_a_client() {
        let text = format!("# all of them\n\nbilling {HASH} lock,read invoices/*,ledger # theirs\n");
        let clients = Clients::parse(&text).unwrap();
        let known = &clients.known[0];
        assert_eq!((known.name.as_str(), known.scopes.contains(&Scope::Admin)), ("billing", false));
        assert!(known.names.iter().any(|names| names.fits("ledger")));
        assert_eq!(clients.find(Proof::Bearer(sha256(b"test"))).unwrap().name, "billing");
        assert!(clients.find(Proof::Certificate(sha256(b"test"))).is_none());
    }

    #[test]
    fn an_invalid_line_is_named_and_not_repeated() {
        for line in ["a secret lock *", "a sha256:12 lock *", &format!("a {HASH} write *"), &format!("a {HASH} lock")] {
            let why = why(&format!("# one\n{line}"));
            assert!(why.starts_with("line 2: ") && !why.contains("secret") && !why.contains("9f86"), "{why}");
        }
        assert_eq!(why(""), "the file has no client");
        assert!(why(&format!("a {HASH} lock *\nb {HASH} lock *")).contains("line 2"));
    }

    #[test]
    fn only_long_tokens_are_hashed() {
        assert_eq!(hash_bearer_token("short\n"), Err(ClientsError::Short));
        let token = "0123456789abcdef0123456789abcdef";
        assert_eq!(hash_bearer_token(&format!(" {token}\n")), hash_bearer_token(token));
        assert_eq!(hash_bearer_token(token).unwrap().len(), "sha256:".len() + 64);
    }
}
