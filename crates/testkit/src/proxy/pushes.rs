//! Published messages among the replies of a server.

/// How a message that was published begins in RESP3: two strings follow, the channel and what was said.
const BEGINNING: &[u8] = b">3\r\n$7\r\nmessage\r\n";

/// Takes published messages out of one connection's replies.
#[derive(Default)]
pub(super) struct Pushes {
    /// The beginning of one whose end has not been read yet.
    rest: Vec<u8>,
}

impl Pushes {
    /// Returns the remaining bytes, and how many were removed.
    pub(super) fn strip(&mut self, bytes: &[u8]) -> (Vec<u8>, usize) {
        let mut all = std::mem::take(&mut self.rest);
        all.extend_from_slice(bytes);
        let (mut kept, mut taken, mut at) = (Vec::new(), 0, 0);
        while at < all.len() {
            let here = &all[at..];
            if here.starts_with(BEGINNING) {
                let Some(length) = length(here) else { break };
                taken += length;
                at += length;
            } else if BEGINNING.starts_with(here) {
                break;
            } else {
                kept.push(all[at]);
                at += 1;
            }
        }
        self.rest = all.split_off(at);
        (kept, taken)
    }

    /// Takes the bytes of an incomplete message. From now on everything passes.
    pub(super) fn take_rest(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.rest)
    }
}

/// The length of the message that begins here, once all of it is there.
fn length(message: &[u8]) -> Option<usize> {
    let mut at = BEGINNING.len();
    for _ in 0..2 {
        let line = message[at..].windows(2).position(|pair| pair == b"\r\n")?;
        let digits = std::str::from_utf8(&message[at + 1..at + line]).ok()?;
        at += line + 2 + digits.parse::<usize>().ok()? + 2;
    }
    (at <= message.len()).then_some(at)
}
