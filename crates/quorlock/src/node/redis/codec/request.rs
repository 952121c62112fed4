//! Requests into commands.

use std::cell::OnceCell;

use quorlock_core::fence::Fence;
use quorlock_core::mode::{Mode, OwnerId};
use quorlock_core::name::hex;
use quorlock_core::node::{Constants, retention_millis};
use quorlock_core::ticket::{Parting, Waiter};
use quorlock_core::time::Ttl;
use quorlock_core::vote::{BreakMode, Request, Target};

use super::super::commands::{Commands, DIGITS_MAX, Words, decimal};
use super::super::scripts::companion::{DONE, FENCE, HOLDS, KEPT, QUEUE};
use super::super::scripts::{Home, Scripts, retired_key, tombstone_prefix};
use super::bundle::{Bundles, Chosen};
use super::{EpochMark, looks_at_epoch, mark};
use crate::node::key::{LockKey, RESERVED_PREFIX};
use crate::node::{Life, Message};

/// What all requests of a batch have in common.
pub(in crate::node::redis) struct Writer<'a> {
    life: Option<Life>,
    /// What the epoch key holds while this life may vote; plain requests have no use for it.
    mark: OnceCell<EpochMark>,
    constants: &'a Constants,
}

/// Adds a batch as one write, and says what goes together in it. Plain requests know nothing of epochs, so a batch with any
/// of them ends with a look at it.
pub(in crate::node::redis) fn batch(
    life: Option<Life>,
    messages: &[Message],
    constants: &Constants,
    commands: &mut Commands,
) -> Bundles {
    let writer = Writer::new(life, constants);
    let bundles = Bundles::of(messages);
    #[cfg(any(test, feature = "fuzzing"))]
    crate::node::redis::watch::tell_requests(
        messages.iter().enumerate().map(|(at, message)| (&*message.key.text, bundles.is_shared(at))),
    );
    match bundles.releases.count() {
        0 => {}
        1 => bundles.releases.of(messages).for_each(|message| writer.write(message, commands)),
        _ => commands.add(|words| compose_releases(messages, bundles.releases, words)),
    }
    if !bundles.acquires.is_empty() {
        commands.add(|words| writer.compose_acquires(messages, bundles.acquires, words));
    }
    if !bundles.renewals.is_empty() {
        commands.add(|words| writer.compose_renewals(messages, bundles.renewals, words));
    }
    for (_, message) in messages.iter().enumerate().filter(|(at, _)| !bundles.has(*at)) {
        writer.write(message, commands);
    }
    if looks_at_epoch(messages) {
        commands.add(|words| {
            words.word("GET").word(&Home::Server.scripts().epoch_key);
        });
    }
    bundles
}

/// Releases that go together: all of them plain, or none.
fn compose_releases(messages: &[Message], chosen: Chosen, words: &mut Words) {
    let scripts = Home::Server.scripts();
    let is_plain = chosen.of(messages).all(|message| message.request.is_plain());
    let script = if is_plain { &scripts.plain_release_all } else { &scripts.release_all };
    words.word("EVALSHA").word(&script.sha).word("0");
    for message in chosen.of(messages) {
        words.word(&message.key.text).word(message.request.attempt().reveal_digits());
    }
}

impl<'a> Writer<'a> {
    pub(in crate::node::redis) fn new(life: Option<Life>, constants: &'a Constants) -> Self {
        Self { life, mark: OnceCell::new(), constants }
    }

    fn mark(&self) -> &EpochMark {
        self.mark.get_or_init(|| mark(self.life))
    }

    /// Adds one request.
    pub(in crate::node::redis) fn write(&self, message: &Message, commands: &mut Commands) {
        commands.add(|words| self.compose(message, words));
    }

