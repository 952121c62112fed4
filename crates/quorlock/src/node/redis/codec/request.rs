//! Writes requests as commands.

use quorlock_core::name::hex;
use quorlock_core::node::{Constants, retention_millis};
use quorlock_core::request::{Parting, Request, Target, Waiter};
use quorlock_core::terms::Mode;

use super::super::commands::Commands;
use super::super::scripts::companion::{DONE, FENCE, HOLDS, KEPT, QUEUE};
use super::super::scripts::{Script, ServerKind, retired_key, tombstone_prefix};
use super::bundle::{BundleKind, Bundles};
use super::looks_at_epoch;
use crate::node::Message;
use crate::node::event::word_for_break;
use crate::node::key::{LockKey, RESERVED_PREFIX};

/// The arguments that all requests of a batch share.
pub(in crate::node::redis) struct Writer<'a> {
    /// The content of the epoch key while this incarnation may vote.
    pub(in crate::node::redis) epoch_text: &'a str,
    pub(in crate::node::redis) constants: &'a Constants,
}

impl Writer<'_> {
    /// Writes a batch for a server that has all keys, and returns its bundles. Plain requests do not check the epoch,
    /// so a batch with plain requests ends with a read of the epoch.
    pub(in crate::node::redis) fn write_batch(&self, messages: &[Message], commands: &mut Commands) -> Bundles {
        let bundles = Bundles::of(messages);
        #[cfg(any(test, feature = "fuzzing"))]
        crate::node::redis::watch::tell_requests(
            messages.iter().enumerate().map(|(at, message)| (&*message.key.text, bundles.is_shared(at))),
        );
        for kind in BundleKind::ALL {
            match bundles.count(kind) {
                0 => {}
                1 => bundles.members(kind, messages).for_each(|message| self.write(message, commands)),
                _ => self.write_bundle(bundles.members(kind, messages), commands),
            }
        }
        for (_, message) in messages.iter().enumerate().filter(|(at, _)| bundles.kind(*at).is_none()) {
            self.write(message, commands);
        }
        if looks_at_epoch(messages) {
            commands.command("GET").word(ServerKind::Server.epoch_key());
        }
        bundles
    }

    /// Writes one request.
    pub(in crate::node::redis) fn write(&self, message: &Message, commands: &mut Commands) {
        let key = &*message.key;
        let sha = |script| ServerKind::of(key).sha(script);
        match &*message.request {
            Request::Acquire { .. } | Request::Renew { .. } => self.write_vote(message, commands),
            Request::Release { attempt, tombstone, parting } => {
                commands.script(sha(Script::Release), 5).word(&key.text);
                write_tombstone(key, attempt.reveal_digits(), commands);
                write_companions(key, &[QUEUE, KEPT, HOLDS], commands);
                match parting {
                    Some(Parting::Leave(waiter)) => commands.joined([&b"leave "[..], &queue_place(*waiter)]),
                    Some(Parting::Yield(waiter)) => commands.joined([&b"yield "[..], &queue_place(*waiter)]),
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
                commands.word(self.epoch_text).word(attempt);
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
                commands.word(word_for_break(*mode)).number(self.constants.max_ttl_millis).word(tombstone_prefix(key));
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
    fn write_bundle<'m>(&self, messages: impl Iterator<Item = &'m Message>, commands: &mut Commands) {
        for (index, Message { key, request }) in messages.enumerate() {
            if index == 0 {
                self.write_shared(request, commands);
            }
            commands.word(&key.text).word(request.attempt().reveal_digits());
            match &**request {
                Request::Acquire { proposal, waiter, .. } => {
                    commands.number(proposal.get());
                    write_place(*waiter, commands);
                }
                Request::Renew { fence, .. } => _ = commands.number(fence.get()),
                _ => {}
            }
        }
    }

    fn write_shared(&self, request: &Request, commands: &mut Commands) {
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
                commands.word(self.epoch_text).number(ttl.as_millis()).number(self.constants.max_skew_micros);
                commands.number(retention_millis(self.constants)).word(&**holder);
            }
            Request::PlainExtend { ttl, .. } => _ = commands.number(ttl.as_millis()),
            _ => {}
        }
        if let Request::Renew { repair, .. } = request {
            commands.word(renewing(*repair));
        }
    }

    fn write_vote(&self, message: &Message, commands: &mut Commands) {
        let (key, constants) = (&*message.key, self.constants);
        let (verb, fence, ttl, holder, mode, waiter) = match &*message.request {
            Request::Acquire { proposal, ttl, holder, mode, waiter, .. } => {
                ("acquire", proposal, ttl, holder, *mode, *waiter)
            }
            Request::Renew { fence, ttl, repair, holder, mode, .. } => {
                (renewing(*repair), fence, ttl, holder, *mode, None)
            }
            _ => return,
        };
        let script = if matches!(mode, Mode::Exclusive { .. }) { Script::Acquire } else { Script::Enter };
        // An argument costs the server as much as half a command, so empty ones are omitted.
        let has_entries = mode != Mode::EXCLUSIVE;
        let owner = mode.owner();
        commands.script(ServerKind::of(key).sha(script), 6 + u64::from(has_entries) + u64::from(owner.is_some()));
        commands.word(epoch_key(key)).word(&key.text);
        write_companions(key, &[FENCE], commands);
        write_tombstone(key, message.request.attempt().reveal_digits(), commands);
        write_companions(key, &[QUEUE, KEPT], commands);
        if has_entries {
            write_companions(key, &[HOLDS], commands);
        }
        if let Some(owner) = owner {
            commands.word(retired_key(key, owner));
        }
        commands.word(self.epoch_text).word(verb).number(fence.get()).number(ttl.as_millis());
        commands.number(constants.max_skew_micros).number(retention_millis(constants)).word(&**holder);
        write_place(waiter, commands);
        match mode {
            Mode::Exclusive { writer: None } => commands,
            Mode::Exclusive { writer: Some(writer) } => commands.word(writer.reveal()),
            Mode::Reentrant { owner } => commands.word(owner.reveal()).word("r"),
            Mode::Shared { owner, reenters } => commands.word(owner.reveal()).word("s").number(u64::from(reenters)),
            Mode::Slot { permits, slot } => commands.number(u64::from(slot)).word("k").number(u64::from(permits)),
        };
    }
}

