//! Where a RESP3 value ends.

/// Longer values than this have no business here.
const LENGTH_MAX: usize = 64 * 1024 * 1024;

/// The length of the first value; `None` when more bytes are needed to tell.
///
/// # Errors
/// Says what is wrong with bytes that are not RESP.
pub(super) fn measure(bytes: &[u8]) -> Result<Option<usize>, &'static str> {
    let mut at = 0;
    // How many values are still to come, counting those inside others.
    let mut left: usize = 1;
    while left > 0 {
        let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) else { return Ok(None) };
        let Some(end) = rest.iter().position(|byte| *byte == b'\n') else {
            return if rest.len() > LENGTH_MAX { Err("a line without an end") } else { Ok(None) };
        };
        let Some(line) = rest[..end].strip_suffix(b"\r") else { return Err("a line that does not end as lines do") };
        at += end + 1;
        left -= 1;
        match line.first() {
            Some(b'+' | b'-' | b':' | b'_' | b'#' | b',' | b'(') => {}
            Some(b'$' | b'=' | b'!') => {
                if let Some(length) = count(&line[1..])? {
                    at += length + 2;
                }
            }
            Some(b'*' | b'~' | b'>') => left += count(&line[1..])?.unwrap_or(0),
            Some(b'%') => left += count(&line[1..])?.unwrap_or(0) * 2,
            // Attributes come before the value that they belong to.
            Some(b'|') => left += count(&line[1..])?.unwrap_or(0) * 2 + 1,
            _ => return Err("a value of an unknown kind"),
        }
        if left > LENGTH_MAX {
            return Err("a value of too many parts");
        }
    }
    Ok((at <= bytes.len()).then_some(at))
}

/// A number of bytes or values; `None` for the null of earlier protocols.
fn count(digits: &[u8]) -> Result<Option<usize>, &'static str> {
    if digits == b"-1" {
        return Ok(None);
    }
    let digits = std::str::from_utf8(digits).ok().filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()));
    match digits.and_then(|digits| digits.parse().ok()) {
        Some(count) if count <= LENGTH_MAX => Ok(Some(count)),
        Some(_) => Err("a value that is too long"),
        None => Err("a length that is not a number"),
    }
}

#[cfg(test)]
mod tests;
