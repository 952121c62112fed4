//! Roster commands with arguments that no client of ours would send. The script must refuse them, or do exactly what
//! the core does for these arguments: otherwise a node could vote too early, or never again.

use std::cell::RefCell;
use std::sync::Arc;

use ::redis::{Client, Connection, ConnectionLike, Value};
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::{Config, TestCaseResult, TestRunner};
use quorlock_core::name::{Channel, hex_digits};
use quorlock_core::node::roster::{
    Ballot, Change, ClusterId, Electorate, Life, Membership, Promise, Proposal, Roster, RosterCommand, Settings,
    apply_roster,
};
use quorlock_core::node::{Identity, NodeTime};
use quorlock_core::quorum::MemberId;
use quorlock_testkit::RedisServer;
use tokio::runtime::Runtime;

use super::changed_call::{Argument, Call, Change as ArgumentChange, Replacement, changes};
use super::{constants, runtime};
use crate::node::RequestReply;
use crate::node::membership_text::{parse_roster, write_roster};
use crate::node::redis::resp::Commands;
use crate::node::redis::scripts::ServerKind;
use crate::node::redis::{RedisNode, codec};

const THIS: MemberId = MemberId(0xa1);
const LIFE: Life = Life(0xb1);
const BALLOT: Ballot = Ballot { round: 5, bits: 0xc1 };

/// The state of the node before the hostile command.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Before {
    Blank,
    Identified,
    Quarantined,
    /// Half of its quarantine has passed.
    HalfWay,
    Voting,
    /// It has accepted a successor.
    Accepted,
    /// It is no member any more.
    Left,
}

fn first() -> Roster {
    let settings = Settings {
        max_ttl_millis: 60_000,
        max_skew_micros: 10_000_000,
        key_template: "locks of \u{9501}/{name}".into(),
        trusts_restarts: false,
    };
    let seats =
        [(THIS, "this:6379/0".into()), (MemberId(0xa2), "[::1]:2/0".into()), (MemberId(0xa3), "\u{fc}:3/0".into())];
    Roster::of_every_seat(ClusterId(0xd1), 1, seats.into(), settings, None).unwrap()
}

fn second() -> Roster {
    first().successor(&Change::replace(MemberId(0xa2), MemberId(0xa4), "four:4/0".into())).unwrap()
}

fn without_this() -> Roster {
    first().successor(&Change::replace(THIS, MemberId(0xa4), "four:4/0".into())).unwrap()
}

fn identify(run: &str) -> RosterCommand {
    let (identity, member, life) = (Identity { run: run.into(), promotion: "a:1+b:2".into() }, THIS, LIFE);
    RosterCommand::Identify { identity, member, life, floor_offset: -5 }
}

fn promise(electorate: Electorate) -> RosterCommand {
    RosterCommand::Promise { promise: Promise { generation: 2, ballot: BALLOT }, electorate }
}

fn accept() -> RosterCommand {
    RosterCommand::Accept(Proposal { ballot: BALLOT, roster: Arc::new(second()) })
}

fn install(roster: Roster) -> RosterCommand {
    RosterCommand::Install(Arc::new(roster))
}

fn claim(elapsed_micros: u64) -> RosterCommand {
    RosterCommand::Claim { life: LIFE, since: 1, elapsed_micros }
}

/// Returns valid commands, whose arguments a hostile client then changes.
fn roster_commands() -> Vec<RosterCommand> {
    vec![
        identify("run"),
        identify("another"),
        promise(Electorate::Members),
        promise(Electorate::Seats),
        accept(),
        install(first()),
        install(second()),
        install(without_this()),
        RosterCommand::Settle { generation: 1 },
        claim(1),
        claim(first().quarantine_micros()),
    ]
}

/// Returns the call of each of these commands.
pub(super) fn calls() -> impl Iterator<Item = Call> {
    roster_commands().into_iter().map(|command| call(&command))
}

fn call(command: &RosterCommand) -> Call {
    let mut commands = Commands::default();
    codec::roster_command(ServerKind::Server, command, &mut commands);
    Call::read(commands.as_bytes())
}

