//! Removes published messages from the replies of a server.

/// The beginning of a published message in RESP3. Two strings follow: the channel and the message.
const PREFIX: &[u8] = b">3\r\n$7\r\nmessage\r\n";

/// Removes published messages from the bytes that a server sends on one connection.
#[derive(Default)]
pub(super) struct PushFilter {
    /// The bytes of a message that is not complete yet.
    incomplete: Vec<u8>,
}

impl PushFilter {
    /// Removes published messages. Returns the other bytes, and the number of removed bytes.
    pub(super) fn filter(&mut self, bytes: &[u8]) -> (Vec<u8>, usize) {
        let mut all = std::mem::take(&mut self.incomplete);
        all.extend_from_slice(bytes);
        let (mut kept, mut removed, mut at) = (Vec::new(), 0, 0);
        while at < all.len() {
            let here = &all[at..];
            if here.starts_with(PREFIX) {
                let Some(length) = length(here) else { break };
                removed += length;
                at += length;
            } else if PREFIX.starts_with(here) {
                break;
            } else {
                kept.push(all[at]);
                at += 1;
            }
        }
        self.incomplete = all.split_off(at);
        (kept, removed)
    }

    /// Returns the bytes of an incomplete message, when the filter is switched off.
    pub(super) fn take_incomplete(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.incomplete)
    }
}

/// The length of the message at the beginning of these bytes. `None` if the message is not complete yet.
fn length(message: &[u8]) -> Option<usize> {
    let mut at = PREFIX.len();
    for _ in 0..2 {
        let line = message[at..].windows(2).position(|pair| pair == b"\r\n")?;
        let digits = std::str::from_utf8(&message[at + 1..at + line]).ok()?;
        at += line + 2 + digits.parse::<usize>().ok()? + 2;
    }
    (at <= message.len()).then_some(at)
}
