//! A RESP2 client for single commands. With it, tests do not check quorlock's client with quorlock's client.

use std::fmt::Write as _;
use std::io::{self, BufRead, BufReader, Read, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

const TIMEOUT: Duration = Duration::from_secs(5);

/// A reply of a Redis server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// The null bulk string or the null array.
    Nil,
    /// A simple string such as `OK`.
    Status(String),
    /// An error, with its code as the first word.
    Error(String),
    /// An integer.
    Int(i64),
    /// A binary-safe string.
    Bulk(Vec<u8>),
    /// A list of replies.
    Array(Vec<Reply>),
}

impl Reply {
    /// The text of a status or of a bulk string that is UTF-8.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::Status(text) => Some(text),
            Self::Bulk(bytes) => str::from_utf8(bytes).ok(),
            _ => None,
        }
    }

    /// The value of an integer.
    pub fn as_int(&self) -> Option<i64> {
        match self {
            Self::Int(value) => Some(*value),
            _ => None,
        }
    }

    /// Whether this is the null reply.
    pub fn is_nil(&self) -> bool {
        matches!(self, Self::Nil)
    }

    /// The texts of an array of strings. Panics if this is not such an array.
    pub fn strings(&self) -> Vec<String> {
        let Self::Array(items) = self else {
            panic!("expected an array of strings, got {self:?}");
        };
        let text = |item: &Reply| match item.as_str() {
            Some(text) => text.to_owned(),
            None => panic!("expected a string, got {item:?}"),
        };
        items.iter().map(text).collect()
    }
}

/// Sends one command over a new connection, and returns the reply.
pub(crate) fn send_command(addr: SocketAddr, password: Option<&str>, args: &[&str]) -> io::Result<Reply> {
    let stream = TcpStream::connect_timeout(&addr, TIMEOUT)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    let mut stream = BufReader::new(stream);
    if let Some(password) = password {
        stream.get_mut().write_all(encode(&["AUTH", password]).as_bytes())?;
        let reply = parse(&mut stream)?;
        if let Reply::Error(message) = reply {
            return Err(io::Error::other(message));
        }
    }
    stream.get_mut().write_all(encode(args).as_bytes())?;
    parse(&mut stream)
}

fn encode(args: &[&str]) -> String {
    let mut request = format!("*{}\r\n", args.len());
    for arg in args {
        write!(request, "${}\r\n{arg}\r\n", arg.len()).expect("writing to a string succeeds");
    }
    request
}

fn parse(stream: &mut impl BufRead) -> io::Result<Reply> {
    let mut line = String::new();
    if stream.read_line(&mut line)? == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let line = line.trim_end_matches("\r\n");
    let (kind, rest) = line.split_at_checked(1).ok_or_else(|| malformed("an empty line"))?;
    match kind {
        "+" => Ok(Reply::Status(rest.to_owned())),
        "-" => Ok(Reply::Error(rest.to_owned())),
        ":" => Ok(Reply::Int(number(rest)?)),
        "$" => match usize::try_from(number(rest)?) {
            Ok(length) => parse_bulk(stream, length),
            Err(_) => Ok(Reply::Nil),
        },
        "*" => match usize::try_from(number(rest)?) {
            Ok(length) => (0..length).map(|_| parse(stream)).collect::<io::Result<_>>().map(Reply::Array),
            Err(_) => Ok(Reply::Nil),
        },
        _ => Err(malformed(line)),
    }
}

fn parse_bulk(stream: &mut impl Read, length: usize) -> io::Result<Reply> {
    let mut bytes = vec![0; length + 2];
    stream.read_exact(&mut bytes)?;
    bytes.truncate(length);
    Ok(Reply::Bulk(bytes))
}

fn number(text: &str) -> io::Result<i64> {
    text.parse().map_err(|_| malformed(text))
}

fn malformed(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("the server's reply is not RESP2: {what:?}"))
}