    fn compose(&self, message: &Message, words: &mut Words) {
        let key = &*message.key;
        let scripts = Home::of(key).scripts();
        let keys = Keys { key, tag: key.tag() };
        match &*message.request {
            Request::Acquire { proposal, ttl, holder, mode, waiter, .. } => {
                let bid = Bid { verb: "acquire", fence: *proposal, ttl: *ttl, holder, mode: *mode, waiter: *waiter };
                self.vote(&keys, message, &bid, words);
            }
            Request::Renew { fence, ttl, repair, holder, mode, .. } => {
                let bid = Bid { verb: renewing(*repair), fence: *fence, ttl: *ttl, holder, mode: *mode, waiter: None };
                self.vote(&keys, message, &bid, words);
            }
            Request::Release { attempt, tombstone, parting } => {
                words.word("EVALSHA").word(&scripts.release.sha).word("5").word(&key.text);
                keys.tombstone(attempt.reveal_digits(), words);
                keys.companions(&[QUEUE, KEPT, HOLDS], words);
                match parting {
                    Some(Parting::Leave(waiter)) => words.joined([b"leave ".as_slice(), &place_in_queue(*waiter)]),
                    Some(Parting::Yield(waiter)) => words.joined([b"yield ".as_slice(), &place_in_queue(*waiter)]),
                    None => words.word(""),
                };
                if let Some(tombstone) = tombstone {
                    words.number(*tombstone);
                }
            }
            Request::Retire { owner, tombstone } => {
                words.word("EVALSHA").word(&scripts.release.sha).word("5").word(&key.text);
                keys.retired(*owner, words);
                keys.companions(&[QUEUE, KEPT, HOLDS], words);
                words.word("").number(*tombstone).word("owner");
            }
            Request::Inspect => {
                words.word("EVALSHA").word(&scripts.inspect.sha).word("5").word(&key.text);
                keys.companions(&[FENCE, QUEUE, KEPT, HOLDS], words);
            }
            Request::Check { attempt, slot } => {
                let attempt = attempt.reveal_digits();
                words.word("EVALSHA").word(&scripts.check.sha).word("4").word(keys.mark()).word(&key.text);
                keys.tombstone(attempt, words);
                keys.companions(&[HOLDS], words);
                words.word(self.mark()).word(attempt);
                match slot {
                    Some(slot) => words.number(u64::from(*slot)),
                    None => words.word(""),
                };
            }
            Request::Break { target, mode } => {
                words.word("EVALSHA").word(&scripts.breaking.sha).word("5").word(&key.text);
                keys.companions(&[FENCE, QUEUE, KEPT, HOLDS], words);
                match target {
                    Target::Fence(fence) => words.word("fence").number(fence.get()),
                    Target::Digest(digest) => words.word("digest").word(digest.digits()),
                };
                words.word(match mode {
                    BreakMode::Drain => "drain",
                    BreakMode::Now => "now",
                });
                words.number(self.constants.max_ttl_millis).word(tombstone_prefix(key));
            }
            Request::PlainAcquire { attempt, ttl } => {
                words.word("SET").word(&key.text).word(attempt.reveal_digits()).word("NX").word("PX");
                words.number(ttl.as_millis());
            }
            Request::PlainExtend { attempt, ttl } => {
                plain(&scripts.plain_extend.sha, key, attempt.reveal_digits(), words).number(ttl.as_millis());
            }
            Request::PlainRelease { attempt } => {
                plain(&scripts.plain_release.sha, key, attempt.reveal_digits(), words);
            }
        }
    }

    /// Acquires that go together: of one ttl and one holder, exclusive.
    fn compose_acquires(&self, messages: &[Message], chosen: Chosen, words: &mut Words) {
        words.word("EVALSHA").word(&Home::Server.scripts().acquire_all.sha).word("0");
        let mut is_first = true;
        for message in chosen.of(messages) {
            let Request::Acquire { attempt, proposal, ttl, holder, waiter, .. } = &*message.request else { continue };
            if std::mem::take(&mut is_first) {
                words.word(self.mark()).number(ttl.as_millis()).number(self.constants.max_skew_micros);
                words.number(retention_millis(self.constants)).word(&**holder);
            }
            words.word(&message.key.text).word(attempt.reveal_digits()).number(proposal.get());
            match waiter {
                Some(waiter) => words.word(place_in_queue(*waiter)),
                None => words.word(""),
            };
        }
    }

    /// Renewals that go together: on the same terms, and all of them plain, or none.
    fn compose_renewals(&self, messages: &[Message], chosen: Chosen, words: &mut Words) {
        let Scripts { renew_all, plain_extend_all, .. } = Home::Server.scripts();
        let mut is_first = true;
        for message in chosen.of(messages) {
            let is_first = std::mem::take(&mut is_first);
            match &*message.request {
                Request::Renew { ttl, holder, repair, .. } if is_first => {
                    words.word("EVALSHA").word(&renew_all.sha).word("0").word(self.mark());
                    words.number(ttl.as_millis()).number(self.constants.max_skew_micros);
                    words.number(retention_millis(self.constants)).word(&**holder).word(renewing(*repair));
                }
                Request::PlainExtend { ttl, .. } if is_first => {
                    words.word("EVALSHA").word(&plain_extend_all.sha).word("0").number(ttl.as_millis());
                }
                _ => {}
            }
            words.word(&message.key.text).word(message.request.attempt().reveal_digits());
            if let Request::Renew { fence, .. } = &*message.request {
                words.number(fence.get());
            }
        }
    }

