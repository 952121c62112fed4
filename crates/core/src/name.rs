//! Names, holders, and the ids of leases, owners and channels.

use alloc::string::{String, ToString};
use alloc::sync::Arc;
use core::fmt;

/// The longest name, in bytes of UTF-8.
pub const NAME_BYTES_MAX: usize = 512;
/// The longest label, in bytes. Longer labels are cut, because labels are only for people.
pub const LABEL_BYTES_MAX: usize = 128;
/// The longest host name, in bytes. Longer host names are cut.
pub const HOST_BYTES_MAX: usize = 64;

/// The name of a lock: 1 to [`NAME_BYTES_MAX`] bytes of UTF-8.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(Arc<str>);

impl Name {
    /// Creates a name after checking its length.
    ///
    /// # Errors
    /// [`NameError`] if the name is empty or too long.
    pub fn new(name: &str) -> Result<Self, NameError> {
        match name.len() {
            0 => Err(NameError::Empty),
            1..=NAME_BYTES_MAX => Ok(Self(name.into())),
            bytes => Err(NameError::TooLong { bytes }),
        }
    }

    /// Returns the name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", &*self.0)
    }
}

/// An invalid lock name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NameError {
    /// The name is empty.
    #[error("a name must not be empty")]
    Empty,
    /// The name is longer than [`NAME_BYTES_MAX`].
    #[error("a name of {bytes} bytes is too long: at most {NAME_BYTES_MAX} bytes of UTF-8")]
    TooLong {
        /// The length of the name.
        bytes: usize,
    },
}

/// The random value that signs the grants of one attempt, and of the lease that it wins.
///
/// The id is a secret of the holder: anyone who knows it can release the lock. `Debug` hides the id, and there is no
/// `Display`; call [`reveal`](Self::reveal) to get the text.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LeaseId(u128);

impl LeaseId {
    /// Creates an id from 128 random bits.
    pub const fn from_bits(bits: u128) -> Self {
        Self(bits)
    }

    /// Returns the id as the 32 hexadecimal digits that the nodes store.
    pub fn reveal(self) -> String {
        self.reveal_digits().into_iter().map(char::from).collect()
    }

    /// Returns the same digits without allocating.
    pub fn reveal_digits(self) -> [u8; 32] {
        hex(self.0)
    }

    /// Parses the text of [`reveal`](Self::reveal).
    pub fn parse(text: &str) -> Option<Self> {
        hex_digits::<32>(text).map(Self)
    }
}

/// Identifies the owner of a reentrant lock or a reader. An owner may re-enter; a reader cannot write while it reads.
///
/// The id is a secret, because anyone who knows it can acquire the lock as the same owner: `Debug` hides the id, and
/// there is no `Display`. Pass the text of [`reveal`](Self::reveal) to another process to act as the same owner there.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OwnerId(u128);

impl OwnerId {
    /// Creates an owner from 128 random bits, or from the hash of a secret.
    pub const fn from_bits(bits: u128) -> Self {
        Self(bits)
    }

    /// Returns the owner as text: 32 hexadecimal digits.
    pub fn reveal(self) -> String {
        alloc::format!("{:032x}", self.0)
    }

    /// Parses the text of [`reveal`](Self::reveal); `None` for any other text.
    pub fn parse(text: &str) -> Option<Self> {
        hex_digits::<32>(text).map(Self)
    }
}

impl fmt::Debug for OwnerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OwnerId(secret)")
    }
}

/// The channel on which a client receives hints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Channel(pub u128);

impl Channel {
    /// Returns the name of the channel: 32 hexadecimal digits.
    pub fn digits(self) -> String {
        alloc::format!("{:032x}", self.0)
    }

    /// Parses the text of [`digits`](Self::digits).
    pub fn parse(text: &str) -> Option<Self> {
        hex_digits::<32>(text).map(Self)
    }
}

/// The two digits of each byte. Every request contains several ids, and the table makes writing them twice as fast.
const HEX_PAIRS: [[u8; 2]; 256] = {
    let (digits, mut pairs, mut byte) = (b"0123456789abcdef", [[0; 2]; 256], 0);
    while byte < 256 {
        pairs[byte] = [digits[byte >> 4], digits[byte & 0xf]];
        byte += 1;
    }
    pairs
};

/// Returns all 32 hexadecimal digits.
pub fn hex(bits: u128) -> [u8; 32] {
    let mut digits = [0; 32];
    for (pair, byte) in digits.chunks_exact_mut(2).zip(bits.to_be_bytes()) {
        pair.copy_from_slice(&HEX_PAIRS[usize::from(byte)]);
    }
    digits
}

/// Parses exactly `DIGITS` lower-case hexadecimal digits.
pub fn hex_digits<const DIGITS: usize>(text: &str) -> Option<u128> {
    let is_hex = text.len() == DIGITS && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    is_hex.then(|| u128::from_str_radix(text, 16).ok()).flatten()
}

impl fmt::Debug for LeaseId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LeaseId(secret)")
    }
}

/// The holder of a lock, for people to read and never for decisions.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Holder {
    /// The user and the host: `root@db-3`.
    pub host: String,
    /// The process id on that host.
    pub pid: u32,
    /// The holder's own label; may be empty.
    pub label: String,
}

impl Holder {
    /// Creates a holder. Cuts parts that are too long.
    pub fn new(host: &str, pid: u32, label: &str) -> Self {
        let host = cut(host, HOST_BYTES_MAX).replace(|c: char| c.is_whitespace() || c.is_control(), "_");
        Self {
            host: if host.is_empty() { "?".to_string() } else { host },
            pid,
            label: cut(label, LABEL_BYTES_MAX).replace(char::is_control, " "),
        }
    }

    /// Creates the holder for a key of this Redis type, which belongs to a program that does not use this protocol.
    /// This holder has no process id.
    pub fn of_other_program(key_type: &str) -> Self {
        Self { host: "another program".into(), ..Self::new("", 0, &alloc::format!("key type {key_type}")) }
    }

    /// Returns whether this is [another program](Self::of_other_program), whose lease this protocol can neither renew
    /// nor break.
    pub fn is_other_program(&self) -> bool {
        self.pid == 0
    }

    /// Returns the holder as one line of text: `pid host label`.
    pub fn encode(&self) -> String {
        alloc::format!("{} {} {}", self.pid, self.host, self.label)
    }

    /// Parses the text of [`encode`](Self::encode); `None` for any other text.
    pub fn decode(text: &str) -> Option<Self> {
        let mut parts = text.splitn(3, ' ');
        let pid = parts.next()?.parse().ok()?;
        let host = parts.next().filter(|host| !host.is_empty())?;
        Some(Self::new(host, pid, parts.next()?))
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_other_program() {
            return write!(f, "{} ({})", self.host, self.label);
        }
        write!(f, "{} (pid {}", self.host, self.pid)?;
        if !self.label.is_empty() {
            write!(f, ", {}", self.label)?;
        }
        f.write_str(")")
    }
}

/// Returns the start of a text, with at most this many bytes.
pub fn cut(text: &str, bytes: usize) -> &str {
    let mut end = text.len().min(bytes);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

#[cfg(test)]
mod tests;
