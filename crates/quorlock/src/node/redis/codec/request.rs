//! Writes requests as commands, and bundles the requests of a batch: one command for many requests costs a server much
//! less than one command each.

use std::collections::HashMap;
use std::vec::IntoIter;

use quorlock_core::name::hex;
use quorlock_core::node::{Constants, retention_millis};
use quorlock_core::request::{Parting, Request, Target, Waiter};
use quorlock_core::terms::Mode;
use quorlock_core::time::Ttl;

use super::super::resp::{Commands, Value};
use super::super::scripts::companion::{DONE, FENCE, HOLDS, KEPT, QUEUE};
use super::super::scripts::{Script, ServerKind, retired_key, tombstone_prefix};
use super::super::trouble::malformed;
use super::reads_epoch;
use crate::node::event::word_for_break;
use crate::node::key::RESERVED_PREFIX;
use crate::node::{LockKey, Message, Trouble};

/// The most bundled messages of a batch: Lua's `unpack` is limited in length.
const BUNDLED_MAX: usize = 128;

/// The kinds of bundles, in the order in which a batch sends them. The other messages of the batch follow, in their
/// order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BundleKind {
    Release,
    Acquire,
    Renew,
}

impl BundleKind {
    const ALL: [Self; 3] = [Self::Release, Self::Acquire, Self::Renew];
}

/// The reply to a bundle: the node's clock, if the reply has it, and one value for each message.
type Share = (Option<Value>, IntoIter<Value>);

/// The bundle of each message of a batch; empty if there are no bundles.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::node::redis) struct Bundles(Vec<Option<BundleKind>>);

impl Bundles {
    /// Chooses the bundles of a batch. Messages about one name keep their order, so a bundle contains a name at most
    /// once.
    ///
    /// A batch is not bundled if only some of its requests are plain. A batch with a request that leaves a tombstone is
    /// not bundled either: on the server, a tombstone belongs to an attempt or owner and not to a name, so all messages
    /// must keep their order.
    pub(in crate::node::redis) fn of<'a>(messages: &'a [Message]) -> Self {
        let [first, _, ..] = messages else { return Self::default() };
        let is_plain = first.request.is_plain();
        if messages.iter().any(|message| message.request.is_plain() != is_plain || leaves_tombstone(&message.request)) {
            return Self::default();
        }
        let (mut acquired, mut renewed) = (None, None);
        // For each name so far: whether its only message so far is a bundled release.
        let mut seen: HashMap<&'a str, bool> = HashMap::with_capacity(messages.len());
        let choose = |Message { key, request }: &'a Message| {
            let previous = seen.insert(&key.text, false);
            match &**request {
                Request::PlainRelease { .. } | Request::Release { parting: None, .. } if previous.is_none() => {
                    seen.insert(&key.text, true);
                    Some(BundleKind::Release)
                }
                _ if previous == Some(false) => None,
                Request::Acquire { ttl, holder, mode: Mode::EXCLUSIVE, .. } => {
                    (*acquired.get_or_insert((ttl, holder)) == (ttl, holder)).then_some(BundleKind::Acquire)
                }
                request => {
                    let terms = renewal_terms(request)?;
                    (*renewed.get_or_insert(terms) == terms).then_some(BundleKind::Renew)
                }
            }
        };
        let mut bundles = Self(messages.iter().take(BUNDLED_MAX).map(choose).collect());
        bundles.drop_single(BundleKind::Acquire);
        bundles.drop_single(BundleKind::Renew);
        // A release that may have to precede a bundled acquire or renewal stays a bundle, even if it is alone.
        if bundles.count(BundleKind::Acquire) + bundles.count(BundleKind::Renew) == 0 {
            bundles.drop_single(BundleKind::Release);
        }
        if bundles.0.iter().any(Option::is_some) { bundles } else { Self::default() }
    }

    /// Dissolves a bundle of one message.
    fn drop_single(&mut self, kind: BundleKind) {
        if self.count(kind) == 1 {
            self.0.iter_mut().filter(|other| **other == Some(kind)).for_each(|single| *single = None);
        }
    }

    /// Returns the bundle of a message.
    pub(super) fn kind(&self, at: usize) -> Option<BundleKind> {
        self.0.get(at).copied().flatten()
    }

    fn count(&self, kind: BundleKind) -> usize {
        self.0.iter().filter(|other| **other == Some(kind)).count()
    }

    /// Returns the messages of a bundle.
    fn members<'a>(&self, kind: BundleKind, messages: &'a [Message]) -> impl Iterator<Item = &'a Message> {
        messages.iter().zip(&self.0).filter(move |(_, other)| **other == Some(kind)).map(|(message, _)| message)
    }

    /// Returns the number of values in the reply to a batch of this many messages.
    pub(super) fn values(&self, messages: usize) -> usize {
        messages - BundleKind::ALL.map(|kind| self.count(kind).saturating_sub(1)).iter().sum::<usize>()
    }

    /// Takes the replies to the bundles from `values`, one reply for each [`BundleKind`].
    pub(super) fn shares(
        &self,
        is_plain: bool,
        values: &mut impl Iterator<Item = Value>,
    ) -> Result<[Share; 3], Trouble> {
        let mut shares = BundleKind::ALL.map(|_| (None, Vec::new().into_iter()));
        for kind in BundleKind::ALL {
            let count = self.count(kind);
            let has_clock = kind != BundleKind::Release && !is_plain;
            if count == 0 {
                continue;
            }
            shares[kind as usize] = match values.next() {
                // One error applies to the whole bundle.
                Some(error @ Value::Error(_)) => (None, vec![error; count].into_iter()),
                Some(value) if count == 1 => (None, vec![value].into_iter()),
                Some(Value::Array(parts)) if parts.len() == count + usize::from(has_clock) => {
                    let mut parts = parts.into_iter();
                    (if has_clock { parts.next() } else { None }, parts)
                }
                _ => return Err(malformed("a bundle")),
            };
        }
        Ok(shares)
    }

    /// Returns whether this message shares a command with other messages.
    #[cfg(any(test, feature = "fuzzing"))]
    pub(super) fn shares_command(&self, at: usize) -> bool {
        self.kind(at).is_some_and(|kind| self.count(kind) > 1)
    }
}