    fn vote(&self, keys: &Keys<'_>, message: &Message, bid: &Bid<'_>, words: &mut Words) {
        let (mark, constants) = (self.mark(), self.constants);
        let Scripts { acquire, enter, .. } = Home::of(keys.key).scripts();
        let script = if matches!(bid.mode, Mode::Exclusive { .. }) { acquire } else { enter };
        // An argument costs the server as much as half a command: those that have nothing to say are left out.
        let has_entries = bid.mode != Mode::EXCLUSIVE;
        let owner = bid.mode.owner();
        words.word("EVALSHA").word(&script.sha).number(6 + u64::from(has_entries) + u64::from(owner.is_some()));
        words.word(keys.mark()).word(&keys.key.text);
        keys.companions(&[FENCE], words);
        keys.tombstone(message.request.attempt().reveal_digits(), words);
        keys.companions(&[QUEUE, KEPT], words);
        if has_entries {
            keys.companions(&[HOLDS], words);
        }
        if let Some(owner) = owner {
            keys.retired(owner, words);
        }
        words.word(mark).word(bid.verb).number(bid.fence.get()).number(bid.ttl.as_millis());
        words.number(constants.max_skew_micros).number(retention_millis(constants)).word(bid.holder);
        match bid.waiter {
            Some(waiter) => words.word(place_in_queue(waiter)),
            None => words.word(""),
        };
        match bid.mode {
            Mode::Exclusive { writer: None } => words,
            Mode::Exclusive { writer: Some(writer) } => words.word(writer.reveal()),
            Mode::Reentrant { owner } => words.word(owner.reveal()).word("r"),
            Mode::Shared { owner, reenters } => words.word(owner.reveal()).word("s").number(u64::from(reenters)),
            Mode::Slot { permits, slot } => words.number(u64::from(slot)).word("k").number(u64::from(permits)),
        };
    }
}

fn renewing(repair: bool) -> &'static str {
    if repair { "repair" } else { "renew" }
}

fn plain<'a>(sha: &str, key: &LockKey, attempt: [u8; 32], words: &'a mut Words) -> &'a mut Words {
    words.word("EVALSHA").word(sha).word("1").word(&key.text).word(attempt)
}

/// What an acquire and a renewal have in common.
struct Bid<'a> {
    verb: &'static str,
    fence: Fence,
    ttl: Ttl,
    holder: &'a str,
    mode: Mode,
    waiter: Option<Waiter>,
}

/// The keys of a name.
struct Keys<'a> {
    key: &'a LockKey,
    tag: String,
}

impl Keys<'_> {
    /// Where a script finds the epoch's mark. One that must not look at it is given a key that lives with the others.
    fn mark(&self) -> &str {
        match Home::of(self.key) {
            Home::Server => &Home::Server.scripts().epoch_key,
            Home::Cluster => &self.key.text,
        }
    }

    fn companions(&self, which: &[&str], words: &mut Words) {
        for which in which {
            let parts = [RESERVED_PREFIX, which, &self.tag, &self.key.text];
            words.joined(parts.map(str::as_bytes));
        }
    }

    fn tombstone(&self, digits: [u8; 32], words: &mut Words) {
        words.joined([RESERVED_PREFIX.as_bytes(), DONE.as_bytes(), self.tag.as_bytes(), &digits]);
    }

    fn retired(&self, owner: OwnerId, words: &mut Words) {
        words.word(retired_key(self.key, owner));
    }
}

const AT_DIGITS: usize = 16;
const PLACE_LENGTH: usize = AT_DIGITS + 1 + 16 + 3 + 32;
/// The last time that has so many digits.
const AT_MAX: u64 = 9_999_999_999_999_999;

/// A waiter's ticket and the rest of its place in the queue: `AT-ID KIND CHANNEL`, always of the same length.
fn place_in_queue(Waiter { ticket, channel, shared }: Waiter) -> [u8; PLACE_LENGTH] {
    let (mut place, mut room) = ([b'0'; PLACE_LENGTH], [0; DIGITS_MAX]);
    // Clocks that have run past that have no fences to give either.
    let at = decimal(ticket.at.min(AT_MAX), &mut room);
    place[AT_DIGITS - at.len()..AT_DIGITS].copy_from_slice(at);
    let (id, kind) = (hex(u128::from(ticket.id)), if shared { b"s" } else { b"x" });
    let mut end = AT_DIGITS;
    for part in [b"-".as_slice(), &id[16..], b" ", kind, b" ", &hex(channel.0)] {
        place[end..end + part.len()].copy_from_slice(part);
        end += part.len();
    }
    place
}
