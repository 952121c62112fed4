use std::sync::Mutex;

use quorlock_core::fence::Fence;
use quorlock_core::name::{Channel, LeaseId, Name};
use quorlock_core::node::{Epoch, Identity, Trust};
use quorlock_core::quorum::Quorum;
use quorlock_core::request::Request;
use quorlock_core::rules::Rules;
use quorlock_core::time::Ttl;

use super::*;
use crate::link::quarantine_records::Records;
use crate::link::{LinkConfig, Outages, Voter};
use crate::node::Life;
use crate::node::key::KeyTemplate;

/// A session that counts its questions, and never answers.
struct SilentSession {
    identity: Identity,
    questions: Arc<Mutex<usize>>,
}

impl Session for SilentSession {
    fn identity(&self) -> &Identity {
        &self.identity
    }

    fn ask(&mut self, _: Question) {
        *self.questions.lock().unwrap() += 1;
    }
}

/// The attempts that got a vote.
#[derive(Default)]
struct VotedAttempts(Mutex<Vec<LeaseId>>);

impl Voter for VotedAttempts {
    fn vote(self: Arc<Self>, _: usize, attempt: LeaseId, _: u32, outcome: Outcome, _: Moment) {
        if let Outcome::Voted { .. } = outcome {
            self.0.lock().unwrap().push(attempt);
        }
    }
}

fn link() -> Arc<Link> {
    let patience = Duration::from_secs(1);
    let config = LinkConfig {
        handshake_deadline: patience,
        silence_limit: patience,
        heartbeat: patience,
        check_interval: (patience, patience),
        rules: Rules::default(),
        trust: Trust::Quarantine,
        claims: Arc::default(),
        channel: Channel(1),
        counters: Arc::default(),
        outages: Arc::new(Outages::new(Quorum::new(1).unwrap(), false)),
        records: Records::new(None),
    };
    Arc::new(Link::new(0, "node", config))
}

/// Gives the link a new connection to a node that votes. Returns the number of its questions.
fn connect(link: &Link) -> Arc<Mutex<usize>> {
    let questions = Arc::default();
    let number = link.connections.fetch_add(1, Ordering::AcqRel) + 1;
    let session = Box::new(SilentSession { identity: Identity::of_run("run"), questions: Arc::clone(&questions) });
    let mut inner = link.inner.lock();
    inner.delivery.connected(true);
    inner.connection = Some(Connection {
        number,
        session,
        is_serving: true,
        under_way: VecDeque::new(),
        last: 0,
        is_gathering: false,
        is_holding: false,
    });
    inner.set_state(LinkState::Up(Life { epoch: Epoch(1), floor: Fence::new(1) }), clock::now());
    questions
}

fn ask(link: &Link, attempt: u128, voter: &Arc<VotedAttempts>) {
    let ttl = Ttl::new(Duration::from_secs(1), Duration::MAX).unwrap();
    let request = Arc::new(Request::PlainAcquire { attempt: LeaseId::from_bits(attempt), ttl });
    let key = Arc::new(KeyTemplate::new(KeyTemplate::DEFAULT).unwrap().key(&Name::new("job").unwrap()).unwrap());
    link.ask(&request, 0, Sender { key, voter: Some(Arc::clone(voter) as _) }).unwrap();
    link.flush_now();
}

/// Tests that run other code between two steps of the link.
#[cfg(feature = "sim")]
mod interleaved {
    use std::cell::RefCell;
    use std::panic::{self, AssertUnwindSafe};

    use super::*;
    use crate::platform::sim;

    /// The number of steps before the interruption, and the code that the interruption runs.
    type Interruption = (usize, Box<dyn FnOnce()>);

    thread_local! {
        static INTERRUPTION: RefCell<Option<Interruption>> = const { RefCell::new(None) };
    }

    fn step() {
        let interruption = INTERRUPTION.take();
        match interruption {
            Some((0, interrupt)) => drop(panic::catch_unwind(AssertUnwindSafe(interrupt))),
            Some((steps, interrupt)) => INTERRUPTION.set(Some((steps - 1, interrupt))),
            None => {}
        }
    }

    #[test]
    fn a_reply_on_a_replaced_connection_answers_no_request_of_the_next_connection() {
        let grant = || Answer::Votes(vec![Reply::Voted { vote: Vote::grant(Fence::new(1)), at_micros: None }]);
        for steps in 0.. {
            let (link, first, second) =
                (link(), Arc::new(VotedAttempts::default()), Arc::new(VotedAttempts::default()));
            connect(&link);
            ask(&link, 1, &first);
            let replaced = Arc::clone(&link);
            let asked = Arc::clone(&second);
            let replace = move || {
                replaced.go_down(LinkState::Down(Silence::Unheard));
                connect(&replaced);
                ask(&replaced, 2, &asked);
            };
            INTERRUPTION.set(Some((steps, Box::new(replace))));
            // While the link's mutex is locked, no other code can run.
            let turns = sim::interleave(step, || panic::resume_unwind(Box::new("the mutex is locked")));
            link.take(1, grant()).unwrap();
            drop(turns);
            assert_eq!(*second.0.lock().unwrap(), [], "after {steps} steps");
            if INTERRUPTION.take().is_some() {
                assert!(steps > 1);
                return;
            }
        }
    }
}

#[test]
fn other_questions_do_not_delay_requests_for_votes() {
    let (link, voter) = (link(), Arc::new(VotedAttempts::default()));
    let questions = connect(&link);
    let _answers = [(); WINDOW_NEAR].map(|()| link.ask_node(Question::Recall(1)).unwrap());
    ask(&link, 1, &voter);
    assert_eq!(*questions.lock().unwrap(), WINDOW_NEAR + 1);
}

#[test]
fn requests_are_collected_while_a_larger_batch_is_under_way_to_a_near_node() {
    let near = |under_way, oldest, waiting| may_send(under_way, oldest, waiting, || false);
    assert!(near(1, SMALL_BATCH, 1), "a release does not wait for the answer to its acquire");
    assert!(!near(1, SMALL_BATCH + 1, BATCH_MAX - 1));
    assert!(near(1, SMALL_BATCH + 1, BATCH_MAX), "a full batch is sent at once");
    assert!(!near(WINDOW_NEAR, 1, BATCH_MAX));
}

#[test]
fn a_batch_waits_for_other_callers_if_the_last_batch_had_several_requests() {
    assert!(!must_gather(0, SMALL_BATCH, 1), "a single caller does not wait for others");
    assert!(must_gather(0, SMALL_BATCH + 1, 1));
    assert!(!must_gather(0, SMALL_BATCH + 1, BATCH_MAX), "a full batch is sent at once");
    assert!(!must_gather(1, SMALL_BATCH + 1, 1), "a reply is due, and its delivery sends the batch");
}

#[test]
fn more_batches_may_be_under_way_to_a_far_node() {
    assert!(may_send(WINDOW_FAR - 1, BATCH_MAX, 1, || true));
    assert!(!may_send(WINDOW_FAR, 1, BATCH_MAX, || true));
}
