//! Shares the unchanged parts of a state with its successors.

use std::cell::Cell;
use std::hash::{BuildHasher, Hash, Hasher};
use std::ops::{Deref, DerefMut};
use std::rc::Rc;

/// A part of a state. It is copied when it is changed, and its hash is computed only once.
#[derive(Clone, Debug)]
pub(crate) struct Shared<T> {
    part: Rc<T>,
    hash: Cell<Option<u64>>,
}

impl<T> Shared<T> {
    pub(crate) fn new(part: T) -> Self {
        Self { part: Rc::new(part), hash: Cell::new(None) }
    }
}

impl<T> Deref for Shared<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.part
    }
}

impl<T: Clone> DerefMut for Shared<T> {
    fn deref_mut(&mut self) -> &mut T {
        self.hash.set(None);
        Rc::make_mut(&mut self.part)
    }
}

impl<T: Hash> Hash for Shared<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let hash = self.hash.get().unwrap_or_else(|| FixedBuildHasher.hash_one(&*self.part));
        self.hash.set(Some(hash));
        state.write_u64(hash);
    }
}

/// Builds a fast hasher that gives the same hashes in every run.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FixedBuildHasher;

impl BuildHasher for FixedBuildHasher {
    type Hasher = MultiplyHasher;

    fn build_hasher(&self) -> MultiplyHasher {
        MultiplyHasher(0x243f_6a88_85a3_08d3)
    }
}

/// A hasher that multiplies each word and folds the product.
#[derive(Debug)]
pub(crate) struct MultiplyHasher(u64);

impl MultiplyHasher {
    fn mix(&mut self, word: u64) {
        let product = u128::from(self.0 ^ word) * 0x9e37_79b9_7f4a_7c15;
        self.0 = ((product >> 64) as u64 ^ product as u64).rotate_left(23).wrapping_add(0x1319_8a2e_0370_7344);
    }
}

impl Hasher for MultiplyHasher {
    fn finish(&self) -> u64 {
        let mut last = Self(self.0);
        last.mix(0xa409_3822_299f_31d0);
        last.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.mix(u64::from_le_bytes(word) ^ (chunk.len() as u64) << 56);
        }
    }

    fn write_u8(&mut self, word: u8) {
        self.mix(u64::from(word));
    }

    fn write_u32(&mut self, word: u32) {
        self.mix(u64::from(word));
    }

    fn write_u64(&mut self, word: u64) {
        self.mix(word);
    }

    fn write_usize(&mut self, word: usize) {
        self.mix(word as u64);
    }
}
