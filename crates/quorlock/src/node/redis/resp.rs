//! RESP3, the protocol of Redis: builds commands directly in the output buffer, and parses the values of replies.

/// The largest value in bytes: twice a full history of the longest events.
pub(super) const VALUE_BYTES_MAX: usize = 32 * 1024 * 1024;
/// The longest line in bytes: a number, a short text or an error.
const LINE_BYTES_MAX: usize = 64 * 1024;
/// The most nested values in one value. On the wire, a nested value may have only three bytes, but in memory it takes
/// many times as much.
const PARTS_MAX: usize = 512 * 1024;
/// The deepest nesting of arrays. Replies to our commands nest at most four deep.
const DEPTH_MAX: usize = 16;
/// The most elements for which space is reserved before they arrive.
const CAPACITY_MAX: usize = 129;
/// The least free space for a read.
const READ_MIN: usize = 4_096;
/// The largest capacity that a mostly empty buffer keeps.
const CAPACITY_KEPT_MAX: usize = 64 * 1_024;

/// A sequence of commands.
#[derive(Debug, Default)]
pub(super) struct Commands {
    bytes: Vec<u8>,
    count: usize,
    /// The start of the last command.
    start: usize,
    /// The number of words of the last command so far. `finish` inserts this number before the words.
    words: usize,
}

impl Commands {
    /// Starts a command.
    pub(super) fn command(&mut self, name: &str) -> &mut Self {
        self.finish();
        self.start = self.bytes.len();
        self.count += 1;
        self.word(name)
    }

    /// Starts a script call.
    pub(super) fn script(&mut self, sha: &str, keys: u64) -> &mut Self {
        self.command("EVALSHA").word(sha).number(keys)
    }

    pub(super) fn word(&mut self, word: impl AsRef<[u8]>) -> &mut Self {
        let word = word.as_ref();
        self.words += 1;
        write_count(&mut self.bytes, b'$', word.len());
        self.bytes.extend_from_slice(word);
        self.bytes.extend_from_slice(b"\r\n");
        self
    }

    pub(super) fn words(&mut self, words: &[&str]) -> &mut Self {
        for word in words {
            self.word(word);
        }
        self
    }

    /// Appends one word that consists of several parts.
    pub(super) fn joined<'a>(&mut self, parts: impl AsRef<[&'a [u8]]>) -> &mut Self {
        let parts = parts.as_ref();
        self.words += 1;
        write_count(&mut self.bytes, b'$', parts.iter().map(|part| part.len()).sum());
        for part in parts {
            self.bytes.extend_from_slice(part);
        }
        self.bytes.extend_from_slice(b"\r\n");
        self
    }

    pub(super) fn number(&mut self, number: u64) -> &mut Self {
        self.word(decimal(number, &mut [0; DIGITS_MAX]))
    }

    /// Removes all commands, but keeps the buffer.
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.bytes.shrink_to(CAPACITY_KEPT_MAX);
        (self.count, self.words) = (0, 0);
    }

    /// Returns the number of commands.
    pub(super) fn len(&self) -> usize {
        self.count
    }

    pub(super) fn as_bytes(&mut self) -> &[u8] {
        self.finish();
        &self.bytes
    }

    /// Inserts the number of words before the words of the last command.
    fn finish(&mut self) {
        if self.words == 0 {
            return;
        }
        let end = self.bytes.len();
        write_count(&mut self.bytes, b'*', self.words);
        let header = self.bytes.len() - end;
        self.bytes[self.start..].rotate_right(header);
        self.words = 0;
    }
}

/// Writes a RESP count. Most counts have one or two digits, so there is a fast path for them.
fn write_count(bytes: &mut Vec<u8>, kind: u8, count: usize) {
    let digit = |value: usize| b'0' + (value % 10) as u8;
    match count {
        0..10 => bytes.extend_from_slice(&[kind, digit(count), b'\r', b'\n']),
        10..100 => bytes.extend_from_slice(&[kind, digit(count / 10), digit(count), b'\r', b'\n']),
        _ => {
            bytes.push(kind);
            bytes.extend_from_slice(decimal(count as u64, &mut [0; DIGITS_MAX]));
            bytes.extend_from_slice(b"\r\n");
        }
    }
}

/// The number of digits of the largest `u64`.
pub(super) const DIGITS_MAX: usize = 20;

/// Formats a number at the end of the buffer, and returns the digits.
pub(super) fn decimal(mut number: u64, buffer: &mut [u8; DIGITS_MAX]) -> &[u8] {
    let mut at = DIGITS_MAX;
    loop {
        at -= 1;
        buffer[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            return &buffer[at..];
        }
    }
}

/// A value from a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Value {
    Nil,
    Okay,
    Int(i64),
    Text(Vec<u8>),
    Array(Vec<Value>),
    /// Alternating keys and values.
    Map(Vec<Value>),
    /// An out-of-band message. Its first element is its kind.
    Push(Vec<Value>),
    Error(String),
    /// A set, a boolean, a double or a big number. No reply to our commands contains one.
    Other,
}

impl Value {
    pub(super) fn as_bytes(&self) -> Option<&[u8]> {
        if let Self::Text(bytes) = self { Some(bytes) } else { None }
    }

    pub(super) fn as_str(&self) -> Option<&str> {
        self.as_bytes().and_then(|bytes| std::str::from_utf8(bytes).ok())
    }

    pub(super) fn as_array(&self) -> Option<&[Self]> {
        if let Self::Array(parts) = self { Some(parts) } else { None }
    }
}

