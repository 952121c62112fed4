//! A minimal parser of HTTP replies.

use crate::Failure;

/// A complete reply.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Reply<'a> {
    pub(super) status: u16,
    pub(super) body: &'a str,
}

impl<'a> Reply<'a> {
    /// Parses a reply. `None` if it is not complete yet.
    pub(super) fn read(bytes: &'a [u8]) -> Result<Option<Self>, Failure> {
        let Some(end) = bytes.windows(4).position(|end| end == b"\r\n\r\n") else { return Ok(None) };
        let head = std::str::from_utf8(&bytes[..end])?;
        let mut lines = head.split("\r\n");
        let status = lines.next().and_then(|line| line.strip_prefix("HTTP/1.1 ")?.get(..3)?.parse().ok());
        let status = status.ok_or("the reply is not HTTP")?;
        let length = lines.find_map(|line| line.strip_prefix("content-length: "));
        let length = length.map_or(Ok(0), str::parse::<usize>)?;
        let body = &bytes[end + 4..];
        if body.len() < length {
            return Ok(None);
        }
        Ok(Some(Self { status, body: std::str::from_utf8(body)? }))
    }

    /// The value of a string field of the JSON object in the body. The value must not contain escapes.
    pub(super) fn string_field(&self, key: &str) -> Option<&'a str> {
        let (_, rest) = self.body.split_once(key)?;
        let (text, _) = rest.strip_prefix("\":\"")?.split_once('"')?;
        Some(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_is_read_once_it_is_complete() {
        let bytes =
            b"HTTP/1.1 201 Created\r\ncontent-type: x\r\ncontent-length: 13\r\ndate: y\r\n\r\n{\"a\":\"b.c/d\"}";
        for cut in 0..bytes.len() {
            assert_eq!(Reply::read(&bytes[..cut]).unwrap(), None, "cut at {cut}");
        }
        let reply = Reply::read(bytes).unwrap().unwrap();
        assert_eq!((reply.status, reply.string_field("a"), reply.string_field("b")), (201, Some("b.c/d"), None));
    }

    #[test]
    fn a_reply_may_have_no_body() {
        let reply = Reply::read(b"HTTP/1.1 204 No Content\r\n\r\n").unwrap();
        assert_eq!(reply, Some(Reply { status: 204, body: "" }));
        assert!(Reply::read(b"+OK\r\n\r\n").is_err());
    }
}
