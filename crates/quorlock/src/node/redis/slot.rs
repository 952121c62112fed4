//! Hash slots of a Redis Cluster.

use std::collections::BTreeMap;
use std::sync::LazyLock;

/// The number of hash slots.
pub(crate) const SLOTS: u16 = 16_384;

/// One of the hash slots over which a Redis Cluster distributes its keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slot(u16);

impl Slot {
    /// Returns the slot of a key. It is the hash of the key's first hash tag, the text between `{` and `}`. If there is
    /// no hash tag, or if it is empty, the slot is the hash of the whole key.
    pub(crate) fn of(key: &str) -> Self {
        let tag = key.split_once('{').and_then(|(_, rest)| rest.split_once('}')).map(|(tag, _)| tag);
        Self(crc16(tag.filter(|tag| !tag.is_empty()).unwrap_or(key)) % SLOTS)
    }

    pub(crate) fn index(self) -> usize {
        self.0.into()
    }

    /// Returns a number that hashes to this slot. A key that starts with this number as its hash tag is in this slot,
    /// even if the rest of the key contains braces.
    pub(crate) fn tag(self) -> u32 {
        TAGS[self.index()]
    }
}

/// The lowest number that hashes to each slot.
static TAGS: LazyLock<Vec<u32>> = LazyLock::new(|| {
    let mut tags = BTreeMap::new();
    let mut number = 0;
    while tags.len() < SLOTS.into() {
        tags.entry(crc16(&number.to_string()) % SLOTS).or_insert(number);
        number += 1;
    }
    tags.into_values().collect()
});

/// CRC-16/XMODEM, as the Redis Cluster specification defines it.
fn crc16(text: &str) -> u16 {
    let shift = |crc: u16, _bit| if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 };
    text.bytes().fold(0, |crc, byte| (0..8).fold(crc ^ (u16::from(byte) << 8), shift))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_the_slots_of_the_specification() {
        // The replies of a server to `CLUSTER KEYSLOT`.
        for (key, slot) in [("123456789", 12_739), ("", 0), ("foo", 12_182), ("{user1000}.following", 3_443)] {
            assert_eq!(Slot::of(key), Slot(slot), "{key}");
        }
        assert_eq!(Slot::of("{user1000}.following"), Slot::of("user1000"));
        assert_ne!(Slot::of("foo{}{bar}"), Slot::of("bar"), "the first hash tag is empty, so the whole key is hashed");
        assert_eq!(Slot::of("foo{{bar}}zap"), Slot::of("{bar"));
        assert_eq!(Slot::of("foo{bar}{zap}"), Slot::of("bar"));
    }

    #[test]
    fn the_tag_of_every_slot_hashes_to_that_slot() {
        for index in 0..SLOTS {
            let slot = Slot(index);
            assert_eq!(Slot::of(&format!("quorlock~x:{{{}}}:{{other}}", slot.tag())), slot);
        }
    }
}
