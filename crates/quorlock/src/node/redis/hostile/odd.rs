//! Arguments that no client of ours would send, in the place of those that it would.

use ::redis::{Cmd, Value};
use proptest::prelude::*;
use proptest::sample::{Index, select};

/// An argument, and what it becomes.
pub(super) type Change = (Which, Odd);

#[derive(Clone, Debug)]
pub(super) enum Which {
    Any(Index),
    /// As the script counts them, from 1.
    Number(usize),
}

#[derive(Clone, Debug)]
pub(super) enum Odd {
    Value(Vec<u8>),
    /// What it was, with something before and behind it.
    Around(Vec<u8>, Vec<u8>),
    Missing,
}

pub(super) fn odd() -> impl Strategy<Value = Odd> {
    let known = [
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
        6 => select(known.map(|text| text.as_bytes().to_vec()).to_vec()),
        2 => proptest::collection::vec(any::<u8>(), 0..40),
        1 => any::<u64>().prop_map(|number| number.to_string().into_bytes()),
        1 => Just(vec![b'a'; 70_000]),
    ];
    let bytes = bytes.boxed();
    prop_oneof![
        6 => bytes.clone().prop_map(Odd::Value),
        1 => (bytes.clone(), bytes).prop_map(|(before, behind)| Odd::Around(before, behind)),
        1 => Just(Odd::Missing),
    ]
}

/// Changes to some arguments of a call.
pub(super) fn changes() -> impl Strategy<Value = Vec<Change>> {
    proptest::collection::vec((any::<Index>().prop_map(Which::Any), odd()), 1..4)
}

/// A call of a script, word by word.
pub(super) struct Call {
    words: Vec<Option<Vec<u8>>>,
    /// Where its arguments begin: behind the keys.
    first: usize,
}

impl Call {
    /// Reads one command as it is sent.
    pub(super) fn read(command: &[u8]) -> Self {
        let Ok(Value::Array(words)) = ::redis::parse_redis_value(command) else { panic!("not one command") };
        let words: Vec<Vec<u8>> = words
            .into_iter()
            .map(|word| match word {
                Value::BulkString(bytes) => bytes,
                _ => panic!("a word that is none"),
            })
            .collect();
        let keys: usize = std::str::from_utf8(&words[2]).unwrap().parse().unwrap();
        Self { first: 3 + keys, words: words.into_iter().map(Some).collect() }
    }

    /// The name by which the server knows the script.
    pub(super) fn sha(&self) -> &str {
        std::str::from_utf8(self.words[1].as_ref().unwrap()).unwrap()
    }

    /// An argument, as the script counts them.
    pub(super) fn argument(&self, number: usize) -> Option<&[u8]> {
        self.words.get(self.first + number - 1)?.as_deref()
    }

    /// Makes changes to all arguments but those that stay, told by their numbers and words.
    pub(super) fn change(&mut self, changes: &[Change], stays: impl Fn(usize, &[u8]) -> bool) {
        let is_changeable = |at: &usize| !stays(at - self.first + 1, self.words[*at].as_deref().unwrap_or_default());
        let changeable: Vec<usize> = (self.first..self.words.len()).filter(is_changeable).collect();
        for (which, odd) in changes.iter().filter(|_| !changeable.is_empty()) {
            let at = match which {
                Which::Any(index) => changeable[index.index(changeable.len())],
                Which::Number(number) => self.first + number - 1,
            };
            self.words[at] = match odd {
                Odd::Value(bytes) => Some(bytes.clone()),
                Odd::Around(before, behind) => {
                    Some([before.as_slice(), self.words[at].as_deref().unwrap_or_default(), behind].concat())
                }
                Odd::Missing => None,
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
