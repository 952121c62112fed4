//! Counts RESP replies without parsing their contents.

/// Counts the complete RESP messages in a stream of bytes.
#[derive(Default)]
pub(crate) struct ReplyCounter {
    /// The bytes of a message that is not complete yet.
    incomplete: Vec<u8>,
    count: u64,
}

impl ReplyCounter {
    /// The number of complete messages so far.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// Adds bytes of the stream.
    pub(crate) fn add(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.incomplete.extend_from_slice(bytes);
        let mut start = 0;
        while let Some(length) = reply_length(&self.incomplete[start..])? {
            start += length;
            self.count += 1;
        }
        self.incomplete.drain(..start);
        Ok(())
    }
}

/// The length of the first reply. `None` if the reply is not complete. Fails on an error reply, because the figures of
/// failed cycles mean nothing.
fn reply_length(bytes: &[u8]) -> std::io::Result<Option<usize>> {
    let Some(line) = bytes.windows(2).position(|end| end == b"\r\n") else {
        return Ok(None);
    };
    let (head, mut end) = (&bytes[..line], line + 2);
    let count = || std::str::from_utf8(&head[1..]).ok().and_then(|digits| digits.parse::<i64>().ok());
    match head.first() {
        Some(b'+' | b':' | b'_' | b'#' | b',' | b'(') => {}
        Some(b'$' | b'=') => {
            let length = count().ok_or(std::io::ErrorKind::InvalidData)?;
            end += usize::try_from(length).map_or(0, |length| length + 2);
        }
        Some(kind @ (b'*' | b'%' | b'~' | b'>')) => {
            let parts_per_entry = if *kind == b'%' { 2 } else { 1 };
            for _ in 0..count().ok_or(std::io::ErrorKind::InvalidData)? * parts_per_entry {
                match reply_length(&bytes[end..])? {
                    Some(length) => end += length,
                    None => return Ok(None),
                }
            }
        }
        _ => return Err(std::io::Error::other(String::from_utf8_lossy(head).into_owned())),
    }
    Ok((end <= bytes.len()).then_some(end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_are_counted_at_any_split() {
        let bytes =
            b"+OK\r\n:1\r\n$-1\r\n$2\r\n\r\n\r\n*3\r\n:1\r\n*1\r\n+a\r\n$1\r\nb\r\n*-1\r\n%1\r\n+a\r\n=5\r\ntxt:b\r\n";
        for cut in 0..=bytes.len() {
            let mut replies = ReplyCounter::default();
            replies.add(&bytes[..cut]).unwrap();
            replies.add(&bytes[cut..]).unwrap();
            assert_eq!(replies.count(), 7, "cut at {cut}");
        }
    }

    #[test]
    fn an_error_reply_is_an_error() {
        let received = ReplyCounter::default().add(b"-NOSCRIPT no script\r\n");
        assert_eq!(received.unwrap_err().to_string(), "-NOSCRIPT no script");
    }
}
