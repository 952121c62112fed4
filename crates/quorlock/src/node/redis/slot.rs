//! Where a key lives in a Redis Cluster.

use std::sync::LazyLock;

/// How many slots there are.
pub(crate) const SLOTS: u16 = 16_384;

/// One of the slots that a Cluster's keys are spread over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slot(u16);

impl Slot {
    /// The slot of a key: that of what stands in its first braces, if there is anything, else that of all of it.
    pub(crate) fn of(key: &str) -> Self {
        let tag = key.split_once('{').and_then(|(_, rest)| rest.split_once('}')).map(|(tag, _)| tag);
        Self(crc16(tag.filter(|tag| !tag.is_empty()).unwrap_or(key)) % SLOTS)
    }

    pub(crate) fn index(self) -> usize {
        self.0.into()
    }

    /// A number that lives in this slot: in braces it takes any key there, whatever braces that has itself.
    pub(crate) fn tag(self) -> u32 {
        TAGS[self.index()]
    }
}

/// For each slot the lowest number that lives there.
static TAGS: LazyLock<Vec<u32>> = LazyLock::new(|| {
    let mut tags = vec![None; SLOTS.into()];
    let mut left = tags.len();
    for number in 0.. {
        let tag = &mut tags[usize::from(crc16(&number.to_string()) % SLOTS)];
        if tag.is_none() {
            *tag = Some(number);
            left -= 1;
        }
        if left == 0 {
            break;
        }
    }
    tags.into_iter().flatten().collect()
});

/// CRC-16/XMODEM, as in the specification of Redis Cluster.
fn crc16(text: &str) -> u16 {
    let shift = |crc: u16, _bit| if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 };
    text.bytes().fold(0, |crc, byte| (0..8).fold(crc ^ (u16::from(byte) << 8), shift))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_where_the_specification_says() {
        // As `CLUSTER KEYSLOT` of a server answers.
        for (key, slot) in [("123456789", 12_739), ("", 0), ("foo", 12_182), ("{user1000}.following", 3_443)] {
            assert_eq!(Slot::of(key), Slot(slot), "{key}");
        }
        assert_eq!(Slot::of("{user1000}.following"), Slot::of("user1000"));
        assert_ne!(Slot::of("foo{}{bar}"), Slot::of("bar"), "nothing in the first braces: all of it counts");
        assert_eq!(Slot::of("foo{{bar}}zap"), Slot::of("{bar"));
        assert_eq!(Slot::of("foo{bar}{zap}"), Slot::of("bar"));
    }

    #[test]
    fn every_slot_has_a_tag_of_its_own() {
        for index in 0..SLOTS {
            let slot = Slot(index);
            assert_eq!(Slot::of(&format!("quorlock~x:{{{}}}:{{other}}", slot.tag())), slot);
        }
    }
}
