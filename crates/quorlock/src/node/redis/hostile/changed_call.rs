//! Changes the arguments of a script call to values that no client of ours would send.

use ::redis::{Cmd, Value};
use proptest::prelude::*;
use proptest::sample::{Index, select};

/// The argument to change, and its replacement.
pub(super) type Change = (Argument, Replacement);

#[derive(Clone, Debug)]
pub(super) enum Argument {
    /// A random argument.
    Any(Index),
    /// The number of the argument in the script, from 1.
    Number(usize),
}

#[derive(Clone, Debug)]
pub(super) enum Replacement {
    Value(Vec<u8>),
    /// The original value, with a prefix and a suffix.
    Around(Vec<u8>, Vec<u8>),
    Missing,
}

/// Returns replacements for an argument.
fn replacement() -> impl Strategy<Value = Replacement> {
    let odd_texts = [
        "",
        " ",
        "0",
        "-0",
        "-1",
        "1",
        "1.5",
        "nan",
        "-nan",
        "inf",
        "-inf",
        "1e15",
        "1e308",
        "0x10",
        "0x6605000000000",
        "1794811803058881.5",
        "9007199254740991",
        "9007199254740993",
        "9223372036854775807",
        "99999999999999999999",
        " 1",
        "1 ",
        "+1",
        "acquire",
        "renew",
        "repair",
        "r",
        "s",
        "k",
        "x",
        "fence",
        "digest",
        "now",
        "leave ",
        "yield ",
        "0000000000000000-zzzzzzzzzzzzzzzz x 0",
        "0000000000000000-0000000000000000 x \n",
        "%d+",
        "%",
        "(",
        "[^",
        "\0",
        "0000000000000inf-0000000000000001 x 00000000000000000000000000000001",
    ];
    let bytes = prop_oneof![
        6 => select(odd_texts.map(|text| text.as_bytes().to_vec()).to_vec()),
        2 => proptest::collection::vec(any::<u8>(), 0..40),
        1 => any::<u64>().prop_map(|number| number.to_string().into_bytes()),
        1 => Just(vec![b'a'; 70_000]),
    ];
    let bytes = bytes.boxed();
    prop_oneof![
        6 => bytes.clone().prop_map(Replacement::Value),
        1 => (bytes.clone(), bytes).prop_map(|(prefix, suffix)| Replacement::Around(prefix, suffix)),
        1 => Just(Replacement::Missing),
    ]
}

/// Returns changes to some arguments of a call.
pub(super) fn changes() -> impl Strategy<Value = Vec<Change>> {
    proptest::collection::vec((any::<Index>().prop_map(Argument::Any), replacement()), 1..4)
}

/// A call of a script, word by word.
pub(super) struct Call {
    words: Vec<Option<Vec<u8>>>,
    /// The index of the first argument, which follows the keys.
    start: usize,
}

impl Call {
    /// Parses the bytes of one command.
    pub(super) fn read(command: &[u8]) -> Self {
        let Ok(Value::Array(words)) = ::redis::parse_redis_value(command) else { panic!("not one command") };
        let words: Vec<Vec<u8>> = words
            .into_iter()
            .map(|word| match word {
                Value::BulkString(bytes) => bytes,
                _ => panic!("a word of a command is not a string"),
            })
            .collect();
        let keys: usize = std::str::from_utf8(&words[2]).unwrap().parse().unwrap();
        Self { start: 3 + keys, words: words.into_iter().map(Some).collect() }
    }

    /// Returns the SHA-1 of the script.
    pub(super) fn sha(&self) -> &str {
        std::str::from_utf8(self.words[1].as_ref().unwrap()).unwrap()
    }

    /// Returns the argument with this number, counted from 1 as in the script.
    pub(super) fn argument(&self, number: usize) -> Option<&[u8]> {
        self.words.get(self.start + number - 1)?.as_deref()
    }

    /// Changes arguments, except those for which `must_stay` returns true, given the number and value of the argument.
    pub(super) fn change(&mut self, changes: &[Change], must_stay: impl Fn(usize, &[u8]) -> bool) {
        let is_changeable =
            |index: &usize| !must_stay(index - self.start + 1, self.words[*index].as_deref().unwrap_or_default());
        let changeable: Vec<usize> = (self.start..self.words.len()).filter(is_changeable).collect();
        for (argument, replacement) in changes.iter().filter(|_| !changeable.is_empty()) {
            let index = match argument {
                Argument::Any(random) => changeable[random.index(changeable.len())],
                Argument::Number(number) => self.start + number - 1,
            };
            self.words[index] = match replacement {
                Replacement::Value(bytes) => Some(bytes.clone()),
                Replacement::Around(prefix, suffix) => {
                    Some([prefix.as_slice(), self.words[index].as_deref().unwrap_or_default(), suffix].concat())
                }
                Replacement::Missing => None,
            };
        }
    }

    pub(super) fn command(self) -> Cmd {
        let mut command = Cmd::new();
        for word in self.words.into_iter().flatten() {
            command.arg(word);
        }
        command
    }
}
