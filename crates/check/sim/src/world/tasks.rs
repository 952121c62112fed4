//! Polls the tasks, in an order that the seed decides.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Wake, Waker};

use super::{World, mix_hash};

/// The future of a task.
pub(super) type TaskFuture = Pin<Box<dyn Future<Output = ()>>>;

#[derive(Default)]
pub(super) struct Tasks {
    tasks: Vec<SpawnedTask>,
    /// The indexes of the tasks that were woken.
    ready: Arc<Mutex<Vec<usize>>>,
}

/// A task of a client.
struct SpawnedTask {
    client: usize,
    /// The future. `None` while the task is polled, and when the task has ended.
    future: Option<TaskFuture>,
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
        let task = self.tasks.len();
        let task_waker = Arc::new(TaskWaker { task, ready: Arc::clone(&self.ready) });
        self.tasks.push(SpawnedTask { client, future: Some(task_future), waker: task_waker.into() });
        self.ready.lock().unwrap_or_else(PoisonError::into_inner).push(task);
    }

    /// Removes and returns the futures of all tasks of a killed client.
    fn remove_tasks_of(&mut self, client: usize) -> Vec<TaskFuture> {
        self.tasks.iter_mut().filter(|task| task.client == client).filter_map(|task| task.future.take()).collect()
    }
}

impl World {
    /// Starts a task of a client.
    pub(crate) fn spawn_task(&self, client: usize, task_future: impl Future<Output = ()> + 'static) {
        self.tasks.borrow_mut().add(client, Box::pin(task_future));
    }

    /// Polls woken tasks until no task is woken, except for tasks of frozen clients.
    pub(super) fn run_tasks(&self) {
        while let Some((task, client, mut task_future, waker)) = self.next_task() {
            self.run_as(client);
            if task_future.as_mut().poll(&mut Context::from_waker(&waker)).is_pending() {
                let mut tasks = self.tasks.borrow_mut();
                let is_alive = self.state.borrow().clients[client].is_alive;
                if is_alive {
                    tasks.tasks[task].future = Some(task_future);
                }
            }
        }
    }

    /// Picks a woken task of a client that is not frozen. Returns its index, client, future and waker.
    fn next_task(&self) -> Option<(usize, usize, TaskFuture, Waker)> {
        let mut tasks = self.tasks.borrow_mut();
        let mut state = self.state.borrow_mut();
        let ready = Arc::clone(&tasks.ready);
        let mut ready = ready.lock().unwrap_or_else(PoisonError::into_inner);
        ready.retain(|task| tasks.tasks[*task].future.is_some());
        let can_run = |task: &usize| state.clients[tasks.tasks[*task].client].frozen_until <= state.now;
        let runnable: Vec<usize> = ready.iter().copied().filter(can_run).collect();
        if runnable.is_empty() {
            return None;
        }
        let task = state.rng.pick(&runnable);
        ready.retain(|other| *other != task);
        state.steps += 1;
        state.fingerprint = mix_hash(state.fingerprint, task as u64);
        let SpawnedTask { client, future, waker } = &mut tasks.tasks[task];
        Some((task, *client, future.take()?, waker.clone()))
    }

    /// Kills a client: none of its tasks runs any more.
    pub(super) fn kill(&self, client: usize) {
        {
            let mut state = self.state.borrow_mut();
            state.clients[client].is_alive = false;
            state.running_client = client;
            state.ledger.kill(client);
        }
        let task_futures = self.tasks.borrow_mut().remove_tasks_of(client);
        // The client is dead, so messages that the destructors of the futures send are lost.
        drop(task_futures);
    }

    /// Ends all tasks.
    pub(crate) fn end(&self) {
        let clients = self.state.borrow().clients.len();
        for client in 0..clients {
            self.kill(client);
        }
    }
}