/// Parses the arguments of a call. Returns `None` if one of them would not be written like this.
fn command_of(call: &Call) -> Option<RosterCommand> {
    let word = |number| std::str::from_utf8(call.argument(number)?).ok();
    let number = |at| {
        let number: u64 = word(at)?.parse().ok()?;
        Some(number).filter(|number| Some(number.to_string().as_str()) == word(at))
    };
    let ballot = |at| {
        let digits = hex_digits::<32>(word(at)?)?;
        Some(Ballot { round: (digits >> 64) as u64, bits: digits as u64 })
    };
    let life = |at| Some(Life(hex_digits::<16>(word(at)?)? as u64));
    let roster = |at| Some(Arc::new(parse_roster(word(at)?)?));
    Some(match word(1)? {
        "identify" => RosterCommand::Identify {
            identity: Identity { run: word(2)?.into(), promotion: word(3)?.into() },
            member: MemberId(hex_digits::<32>(word(4)?)?),
            life: life(5)?,
            floor_offset: word(6)?.parse().ok()?,
        },
        "promise" => RosterCommand::Promise {
            promise: Promise { generation: number(2)?, ballot: ballot(3)? },
            electorate: match word(4)? {
                "members" => Electorate::Members,
                "seats" => Electorate::Seats,
                _ => return None,
            },
        },
        "accept" => RosterCommand::Accept(Proposal { ballot: ballot(2)?, roster: roster(3)? }),
        "install" => RosterCommand::Install(roster(2)?),
        "settle" => RosterCommand::Settle { generation: number(2)? },
        "claim" => RosterCommand::Claim { life: life(2)?, since: number(3)?, elapsed_micros: number(4)? },
        _ => return None,
    })
}

/// A node, with a session of a client, and a connection for the changed calls.
struct Bench<'a> {
    server: &'a RedisServer,
    node: RedisNode,
    session: RequestReply,
    raw: Connection,
}

impl<'a> Bench<'a> {
    async fn open(server: &'a RedisServer) -> Self {
        let node = RedisNode::at(&server.url(), constants());
        let session = RequestReply::open(&node, Channel(0)).await.unwrap();
        Self { server, node, session, raw: Client::open(server.url()).unwrap().get_connection().unwrap() }
    }

    /// Sends a command, and parses the reply as every client does.
    async fn ask(&mut self, command: RosterCommand) -> Result<Option<Membership>, TestCaseError> {
        match self.session.roster_command(command.clone()).await {
            Ok((answer, _)) => Ok(answer.membership),
            Err(trouble) => {
                // Reconnect, so that proptest can look for a shorter failing case.
                self.session = RequestReply::open(&self.node, Channel(0)).await.unwrap();
                Err(TestCaseError::fail(format!("{command:?} ends the connection: {trouble:?}")))
            }
        }
    }

    async fn prepare(&mut self, before: Before) -> Result<Option<Membership>, TestCaseError> {
        self.server.command(&["FLUSHALL"]);
        let whole = first().quarantine_micros();
        let commands = match before {
            Before::Blank => vec![],
            Before::Identified => vec![identify("run")],
            Before::Quarantined => vec![identify("run"), install(first())],
            Before::HalfWay => vec![identify("run"), install(first()), claim(whole / 2)],
            Before::Voting => vec![identify("run"), install(first()), claim(whole)],
            Before::Accepted => {
                let promise = promise(Electorate::Members);
                vec![identify("run"), install(first()), claim(whole), promise, accept()]
            }
            Before::Left => vec![identify("run"), install(first()), claim(whole), install(without_this())],
        };
        for command in commands {
            self.ask(command).await?;
        }
        self.ask(RosterCommand::Read).await
    }

    /// Sends a changed call. Returns whether the script refused it.
    async fn run(
        &mut self,
        before: Before,
        command: &RosterCommand,
        changes: &[ArgumentChange],
    ) -> Result<bool, TestCaseError> {
        let mut expected = self.prepare(before).await?;
        let mut call = call(command);
        call.change(changes, |_, _| false);
        let command = command_of(&call);
        let answered = self.raw.req_command(&call.command()).and_then(Value::extract_error);
        let after = self.ask(RosterCommand::Read).await?;
        let Ok(answered) = answered else {
            prop_assert_eq!(after, expected, "the command failed, but changed the node");
            return Ok(true);
        };
        let Value::Array(parts) = &answered else { return Err(TestCaseError::fail(format!("{answered:?}"))) };
        let (Value::Int(accepted), Value::Int(at)) = (&parts[0], &parts[1]) else { panic!("{answered:?}") };
        prop_assert!(command.is_some(), "executed, but not readable: {:?}", after);
        let command = command.unwrap();
        let answer = apply_roster(&mut expected, &command, NodeTime::wall(at.unsigned_abs()));
        prop_assert_eq!((*accepted == 1, after), (answer.accepted, expected), "{:?}", command);
        Ok(false)
    }
}

