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
