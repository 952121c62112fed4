//! Tasks, in an order that the seed decides.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Wake, Waker};

use super::{World, mixed};

/// The future of a task.
pub(super) type Work = Pin<Box<dyn Future<Output = ()>>>;

#[derive(Default)]
pub(super) struct Tasks {
    slots: Vec<Slot>,
    /// The tasks that were woken.
    ready: Arc<Mutex<Vec<usize>>>,
}

struct Slot {
    client: usize,
    /// The future. `None` while the task is polled, and when the task has ended.
    work: Option<Work>,
    waker: Waker,
}

struct TaskWaker {
    task: usize,
    ready: Arc<Mutex<Vec<usize>>>,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let mut ready = self.ready.lock().unwrap_or_else(PoisonError::into_inner);
        if !ready.contains(&self.task) {
            ready.push(self.task);
        }
    }
}

impl Tasks {
    pub(super) fn add(&mut self, client: usize, work: Work) {
        let task = self.slots.len();
        let task_waker = Arc::new(TaskWaker { task, ready: Arc::clone(&self.ready) });
        self.slots.push(Slot { client, work: Some(work), waker: task_waker.into() });
        self.ready.lock().unwrap_or_else(PoisonError::into_inner).push(task);
    }

    /// Removes all tasks of a killed client.
    fn remove_tasks_of(&mut self, client: usize) -> Vec<Work> {
        self.slots.iter_mut().filter(|slot| slot.client == client).filter_map(|slot| slot.work.take()).collect()
    }
}

impl World {
    /// Starts a task of one of the client's users.
    pub(crate) fn begin(&self, client: usize, work: impl Future<Output = ()> + 'static) {
        self.tasks.borrow_mut().add(client, Box::pin(work));
    }

    /// Polls woken tasks until all tasks wait.
    pub(super) fn run_tasks(&self) {
        while let Some((task, client, mut work, waker)) = self.next_task() {
            self.run_as(client);
            if work.as_mut().poll(&mut Context::from_waker(&waker)).is_pending() {
                let mut tasks = self.tasks.borrow_mut();
                let is_alive = self.state.borrow().clients[client].is_alive;
                if is_alive {
                    tasks.slots[task].work = Some(work);
                }
            }
        }
    }

    fn next_task(&self) -> Option<(usize, usize, Work, Waker)> {
        let mut tasks = self.tasks.borrow_mut();
        let mut state = self.state.borrow_mut();
        let ready = Arc::clone(&tasks.ready);
        let mut ready = ready.lock().unwrap_or_else(PoisonError::into_inner);
        ready.retain(|task| tasks.slots[*task].work.is_some());
        let is_awake = |task: &usize| state.clients[tasks.slots[*task].client].frozen_until <= state.now;
        let awake: Vec<usize> = ready.iter().copied().filter(is_awake).collect();
        if awake.is_empty() {
            return None;
        }
        let task = state.rng.pick(&awake);
        ready.retain(|other| *other != task);
        state.steps += 1;
        state.fingerprint = mixed(state.fingerprint, task as u64);
        let slot = &mut tasks.slots[task];
        Some((task, slot.client, slot.work.take()?, slot.waker.clone()))
    }

    /// Kills a client: none of its tasks runs any more.
    pub(super) fn kill(&self, client: usize) {
        {
            let mut state = self.state.borrow_mut();
            state.clients[client].is_alive = false;
            state.running = client;
            state.ledger.kill(client);
        }
        let work = self.tasks.borrow_mut().remove_tasks_of(client);
        // Messages that their destructors send are dropped.
        drop(work);
    }

    /// Ends all tasks.
    pub(crate) fn end(&self) {
        let clients = self.state.borrow().clients.len();
        for client in 0..clients {
            self.kill(client);
        }
    }
}