/// Returns the arguments that all renewals of a bundle must share. Returns `None` for other requests, and for renewals
/// of locks with entries.
fn renewal_terms(request: &Request) -> Option<(Ttl, bool, &str)> {
    match request {
        Request::Renew { ttl, repair, holder, mode: Mode::EXCLUSIVE, .. } => Some((*ttl, *repair, holder)),
        Request::PlainExtend { ttl, .. } => Some((*ttl, false, "")),
        _ => None,
    }
}

fn leaves_tombstone(request: &Request) -> bool {
    matches!(request, Request::Break { .. } | Request::Retire { .. } | Request::Release { tombstone: Some(_), .. })
}

/// Writes a batch for a single server (not for a Redis Cluster), and returns its bundles. `epoch_text` is the content
/// of the epoch key while the incarnation that the client knows may vote. Plain requests do not check the epoch, so a
/// batch with plain requests ends with a read of the epoch.
pub(in crate::node::redis) fn write_batch(
    messages: &[Message],
    epoch_text: &str,
    constants: &Constants,
    commands: &mut Commands,
) -> Bundles {
    let bundles = Bundles::of(messages);
    #[cfg(any(test, feature = "fuzzing"))]
    crate::node::redis::watch::notify_watcher(
        messages.iter().enumerate().map(|(at, message)| (&*message.key.text, bundles.shares_command(at))),
    );
    for kind in BundleKind::ALL {
        match bundles.count(kind) {
            0 => {}
            1 => bundles
                .members(kind, messages)
                .for_each(|message| write_request(message, epoch_text, constants, commands)),
            _ => write_bundle(bundles.members(kind, messages), epoch_text, constants, commands),
        }
    }
    for (_, message) in messages.iter().enumerate().filter(|(at, _)| bundles.kind(*at).is_none()) {
        write_request(message, epoch_text, constants, commands);
    }
    if reads_epoch(messages) {
        commands.command("GET").word(ServerKind::Server.epoch_key());
    }
    bundles
}

