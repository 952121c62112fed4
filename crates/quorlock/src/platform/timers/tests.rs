use super::*;
use tokio::sync::mpsc;

/// A target that sends its number when it is called.
struct NumberedTarget {
    number: u32,
    next: Mutex<Option<Moment>>,
    calls: mpsc::UnboundedSender<u32>,
}

impl Timed for NumberedTarget {
    fn tick(self: Arc<Self>, _now: Moment) -> Option<Moment> {
        let _ = self.calls.send(self.number);
        self.next.lock().take()
    }
}

fn weak(target: &Arc<NumberedTarget>) -> Weak<dyn Timed> {
    let weak: Weak<NumberedTarget> = Arc::downgrade(target);
    weak
}

#[tokio::test]
async fn targets_are_called_in_the_order_of_their_moments() {
    let timers = Arc::new(Timers::default());
    let task = tokio::spawn(Arc::clone(&timers).run());
    let (calls, mut called) = mpsc::unbounded_channel();
    let target = |number| Arc::new(NumberedTarget { number, next: Mutex::default(), calls: calls.clone() });
    let (late_target, early_target, dropped_target) = (target(2), target(1), target(9));
    let start = clock::now();
    assert!(timers.at(start + Duration::from_millis(40), weak(&late_target)).is_some());
    assert!(timers.at(start + Duration::from_millis(30), weak(&dropped_target)).is_some());
    assert!(timers.at(start + Duration::from_millis(20), weak(&early_target)).is_some());
    assert_eq!(timers.scheduled_calls(), 3);
    drop(dropped_target);
    assert_eq!(timers.scheduled_calls(), 2);
    *early_target.next.lock() = Some(start + Duration::from_millis(60));
    for expected in [1, 2, 1] {
        assert_eq!(called.recv().await, Some(expected));
    }
    assert!(clock::now() >= start + Duration::from_millis(60));
    assert_eq!(timers.scheduled_calls(), 0);
    timers.close();
    task.await.unwrap();
}

/// A target that does nothing.
struct IdleTarget;

impl Timed for IdleTarget {
    fn tick(self: Arc<Self>, _now: Moment) -> Option<Moment> {
        None
    }
}

fn add(queue: &mut CallQueue, at: u64, target: &Arc<IdleTarget>) -> Call {
    let target: Weak<IdleTarget> = Arc::downgrade(target);
    queue.add(Moment::from_nanos(at), target)
}

#[test]
fn a_cancelled_call_does_not_run_and_drops_its_reference_to_the_target() {
    let (mut queue, target) = (CallQueue::default(), Arc::new(IdleTarget));
    let first = add(&mut queue, 1, &target);
    add(&mut queue, 2, &target);
    assert!(queue.calls.remove(&first).is_some());
    assert_eq!((Arc::weak_count(&target), queue.next()), (1, Some(Moment::from_nanos(2))));
    add(&mut queue, 3, &target);
    assert!(queue.calls.remove(&first).is_none());
    assert_eq!(Arc::weak_count(&target), 2);
    for expected in [2, 3] {
        assert_eq!(queue.next(), Some(Moment::from_nanos(expected)));
        assert!(queue.take_due(Moment::from_nanos(expected - 1)).is_none());
        assert!(queue.take_due(Moment::from_nanos(expected)).is_some());
    }
    assert!(queue.next().is_none() && queue.take_due(Moment::from_nanos(9)).is_none());
}

#[test]
fn calls_of_the_same_moment_run_in_the_order_in_which_they_were_scheduled() {
    let mut queue = CallQueue::default();
    let all: Vec<_> = (0..50).map(|_| Arc::new(IdleTarget)).collect();
    let cancelled: Vec<Call> = all.iter().map(|target| add(&mut queue, 7, target)).collect();
    for call in cancelled {
        queue.calls.remove(&call);
    }
    for target in &all {
        add(&mut queue, 7, target);
    }
    for expected in &all {
        let expected: Weak<dyn Timed> = Arc::downgrade(expected) as Weak<IdleTarget>;
        let called = queue.take_due(Moment::from_nanos(7)).unwrap();
        assert!(called.ptr_eq(&expected));
    }
}

#[test]
fn the_task_does_not_wake_up_for_dropped_targets() {
    let (mut queue, alive) = (CallQueue::default(), Arc::new(IdleTarget));
    for at in 1..10 {
        add(&mut queue, at, &Arc::new(IdleTarget));
    }
    add(&mut queue, 20, &alive);
    assert_eq!(queue.next(), Some(Moment::from_nanos(20)));
    assert_eq!(queue.calls.len(), 1);
    drop(alive);
    assert!(queue.next().is_none());
}

#[test]
fn calls_of_dropped_targets_are_swept() {
    let (mut queue, alive) = (CallQueue::default(), Arc::new(IdleTarget));
    add(&mut queue, 1_000_000, &alive);
    for at in 0..100_000 {
        let call = add(&mut queue, at, &Arc::new(IdleTarget));
        if at % 2 == 0 {
            queue.calls.remove(&call);
        }
    }
    assert!(queue.calls.len() <= SWEEP_MIN + 4, "{}", queue.calls.len());
    assert_eq!(queue.calls.values().filter(|target| target.strong_count() > 0).count(), 1);
}
