//! A blocking queue between threads.

use std::collections::VecDeque;

use shuttle::sync::{Condvar, Mutex};

pub(crate) struct Queue<T> {
    items: Mutex<VecDeque<T>>,
    is_filled: Condvar,
}

impl<T> Queue<T> {
    pub(crate) fn new() -> Self {
        Self { items: Mutex::new(VecDeque::new()), is_filled: Condvar::new() }
    }

    pub(crate) fn push(&self, item: T) {
        self.items.lock().expect("the mutex is not poisoned").push_back(item);
        self.is_filled.notify_one();
    }

    /// Removes the oldest item. If the queue is empty, waits for an item.
    pub(crate) fn pop(&self) -> T {
        let mut items = self.items.lock().expect("the mutex is not poisoned");
        loop {
            if let Some(item) = items.pop_front() {
                return item;
            }
            items = self.is_filled.wait(items).expect("the mutex is not poisoned");
        }
    }
}