/// Writes one request.
pub(in crate::node::redis) fn write_request(
    message: &Message,
    epoch_text: &str,
    constants: &Constants,
    commands: &mut Commands,
) {
    let key = &*message.key;
    let sha = |script| ServerKind::of(key).sha(script);
    match &*message.request {
        Request::Acquire { .. } | Request::Renew { .. } => {
            write_acquire_or_renewal(message, epoch_text, constants, commands);
        }
        Request::Release { attempt, tombstone, parting } => {
            commands.script(sha(Script::Release), 5).word(&key.text);
            write_tombstone(key, attempt.reveal_digits(), commands);
            write_companions(key, &[QUEUE, KEPT, HOLDS], commands);
            match parting {
                Some(Parting::Leave(waiter)) => commands.joined([&b"leave "[..], &format_position(*waiter)]),
                Some(Parting::Yield(waiter)) => commands.joined([&b"yield "[..], &format_position(*waiter)]),
                None => commands.word(""),
            };
            if let Some(tombstone) = tombstone {
                commands.number(*tombstone);
            }
        }
        Request::Retire { owner, tombstone } => {
            commands.script(sha(Script::Release), 5).word(&key.text).word(retired_key(key, *owner));
            write_companions(key, &[QUEUE, KEPT, HOLDS], commands);
            commands.word("").number(*tombstone).word("owner");
        }
        Request::Inspect => {
            commands.script(sha(Script::Inspect), 5).word(&key.text);
            write_companions(key, &[FENCE, QUEUE, KEPT, HOLDS], commands);
        }
        Request::Check { attempt, slot } => {
            let attempt = attempt.reveal_digits();
            commands.script(sha(Script::Check), 4).word(epoch_key(key)).word(&key.text);
            write_tombstone(key, attempt, commands);
            write_companions(key, &[HOLDS], commands);
            commands.word(epoch_text).word(attempt);
            match slot {
                Some(slot) => commands.number(u64::from(*slot)),
                None => commands.word(""),
            };
        }
        Request::Break { target, mode } => {
            commands.script(sha(Script::Break), 5).word(&key.text);
            write_companions(key, &[FENCE, QUEUE, KEPT, HOLDS], commands);
            match target {
                Target::Fence(fence) => commands.word("fence").number(fence.get()),
                Target::Digest(digest) => commands.word("digest").word(digest.digits()),
            };
            commands.word(word_for_break(*mode)).number(constants.max_ttl_millis).word(tombstone_prefix(key));
        }
        Request::PlainAcquire { attempt, ttl } => {
            commands.command("SET").word(&key.text).word(attempt.reveal_digits()).word("NX").word("PX");
            commands.number(ttl.as_millis());
        }
        Request::PlainExtend { attempt, ttl } => {
            commands
                .script(sha(Script::PlainExtend), 1)
                .word(&key.text)
                .word(attempt.reveal_digits())
                .number(ttl.as_millis());
        }
        Request::PlainRelease { attempt } => {
            commands.script(sha(Script::PlainRelease), 1).word(&key.text).word(attempt.reveal_digits());
        }
    }
}

/// Writes a bundle. Arguments that all its requests share are written once.
fn write_bundle<'m>(
    messages: impl Iterator<Item = &'m Message>,
    epoch_text: &str,
    constants: &Constants,
    commands: &mut Commands,
) {
    for (index, Message { key, request }) in messages.enumerate() {
        if index == 0 {
            write_shared_arguments(request, epoch_text, constants, commands);
        }
        commands.word(&key.text).word(request.attempt().reveal_digits());
        match &**request {
            Request::Acquire { proposal, waiter, .. } => {
                commands.number(proposal.get());
                write_position(*waiter, commands);
            }
            Request::Renew { fence, .. } => _ = commands.number(fence.get()),
            _ => {}
        }
    }
}

fn write_shared_arguments(request: &Request, epoch_text: &str, constants: &Constants, commands: &mut Commands) {
    let script = match request {
        Request::Acquire { .. } => Script::AcquireAll,
        Request::Renew { .. } => Script::RenewAll,
        Request::PlainExtend { .. } => Script::PlainExtendAll,
        Request::PlainRelease { .. } => Script::PlainReleaseAll,
        _ => Script::ReleaseAll,
    };
    commands.script(ServerKind::Server.sha(script), 0);
    match request {
        Request::Acquire { ttl, holder, .. } | Request::Renew { ttl, holder, .. } => {
            commands.word(epoch_text).number(ttl.as_millis()).number(constants.max_skew_micros);
            commands.number(retention_millis(constants)).word(&**holder);
        }
        Request::PlainExtend { ttl, .. } => _ = commands.number(ttl.as_millis()),
        _ => {}
    }
    if let Request::Renew { repair, .. } = request {
        commands.word(renewal_verb(*repair));
    }
}

