//! Where a RESP3 value ends.

/// The most bytes of one value: twice a whole history with the longest of everything.
pub(super) const VALUE_BYTES_MAX: usize = 32 * 1024 * 1024;
/// The most bytes of a line: a number, a short text, an error.
const LINE_BYTES_MAX: usize = 64 * 1024;
/// The most values inside one. In memory each takes many times the three bytes in which it can be sent.
const PARTS_MAX: usize = 512 * 1024;

/// Looks for the end of the first value in bytes that are still coming in: what it has seen is not looked at again,
/// however small the pieces.
#[derive(Debug)]
pub(super) struct Measure {
    /// Everything before this belongs to the value.
    at: usize,
    /// How many values are still to come, counting those inside others.
    left: usize,
    /// How many there are in all, as far as is known.
    parts: usize,
}

impl Default for Measure {
    fn default() -> Self {
        Self { at: 0, left: 1, parts: 1 }
    }
}

impl Measure {
    /// The length of the first value; `None` when more bytes are needed to tell, which then come behind these. After a
    /// length, the next value is looked for in bytes that begin with it.
    ///
    /// # Errors
    /// Says what is wrong with bytes that are not RESP.
    pub(super) fn look(&mut self, bytes: &[u8]) -> Result<Option<usize>, &'static str> {
        while self.left > 0 {
            let Some(rest) = bytes.get(self.at..).filter(|rest| !rest.is_empty()) else { return Ok(None) };
            let Some(end) = rest.iter().take(LINE_BYTES_MAX).position(|byte| *byte == b'\n') else {
                return if rest.len() < LINE_BYTES_MAX { Ok(None) } else { Err("a line without an end") };
            };
            let Some(line) = rest[..end].strip_suffix(b"\r") else {
                return Err("a line that does not end as lines do");
            };
            self.at += end + 1;
            self.left -= 1;
            match line.first() {
                Some(b'+' | b'-' | b':' | b'_' | b'#' | b',' | b'(') => {}
                Some(b'$' | b'=' | b'!') => {
                    if let Some(length) = count(&line[1..])? {
                        self.at += length + 2;
                    }
                }
                Some(b'*' | b'~' | b'>') => self.expect(count(&line[1..])?.unwrap_or(0)),
                Some(b'%') => self.expect(count(&line[1..])?.unwrap_or(0) * 2),
                // Attributes come before the value that they belong to.
                Some(b'|') => self.expect(count(&line[1..])?.unwrap_or(0) * 2 + 1),
                _ => return Err("a value of an unknown kind"),
            }
            if self.parts > PARTS_MAX {
                return Err("a value of too many parts");
            }
            if self.at > VALUE_BYTES_MAX {
                return Err("a value that is too long");
            }
        }
        if self.at > bytes.len() {
            return Ok(None);
        }
        Ok(Some(std::mem::take(self).at))
    }

    fn expect(&mut self, parts: usize) {
        self.left += parts;
        self.parts += parts;
    }
}

/// A number of bytes or values; `None` for the null of earlier protocols.
fn count(digits: &[u8]) -> Result<Option<usize>, &'static str> {
    if digits == b"-1" {
        return Ok(None);
    }
    let digits = std::str::from_utf8(digits).ok().filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()));
    match digits.and_then(|digits| digits.parse().ok()) {
        Some(count) if count <= VALUE_BYTES_MAX => Ok(Some(count)),
        Some(_) => Err("a value that is too long"),
        None => Err("a length that is not a number"),
    }
}

#[cfg(test)]
mod tests;
