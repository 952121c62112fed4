//! Parses the file of clients. Each line has the name of a client, the hash of the client's bearer token or
//! certificate, the client's scopes, and patterns of the names that the client has access to.

use std::sync::Arc;

use quorlock::Filter;

use super::{Clients, Identity, Scope, hash_of_token};

/// The smallest length of a bearer token. Shorter tokens could be guessed.
const TOKEN_BYTES_MIN: usize = 32;

/// The file of clients or a bearer token is invalid. The message does not quote the invalid text, because the text may
/// contain a secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ClientsError {
    /// A line has too few or too many parts, or an invalid part.
    #[error("line {line}: {why}")]
    Line {
        /// The number of the line, from 1.
        line: usize,
        /// Why the line is invalid.
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
    Ok(hash_of_token(token))
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
    /// [`ClientsError::Line`] if a line is invalid, and [`ClientsError::Empty`] if there is no client.
    pub fn parse(text: &str) -> Result<Self, ClientsError> {
        let mut clients = Self::default();
        for (index, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or_default();
            if line.trim().is_empty() {
                continue;
            }
            let (hash, identity) = parse_line(line).map_err(|why| ClientsError::Line { line: index + 1, why })?;
            if clients.identities.insert(hash, Arc::new(identity)).is_some() {
                return Err(ClientsError::Line { line: index + 1, why: "another line has the same hash".into() });
            }
        }
        if clients.identities.is_empty() { Err(ClientsError::Empty) } else { Ok(clients) }
    }
}

/// Returns the hash and the identity of the client that this line defines.
fn parse_line(line: &str) -> Result<(String, Identity), String> {
    let parts: Vec<&str> = line.split_whitespace().collect();
    let [name, hash, scopes, names] = parts[..] else {
        return Err(format!("a line must have 4 parts (client, hash, scopes, names), not {}", parts.len()));
    };
    let (kind, digits) = hash.split_once(':').unwrap_or_default();
    // Certificate tools print colons between the digits.
    let digits = digits.replace(':', "").to_ascii_lowercase();
    let is_hash = digits.len() == 64 && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    if !is_hash || !["sha256", "cert"].contains(&kind) {
        return Err("the hash must be sha256: or cert: followed by 64 hexadecimal digits".into());
    }
    let scopes: Option<Vec<Scope>> = scopes.split(',').map(Scope::parse).collect();
    let scopes = scopes.ok_or("the scopes must be read, lock or admin, separated by commas")?;
    let name_patterns = names.split(',').map(Filter::new).collect();
    let identity = Identity { name: name.to_owned(), limit_key: name.into(), scopes, name_patterns };
    Ok((format!("{kind}:{digits}"), identity))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HASH: &str = "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";

    fn parse_error(text: &str) -> String {
        Clients::parse(text).unwrap_err().to_string()
    }

    #[test]
    fn each_line_defines_a_client_and_comments_are_ignored() {
        let text = format!("# a comment\n\nbilling {HASH} lock,read invoices/*,ledger # another comment\n");
        let clients = Clients::parse(&text).unwrap();
        let billing = &clients.identities[&hash_of_token("test")];
        assert_eq!((billing.name.as_str(), billing.scopes.contains(&Scope::Admin)), ("billing", false));
        assert!(billing.name_patterns.iter().any(|pattern| pattern.matches("ledger")));
        assert!(!clients.identities.contains_key(&HASH.replace("sha256", "cert")), "HASH is the hash of a token");
    }

    #[test]
    fn an_error_has_the_number_of_the_invalid_line_but_not_its_text() {
        for line in ["a secret lock *", "a sha256:12 lock *", &format!("a {HASH} write *"), &format!("a {HASH} lock")] {
            let error = parse_error(&format!("# one\n{line}"));
            assert!(error.starts_with("line 2: ") && !error.contains("secret") && !error.contains("9f86"), "{error}");
        }
        assert_eq!(parse_error(""), "the file has no client");
        assert!(parse_error(&format!("a {HASH} lock *\nb {HASH} lock *")).contains("line 2"));
    }

    #[test]
    fn a_short_token_is_refused_and_surrounding_white_space_is_ignored() {
        assert_eq!(hash_bearer_token("short\n"), Err(ClientsError::Short));
        let token = "0123456789abcdef0123456789abcdef";
        assert_eq!(hash_bearer_token(&format!(" {token}\n")), hash_bearer_token(token));
        assert_eq!(hash_bearer_token(token).unwrap().len(), "sha256:".len() + 64);
    }
}