fn write_acquire_or_renewal(message: &Message, epoch_text: &str, constants: &Constants, commands: &mut Commands) {
    let key = &*message.key;
    let (verb, fence, ttl, holder, mode, waiter) = match &*message.request {
        Request::Acquire { proposal, ttl, holder, mode, waiter, .. } => {
            ("acquire", proposal, ttl, holder, *mode, *waiter)
        }
        Request::Renew { fence, ttl, repair, holder, mode, .. } => {
            (renewal_verb(*repair), fence, ttl, holder, *mode, None)
        }
        _ => return,
    };
    let script = if matches!(mode, Mode::Exclusive { .. }) { Script::Acquire } else { Script::Enter };
    // An argument costs the server as much as half a command, so arguments that a mode does not need are omitted.
    let reads_entries = mode != Mode::EXCLUSIVE;
    let owner = mode.owner();
    commands.script(ServerKind::of(key).sha(script), 6 + u64::from(reads_entries) + u64::from(owner.is_some()));
    commands.word(epoch_key(key)).word(&key.text);
    write_companions(key, &[FENCE], commands);
    write_tombstone(key, message.request.attempt().reveal_digits(), commands);
    write_companions(key, &[QUEUE, KEPT], commands);
    if reads_entries {
        write_companions(key, &[HOLDS], commands);
    }
    if let Some(owner) = owner {
        commands.word(retired_key(key, owner));
    }
    commands.word(epoch_text).word(verb).number(fence.get()).number(ttl.as_millis());
    commands.number(constants.max_skew_micros).number(retention_millis(constants)).word(&**holder);
    write_position(waiter, commands);
    match mode {
        Mode::Exclusive { writer: None } => commands,
        Mode::Exclusive { writer: Some(writer) } => commands.word(writer.reveal()),
        Mode::Reentrant { owner } => commands.word(owner.reveal()).word("r"),
        Mode::Shared { owner, reenters } => commands.word(owner.reveal()).word("s").number(u64::from(reenters)),
        Mode::Slot { permits, slot } => commands.number(u64::from(slot)).word("k").number(u64::from(permits)),
    };
}

fn renewal_verb(repair: bool) -> &'static str {
    if repair { "repair" } else { "renew" }
}

/// Returns the key that a script reads the epoch from. In a Redis Cluster, scripts do not read the epoch. They get the
/// key of the vote instead, because all keys of a call must be in one hash slot.
fn epoch_key(key: &LockKey) -> &str {
    match ServerKind::of(key) {
        ServerKind::Server => ServerKind::Server.epoch_key(),
        ServerKind::Cluster => &key.text,
    }
}

/// Writes the keys of a lock's further values, such as its fence.
fn write_companions(key: &LockKey, kinds: &[&str], commands: &mut Commands) {
    let tag = key.tag();
    for kind in kinds {
        commands.joined([RESERVED_PREFIX, kind, &tag, &key.text].map(str::as_bytes));
    }
}

fn write_tombstone(key: &LockKey, attempt: [u8; 32], commands: &mut Commands) {
    commands.joined([RESERVED_PREFIX.as_bytes(), DONE.as_bytes(), key.tag().as_bytes(), &attempt]);
}

/// The largest time with 16 digits.
const AT_MAX: u64 = 9_999_999_999_999_999;
/// The length of a queue position in bytes.
const POSITION_BYTES: usize = 68;

/// Formats a waiter's queue position: `AT-ID KIND CHANNEL`. `AT-ID` is the ticket. `KIND` is `s` for a shared lock, and
/// `x` for another lock.
fn format_position(Waiter { ticket, channel, shared }: Waiter) -> [u8; POSITION_BYTES] {
    let mut position = [b' '; POSITION_BYTES];
    // A node whose clock is past this time cannot grant fences either.
    let mut at = ticket.at.min(AT_MAX);
    for digit in position[..16].iter_mut().rev() {
        *digit = b'0' + (at % 10) as u8;
        at /= 10;
    }
    position[16] = b'-';
    position[17..33].copy_from_slice(&hex(ticket.id.into())[16..]);
    position[34] = if shared { b's' } else { b'x' };
    position[36..].copy_from_slice(&hex(channel.0));
    position
}

/// Writes a waiter's queue position, or an empty word.
fn write_position(waiter: Option<Waiter>, commands: &mut Commands) {
    match waiter {
        Some(waiter) => commands.word(format_position(waiter)),
        None => commands.word(""),
    };
}

#[cfg(test)]
mod tests;