fn with_bench(test: impl Fn(&Runtime, &RefCell<Bench<'_>>)) {
    let (runtime, server) = (runtime(), RedisServer::start());
    let bench = RefCell::new(runtime.block_on(Bench::open(&server)));
    test(&runtime, &bench);
}

#[test]
fn changed_arguments_are_refused_or_have_the_effect_that_the_core_gives_them() {
    with_bench(|runtime, bench| {
        let before = select(vec![
            Before::Blank,
            Before::Identified,
            Before::Quarantined,
            Before::HalfWay,
            Before::Voting,
            Before::Accepted,
            Before::Left,
        ]);
        let config = Config { failure_persistence: None, ..Config::default() };
        TestRunner::new(config)
            .run(&(before, select(roster_commands()), changes()), |(before, command, changes)| -> TestCaseResult {
                runtime.block_on(bench.borrow_mut().run(before, &command, &changes)).map(drop)
            })
            .unwrap_or_else(|failure| panic!("{failure}"));
    });
}

#[test]
fn arguments_that_would_not_be_read_as_written_are_refused() {
    let text = write_roster(&first());
    let with = |old: &str, new: &str| {
        assert!(text.contains(old), "{old:?}");
        text.replacen(old, new, 1).into_bytes()
    };
    let mut rosters = vec![
        with("1 60000 1", "0 60000 1"),
        with("1 60000 1", "01 60000 1"),
        with(" 60000 1", " nan 1"),
        with(" 60000 1", " 1e3 1"),
        with(" 60000\t", " 1000000000000\t"),
        with(" 0 60000", " 2 60000"),
        with("00d1", "00D1"),
        with("00d1", "0d1"),
        with("00a1 1 ", "00a1 -1 "),
        with("00a1 1 ", "00a1 1"),
        with("\t000", "\n000"),
        with("\t\t", "\t1\t"),
        with("this", "th\0s"),
        with("this", "th\ns"),
        with("this", "th\u{7f}s"),
        with("this", "th\u{85}s"),
        text.split("\t0").next().unwrap().into(),
        text.clone().into_bytes()[1..].into(),
        [text.as_bytes(), b"\t"].concat(),
        Vec::new(),
    ];
    // Bytes that are not UTF-8: a lone byte, an overlong character, a surrogate, and a character after the last one.
    for bytes in [&b"\xff"[..], b"\xc3", b"\x80", b"\xc0\xaf", b"\xe0\x80\xaf", b"\xed\xa0\x80", b"\xf4\x90\x80\x80"] {
        rosters.push([text.as_bytes(), bytes].concat());
    }
    let numbers = ["", "inf", "1e15", "nan", "-1", "01", "+1", " 1", "1000000000000000", "99999999999999999999", "\n"];
    let numbers = || numbers.map(|number| number.as_bytes().to_vec()).into_iter();
    let ids = || {
        let id = format!("{:032x}", 0xa1);
        [id.to_uppercase(), id[1..].into(), format!("0{id}"), format!("{id}\n"), "z".repeat(32)].map(String::into_bytes)
    };
    let lives =
        ["", "B1", "00000000000000B1", "0000000000000b1", "zzzzzzzzzzzzzzzz"].map(|life| life.as_bytes().to_vec());
    let words = ["a b", "a\nb", "\0", "\u{9501}"].map(|word| word.as_bytes().to_vec());
    let mut refused: Vec<(RosterCommand, usize, Vec<u8>)> = Vec::new();
    refused.extend(rosters.iter().map(|roster| (install(first()), 2, roster.clone())));
    refused.extend(rosters.into_iter().map(|roster| (accept(), 3, roster)));
    refused.extend(numbers().flat_map(|number| [(claim(1), 3, number.clone()), (claim(1), 4, number)]));
    refused.extend(numbers().map(|number| (RosterCommand::Settle { generation: 1 }, 2, number)));
    refused.extend(numbers().map(|number| (promise(Electorate::Seats), 2, number)));
    refused.extend(numbers().filter(|number| number != b"-1").map(|number| (identify("run"), 6, number)));
    refused.extend(lives.into_iter().flat_map(|life| [(claim(1), 2, life.clone()), (identify("run"), 5, life)]));
    refused.extend(ids().into_iter().flat_map(|id| [(identify("run"), 4, id.clone()), (accept(), 2, id)]));
    refused.extend(ids().into_iter().map(|id| (promise(Electorate::Members), 3, id)));
    refused.extend(words.into_iter().flat_map(|word| [(identify("run"), 2, word.clone()), (identify("run"), 3, word)]));
    refused.extend([(identify("run"), 2, Vec::new()), (promise(Electorate::Seats), 4, b"x".to_vec())]);
    with_bench(|runtime, bench| {
        for (command, number, value) in &refused {
            let changes = [(Argument::Number(*number), Replacement::Value(value.clone()))];
            for before in [Before::Blank, Before::HalfWay, Before::Accepted] {
                let is_refused = runtime.block_on(bench.borrow_mut().run(before, command, &changes));
                let value = String::from_utf8_lossy(value);
                assert!(
                    matches!(is_refused, Ok(true)),
                    "{value:?} as argument {number} of {command:?}, {before:?}: {is_refused:?}"
                );
            }
        }
    });
}
