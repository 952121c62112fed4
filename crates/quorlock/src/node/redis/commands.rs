//! Commands as a server reads them, written straight into the bytes that are sent.

/// How much room is kept for the next batch.
const ROOM_MAX: usize = 64 * 1_024;

/// Commands, one behind the other.
#[derive(Debug, Default)]
pub(super) struct Commands {
    bytes: Vec<u8>,
    count: usize,
    /// The command that is being composed: how many words it has is known at its end, and told at its beginning.
    draft: Words,
}

impl Commands {
    /// Adds one that is made of these words.
    pub(super) fn add(&mut self, compose: impl FnOnce(&mut Words)) {
        self.draft.bytes.clear();
        self.draft.count = 0;
        compose(&mut self.draft);
        number(&mut self.bytes, b'*', self.draft.count);
        self.bytes.extend_from_slice(&self.draft.bytes);
        self.count += 1;
    }

    /// Forgets them all, but keeps the room, unless it is so much that it was a rare case.
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.bytes.shrink_to(ROOM_MAX);
        self.count = 0;
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.count
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// The words of one command.
#[derive(Debug, Default)]
pub(super) struct Words {
    bytes: Vec<u8>,
    count: usize,
}

impl Words {
    pub(super) fn word(&mut self, word: impl AsRef<[u8]>) -> &mut Self {
        self.joined([word.as_ref()])
    }

    /// One word, of several parts.
    pub(super) fn joined<'a>(&mut self, parts: impl AsRef<[&'a [u8]]>) -> &mut Self {
        let parts = parts.as_ref();
        self.count += 1;
        number(&mut self.bytes, b'$', parts.iter().map(|part| part.len()).sum());
        for part in parts {
            self.bytes.extend_from_slice(part);
        }
        self.bytes.extend_from_slice(b"\r\n");
        self
    }

    pub(super) fn number(&mut self, number: u64) -> &mut Self {
        let mut digits = [0; DIGITS_MAX];
        let digits = decimal(number, &mut digits);
        self.count += 1;
        self::number(&mut self.bytes, b'$', digits.len());
        self.bytes.extend_from_slice(digits);
        self.bytes.extend_from_slice(b"\r\n");
        self
    }
}

/// A line that says how much of something comes.
fn number(bytes: &mut Vec<u8>, kind: u8, count: usize) {
    // Nearly all words are that short.
    match count as u8 {
        ones if count < 10 => bytes.extend_from_slice(&[kind, b'0' + ones, b'\r', b'\n']),
        both if count < 100 => bytes.extend_from_slice(&[kind, b'0' + both / 10, b'0' + both % 10, b'\r', b'\n']),
        _ => {
            bytes.push(kind);
            bytes.extend_from_slice(decimal(count as u64, &mut [0; DIGITS_MAX]));
            bytes.extend_from_slice(b"\r\n");
        }
    }
}

/// As many digits as the largest number has.
pub(super) const DIGITS_MAX: usize = 20;

/// A number's digits, somewhere in this room.
pub(super) fn decimal(mut number: u64, room: &mut [u8; DIGITS_MAX]) -> &[u8] {
    let mut at = DIGITS_MAX;
    loop {
        at -= 1;
        room[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            return &room[at..];
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
        fn what_is_written_is_what_the_server_reads(texts in prop::collection::vec(".{0,40}", 0..12), numbers: [u64; 3]) {
            let (mut commands, mut expected) = (Commands::default(), Vec::new());
            for number in numbers {
                let mut command = cmd("SET");
                command.arg(&texts).arg(texts.concat()).arg(number);
                expected.extend(command.get_packed_command());
                commands.add(|words| {
                    words.word("SET");
                    for text in &texts {
                        words.word(text);
                    }
                    let parts: Vec<&[u8]> = texts.iter().map(String::as_bytes).collect();
                    words.joined(parts).number(number);
                });
            }
            prop_assert_eq!(commands.as_bytes(), &*expected);
            prop_assert_eq!(commands.len(), 3);
        }
    }

    #[test]
    fn cleared_it_is_as_new() {
        let mut commands = Commands::default();
        for _ in 0..2 {
            commands.add(|words| _ = words.word("PING").word("x".repeat(2 * ROOM_MAX)));
            commands.clear();
            assert_eq!((commands.len(), commands.as_bytes()), (0, &[][..]));
            assert!(commands.bytes.capacity() <= ROOM_MAX);
        }
        commands.add(|words| _ = words.word("PING"));
        assert_eq!(commands.as_bytes(), b"*1\r\n$4\r\nPING\r\n");
    }

    #[test]
    fn the_smallest_and_the_largest_number_have_all_their_digits() {
        for number in [0, 9, 10, u64::MAX] {
            assert_eq!(decimal(number, &mut [0; DIGITS_MAX]), number.to_string().as_bytes());
        }
    }
}