fn renewing(repair: bool) -> &'static str {
    if repair { "repair" } else { "renew" }
}

/// Returns the key that a script reads the epoch from. In a Cluster scripts do not read it, and get a key of the right
/// slot instead.
fn epoch_key(key: &LockKey) -> &str {
    match ServerKind::of(key) {
        ServerKind::Server => ServerKind::Server.epoch_key(),
        ServerKind::Cluster => &key.text,
    }
}

fn write_companions(key: &LockKey, which: &[&str], commands: &mut Commands) {
    let tag = key.tag();
    for which in which {
        commands.joined([RESERVED_PREFIX, which, &tag, &key.text].map(str::as_bytes));
    }
}

fn write_tombstone(key: &LockKey, attempt: [u8; 32], commands: &mut Commands) {
    commands.joined([RESERVED_PREFIX.as_bytes(), DONE.as_bytes(), key.tag().as_bytes(), &attempt]);
}

/// The largest time with 16 digits.
const AT_MAX: u64 = 9_999_999_999_999_999;
/// The length of a queue position in bytes.
const PLACE_BYTES: usize = 68;

/// Formats a waiter's ticket and the rest of its queue position: `AT-ID KIND CHANNEL`.
fn queue_place(Waiter { ticket, channel, shared }: Waiter) -> [u8; PLACE_BYTES] {
    let mut place = [b' '; PLACE_BYTES];
    // A clock past this time cannot issue fences either.
    let mut at = ticket.at.min(AT_MAX);
    for digit in place[..16].iter_mut().rev() {
        *digit = b'0' + (at % 10) as u8;
        at /= 10;
    }
    place[16] = b'-';
    place[17..33].copy_from_slice(&hex(ticket.id.into())[16..]);
    place[34] = if shared { b's' } else { b'x' };
    place[36..].copy_from_slice(&hex(channel.0));
    place
}

/// Writes a waiter's queue position, or an empty word.
fn write_place(waiter: Option<Waiter>, commands: &mut Commands) {
    match waiter {
        Some(waiter) => commands.word(queue_place(waiter)),
        None => commands.word(""),
    };
}
