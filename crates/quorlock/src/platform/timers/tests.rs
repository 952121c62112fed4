use super::*;
use tokio::sync::mpsc;

struct Bell {
    number: u32,
    again: Mutex<Option<Moment>>,
    rung: mpsc::UnboundedSender<u32>,
}

impl Timed for Bell {
    fn tick(self: Arc<Self>, _now: Moment) -> Option<Moment> {
        let _ = self.rung.send(self.number);
        self.again.lock().take()
    }
}

fn weak(bell: &Arc<Bell>) -> Weak<dyn Timed> {
    let weak: Weak<Bell> = Arc::downgrade(bell);
    weak
}

#[tokio::test]
async fn calls_come_in_the_order_of_their_moments() {
    let timers = Arc::new(Timers::default());
    let task = tokio::spawn(Arc::clone(&timers).run());
    let (rung, mut heard) = mpsc::unbounded_channel();
    let bell = |number| Arc::new(Bell { number, again: Mutex::default(), rung: rung.clone() });
    let (late, early, never) = (bell(2), bell(1), bell(9));
    let start = clock::now();
    assert!(timers.at(start + Duration::from_millis(40), weak(&late)).is_some());
    assert!(timers.at(start + Duration::from_millis(30), weak(&never)).is_some());
    assert!(timers.at(start + Duration::from_millis(20), weak(&early)).is_some());
    assert_eq!(timers.to_come(), 3);
    drop(never);
    assert_eq!(timers.to_come(), 2);
    *early.again.lock() = Some(start + Duration::from_millis(60));
    for expected in [1, 2, 1] {
        assert_eq!(heard.recv().await, Some(expected));
    }
    assert!(clock::now() >= start + Duration::from_millis(60));
    assert_eq!(timers.to_come(), 0);
    timers.close();
    task.await.unwrap();
}

struct Nobody;

impl Timed for Nobody {
    fn tick(self: Arc<Self>, _now: Moment) -> Option<Moment> {
        None
    }
}

fn add(queue: &mut CallQueue, at: u64, whom: &Arc<Nobody>) -> Call {
    let whom: Weak<Nobody> = Arc::downgrade(whom);
    queue.add(Moment::from_nanos(at), whom)
}

#[test]
fn a_call_that_is_cancelled_does_not_come_and_keeps_nothing() {
    let (mut queue, whom) = (CallQueue::default(), Arc::new(Nobody));
    let first = add(&mut queue, 1, &whom);
    add(&mut queue, 2, &whom);
    assert!(queue.calls.remove(&first).is_some());
    assert_eq!((Arc::weak_count(&whom), queue.next()), (1, Some(Moment::from_nanos(2))));
    add(&mut queue, 3, &whom);
    assert!(queue.calls.remove(&first).is_none());
    assert_eq!(Arc::weak_count(&whom), 2);
    for expected in [2, 3] {
        assert_eq!(queue.next(), Some(Moment::from_nanos(expected)));
        assert!(queue.take_due(Moment::from_nanos(expected - 1)).is_none());
        assert!(queue.take_due(Moment::from_nanos(expected)).is_some());
    }
    assert!(queue.next().is_none() && queue.take_due(Moment::from_nanos(9)).is_none());
}

#[test]
fn calls_of_the_same_moment_come_in_the_order_of_asking() {
    let mut queue = CallQueue::default();
    let all: Vec<_> = (0..50).map(|_| Arc::new(Nobody)).collect();
    let before: Vec<Call> = all.iter().map(|whom| add(&mut queue, 7, whom)).collect();
    for call in before {
        queue.calls.remove(&call);
    }
    for whom in &all {
        add(&mut queue, 7, whom);
    }
    for expected in &all {
        let expected: Weak<dyn Timed> = Arc::downgrade(expected) as Weak<Nobody>;
        let called = queue.take_due(Moment::from_nanos(7)).unwrap();
        assert!(called.ptr_eq(&expected));
    }
}

#[test]
fn nobody_wakes_up_for_those_who_are_gone() {
    let (mut queue, alive) = (CallQueue::default(), Arc::new(Nobody));
    for at in 1..10 {
        add(&mut queue, at, &Arc::new(Nobody));
    }
    add(&mut queue, 20, &alive);
    assert_eq!(queue.next(), Some(Moment::from_nanos(20)));
    assert_eq!(queue.calls.len(), 1);
    drop(alive);
    assert!(queue.next().is_none());
}

#[test]
fn those_who_are_gone_take_no_room() {
    let (mut queue, alive) = (CallQueue::default(), Arc::new(Nobody));
    add(&mut queue, 1_000_000, &alive);
    for at in 0..100_000 {
        let call = add(&mut queue, at, &Arc::new(Nobody));
        if at % 2 == 0 {
            queue.calls.remove(&call);
        }
    }
    assert!(queue.calls.len() <= SWEEP_MIN + 4, "{}", queue.calls.len());
    assert_eq!(queue.calls.values().filter(|whom| whom.strong_count() > 0).count(), 1);
}