/// Parses values incrementally. It parses each part of a value once, even if the bytes arrive in small pieces.
#[derive(Debug, Default)]
pub(super) struct Parser {
    bytes: Vec<u8>,
    /// The number of bytes that are already parsed.
    at: usize,
    /// Incomplete arrays, outermost first.
    open: Vec<Open>,
    /// The size of the current value so far, in bytes.
    value_bytes: usize,
    /// The number of nested values that the current value has announced so far.
    value_parts: usize,
}

/// An array that has not arrived completely.
#[derive(Debug)]
struct Open {
    kind: u8,
    parts: Vec<Value>,
    missing: usize,
}

impl Parser {
    /// Returns the buffer to which the next bytes are appended.
    pub(super) fn buffer(&mut self) -> &mut Vec<u8> {
        self.bytes.drain(..self.at);
        self.at = 0;
        if self.bytes.len() < READ_MIN {
            // The space for one long value must not stay allocated forever.
            self.bytes.shrink_to(CAPACITY_KEPT_MAX);
        }
        self.bytes.reserve(READ_MIN);
        &mut self.bytes
    }

    /// Returns the next value, or `None` until it has arrived completely.
    ///
    /// # Errors
    /// Returns what is wrong if the bytes are not RESP3 or exceed a limit.
    pub(super) fn next(&mut self) -> Result<Option<Value>, &'static str> {
        'parts: loop {
            let rest = &self.bytes[self.at..];
            let Some((line, mut length)) = first_line(rest)? else { return Ok(None) };
            let [kind, line @ ..] = line else { return Err("an empty line") };
            let mut value = match kind {
                b'_' => Value::Nil,
                b'+' if line == b"OK" => Value::Okay,
                b'+' => Value::Text(line.to_vec()),
                b':' => Value::Int(parse(line)?),
                b'-' => Value::Error(lossy(line)),
                b'#' | b',' | b'(' => Value::Other,
                b'$' | b'=' | b'!' | b'*' | b'~' | b'>' | b'%' if line == NULL => Value::Nil,
                b'$' | b'=' | b'!' => {
                    let end = length + parse_length(line)? + 2;
                    self.check_length(end)?;
                    let Some(text) = rest.get(length..end) else { return Ok(None) };
                    let text = text.strip_suffix(b"\r\n").ok_or("a text of another length than announced")?;
                    length = end;
                    match kind {
                        b'$' => Value::Text(text.to_vec()),
                        b'!' => Value::Error(lossy(text)),
                        // Skip the format, such as `txt:`.
                        _ => Value::Text(text.get(4..).ok_or("a text without a format")?.to_vec()),
                    }
                }
                b'*' | b'~' | b'>' | b'%' => {
                    let missing = parse_length(line)? * if *kind == b'%' { 2 } else { 1 };
                    self.value_parts += missing;
                    if self.value_parts > PARTS_MAX {
                        return Err("a value of too many parts");
                    }
                    let array = Open { kind: *kind, parts: Vec::with_capacity(missing.min(CAPACITY_MAX)), missing };
                    if missing > 0 {
                        if self.open.len() == DEPTH_MAX {
                            return Err("arrays that are nested too deeply");
                        }
                        self.open.push(array);
                        self.advance(length)?;
                        continue;
                    }
                    array.close()
                }
                _ => return Err("a value of an unknown kind"),
            };
            self.advance(length)?;
            while let Some(mut array) = self.open.pop() {
                array.parts.push(value);
                array.missing -= 1;
                if array.missing > 0 {
                    self.open.push(array);
                    continue 'parts;
                }
                value = array.close();
            }
            (self.value_bytes, self.value_parts) = (0, 0);
            return Ok(Some(value));
        }
    }

    fn advance(&mut self, length: usize) -> Result<(), &'static str> {
        self.check_length(length)?;
        self.at += length;
        self.value_bytes += length;
        Ok(())
    }

    /// Rejects a value that is too long, even if it has not arrived completely.
    fn check_length(&self, more: usize) -> Result<(), &'static str> {
        if self.value_bytes + more > VALUE_BYTES_MAX { Err(TOO_LONG) } else { Ok(()) }
    }
}

impl Open {
    fn close(self) -> Value {
        match self.kind {
            b'>' => Value::Push(self.parts),
            b'%' => Value::Map(self.parts),
            b'~' => Value::Other,
            _ => Value::Array(self.parts),
        }
    }
}

const TOO_LONG: &str = "a value that is too long";
/// The length of a null in RESP2.
const NULL: &[u8] = b"-1";

/// Returns the first line without its end, and its length including the end; `None` until the end has arrived.
fn first_line(bytes: &[u8]) -> Result<Option<(&[u8], usize)>, &'static str> {
    match bytes.iter().take(LINE_BYTES_MAX).position(|byte| *byte == b'\n') {
        Some(end) => {
            let line = bytes[..end].strip_suffix(b"\r").ok_or("a line that does not end with CR LF")?;
            Ok(Some((line, end + 1)))
        }
        None if bytes.len() < LINE_BYTES_MAX => Ok(None),
        None => Err("a line without an end"),
    }
}

fn parse<T: std::str::FromStr>(digits: &[u8]) -> Result<T, &'static str> {
    std::str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok()).ok_or("text that is not a number")
}

fn parse_length(digits: &[u8]) -> Result<usize, &'static str> {
    parse(digits).and_then(|length| if length > VALUE_BYTES_MAX { Err(TOO_LONG) } else { Ok(length) })
}

fn lossy(text: &[u8]) -> String {
    String::from_utf8_lossy(text).into_owned()
}

#[cfg(test)]
mod tests;
