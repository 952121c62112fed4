//! Builds RESP commands directly in the output buffer.

/// The most buffer space that is kept for reuse.
const CAPACITY_KEPT_MAX: usize = 64 * 1_024;

/// A sequence of commands.
#[derive(Debug, Default)]
pub(super) struct Commands {
    bytes: Vec<u8>,
    count: usize,
    /// The start of the last command, and its number of words so far. `finish` inserts the number before the words.
    start: usize,
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

/// Formats a number at the end of the buffer.
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

#[cfg(test)]
mod tests {
    use ::redis::cmd;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn commands_are_packed_as_redis_rs_packs_them(texts in prop::collection::vec(".{0,40}", 0..12), numbers: [u64; 3]) {
            let (mut commands, mut expected) = (Commands::default(), Vec::new());
            for number in numbers {
                let mut command = cmd("SET");
                command.arg(&texts).arg(texts.concat()).arg(number);
                expected.extend(command.get_packed_command());
                commands.command("SET");
                for text in &texts {
                    commands.word(text);
                }
                let parts: Vec<&[u8]> = texts.iter().map(String::as_bytes).collect();
                commands.joined(parts).number(number);
            }
            prop_assert_eq!(commands.as_bytes(), &*expected);
            prop_assert_eq!(commands.len(), 3);
        }
    }

    #[test]
    fn cleared_it_is_as_new() {
        let mut commands = Commands::default();
        for _ in 0..2 {
            commands.command("PING").word("x".repeat(2 * CAPACITY_KEPT_MAX));
            commands.clear();
            assert_eq!((commands.len(), commands.as_bytes()), (0, &[][..]));
            assert!(commands.bytes.capacity() <= CAPACITY_KEPT_MAX);
        }
        commands.command("PING");
        assert_eq!(commands.as_bytes(), b"*1\r\n$4\r\nPING\r\n");
    }

    #[test]
    fn the_smallest_and_the_largest_number_have_all_their_digits() {
        for number in [0, 9, 10, u64::MAX] {
            assert_eq!(decimal(number, &mut [0; DIGITS_MAX]), number.to_string().as_bytes());
        }
    }
}
