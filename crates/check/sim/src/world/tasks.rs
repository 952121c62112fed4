//! Polls the tasks, in an order that the seed decides.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Wake, Waker};

use super::{World, mix_hash};

/// The future of a task.
pub(super) type TaskFuture = Pin<Box<dyn Future<Output = ()>>>;

#[derive(Default)]
pub(super) struct Tasks {
    slots: Vec<Slot>,
    /// The tasks that were woken.
    ready: Arc<Mutex<Vec<usize>>>,
}

struct Slot {
    client: usize,
    /// The future. `None` while the task is polled, and when the task has ended.
    task_future: Option<TaskFuture>,
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
    pub(super) fn add(&mut self, client: usize, task_future: TaskFuture) {
        let task = self.slots.len();
        let task_waker = Arc::new(TaskWaker { task, ready: Arc::clone(&self.ready) });
        self.slots.push(Slot { client, task_future: Some(task_future), waker: task_waker.into() });
        self.ready.lock().unwrap_or_else(PoisonError::into_inner).push(task);
    }

    /// Removes all tasks of a killed client.
    fn remove_tasks_of(&mut self, client: usize) -> Vec<TaskFuture> {
        self.slots.iter_mut().filter(|slot| slot.client == client).filter_map(|slot| slot.task_future.take()).collect()
    }
}

impl World {
    /// Starts a task of a client.
    pub(crate) fn spawn_task(&self, client: usize, task_future: impl Future<Output = ()> + 'static) {
        self.tasks.borrow_mut().add(client, Box::pin(task_future));
    }

    /// Polls woken tasks until all tasks wait.
    pub(super) fn run_tasks(&self) {
        while let Some((task, client, mut task_future, waker)) = self.next_task() {
            self.run_as(client);
            if task_future.as_mut().poll(&mut Context::from_waker(&waker)).is_pending() {
                let mut tasks = self.tasks.borrow_mut();
                let is_alive = self.state.borrow().clients[client].is_alive;
                if is_alive {
                    tasks.slots[task].task_future = Some(task_future);
                }
            }
        }
    }

    fn next_task(&self) -> Option<(usize, usize, TaskFuture, Waker)> {
        let mut tasks = self.tasks.borrow_mut();
        let mut state = self.state.borrow_mut();
        let ready = Arc::clone(&tasks.ready);
        let mut ready = ready.lock().unwrap_or_else(PoisonError::into_inner);
        ready.retain(|task| tasks.slots[*task].task_future.is_some());
        let is_awake = |task: &usize| state.clients[tasks.slots[*task].client].frozen_until <= state.now;
        let awake: Vec<usize> = ready.iter().copied().filter(is_awake).collect();
        if awake.is_empty() {
            return None;
        }
        let task = state.rng.pick(&awake);
        ready.retain(|other| *other != task);
        state.steps += 1;
        state.fingerprint = mix_hash(state.fingerprint, task as u64);
        let slot = &mut tasks.slots[task];
        Some((task, slot.client, slot.task_future.take()?, slot.waker.clone()))
    }

    /// Kills a client: none of its tasks runs any more.
    pub(super) fn kill(&self, client: usize) {
        {
            let mut state = self.state.borrow_mut();
            state.clients[client].is_alive = false;
            state.running = client;
            state.ledger.kill(client);
        }
        let task_future = self.tasks.borrow_mut().remove_tasks_of(client);
        // The client is dead, so messages that the destructors send are dropped.
        drop(task_future);
    }

    /// Ends all tasks.
    pub(crate) fn end(&self) {
        let clients = self.state.borrow().clients.len();
        for client in 0..clients {
            self.kill(client);
        }
    }
}
