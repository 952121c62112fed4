//! Reading: locks, nodes, the history and the stream of events.

use quorlock_testkit::eventually;
use quorlock_testkit::http::{Answer, agent, answer};
use serde_json::{Value, json};

use crate::service::{LONG_MS, Nodes, Service};

fn names(page: &Value) -> Vec<&str> {
    page["locks"].as_array().unwrap().iter().map(|lock| lock["name"].as_str().unwrap()).collect()
}

/// The events of a lock, newest first, once there are `count` of them.
fn happened(service: &Service, name: &str, count: usize) -> Vec<Value> {
    let mut events = Vec::new();
    eventually("all of it is in the copy", || {
        let told = service.get(&format!("/v1/history?name={name}")).expect(200).body;
        events.clone_from(told["events"].as_array().unwrap());
        events.len() >= count
    });
    events
}

#[test]
fn locks_are_listed_page_by_page_in_order() {
    let service = Service::start();
    let wanted: Vec<String> = (0..7).map(|number| format!("in*/{number}")).collect();
    for name in wanted.iter().chain(&["inner".to_owned(), "out".to_owned()]) {
        service.lock(&json!({"name": name, "label": "x"})).expect(201);
    }
    let mut found = Vec::new();
    let mut cursor = String::new();
    for _ in 0..4 {
        let page = service.get(&format!("/v1/locks?prefix=in*/&limit=3&cursor={cursor}")).expect(200).body;
        found.extend(names(&page).into_iter().map(ToOwned::to_owned));
        match page["next"].as_str() {
            Some(next) => next.clone_into(&mut cursor),
            None => break,
        }
    }
    assert_eq!(found, wanted);
    let all = service.get("/v1/locks").expect(200).body;
    assert_eq!((names(&all).len(), &all["next"]), (9, &Value::Null));
    assert!(all["as_of"].as_u64().unwrap() > 0);
}

#[test]
fn a_page_of_many_locks_continues_where_the_last_one_ended() {
    let nodes = Nodes::servers(1);
    let fill =
        "for i = 1, 10500 do redis.call('SET', 'quorlock:held/' .. i, string.format('%032x', i), 'EX', 3600) end";
    nodes.servers[0].command(&["EVAL", fill, "0"]);
    let service = nodes.serve();
    let page = |cursor: &str| {
        let request = || agent(None).get(service.url("/v1/locks")).query("limit", "1").query("cursor", cursor);
        let mut told = answer(request().call());
        eventually("the nodes may be asked again", || {
            if told.status == 429 {
                told = answer(request().call());
            }
            told.status == 200
        });
        told.body
    };
    let first = page("");
    let second = page(first["next"].as_str().unwrap());
    assert_eq!((names(&first).len(), names(&second).len()), (1, 1));
    assert_ne!(names(&first), names(&second));
    for wrong in ["held/1", "keys:x", "name"] {
        let refused = answer(agent(None).get(service.url("/v1/locks")).query("cursor", wrong).call());
        assert!([400, 429].contains(&refused.status), "{wrong}: {refused:?}");
    }
}

#[test]
fn other_data_is_not_listed() {
    let nodes = Nodes::servers(1);
    let service = nodes.serve();
    // A queue whose only position has expired: it looks like a lock until it is read.
    for key in ["quorlock~queue:quorlock:a", "quorlock~kept:quorlock:a"] {
        nodes.servers[0].command(&["ZADD", key, "1", "0000000000000001 x 00000000000000000000000000000001"]);
    }
    service.lock(&json!({"name": "b"})).expect(201);
    let page = service.get("/v1/locks?limit=1").expect(200).body;
    assert_eq!((names(&page), &page["next"]), (vec!["b"], &Value::Null));
}

#[test]
fn a_lock_of_another_program_is_held_and_shown_with_the_type_of_its_key() {
    let nodes = Nodes::servers(1);
    let service = nodes.serve();
    nodes.servers[0].command(&["HSET", "quorlock:a", "5c4e:1", "1"]);
    let other = json!({"host": "another program", "pid": 0, "label": "key type hash"});
    let refused = service.lock(&json!({"name": "a"})).expect(409).body;
    assert_eq!((&refused["code"], &refused["holder"]), (&json!("lock-held"), &other), "{refused}");
    let look = service.status("a");
    assert_eq!((&look["held"], &look["holder"], &look["fence"]), (&json!(true), &other, &Value::Null), "{look}");
    assert_eq!(names(&service.get("/v1/locks").expect(200).body), ["a"]);
    nodes.servers[0].command(&["DEL", "quorlock:a"]);
    service.lock(&json!({"name": "a"})).expect(201);
}

#[test]
fn a_lock_is_shown_node_by_node() {
    let service = Service::start();
    assert_eq!(service.status("free")["held"], false);
    let granted = service.lock(&json!({"name": "invoices/42", "label": "somebody"})).expect(201);
    let lock = service.status("invoices%2F42");
    assert_eq!((&lock["held"], &lock["mode"], &lock["waiting"]), (&json!(true), &json!("exclusive"), &json!(0)));
    assert_eq!((&lock["holder"]["label"], &lock["fence"]), (&json!("somebody"), &granted.body["fence"]));
    assert!(lock["left_ms"].as_u64().unwrap() <= 30_000 && lock["since_ms"].as_u64().unwrap() > 0);
    let node = &lock["nodes"][0];
    assert_eq!((&node["held"], &node["trouble"]), (&json!(true), &Value::Null));
}

#[test]
fn nodes_report_whether_they_can_vote() {
    let service = Service::start();
    let nodes = service.get("/v1/nodes").expect(200).body;
    assert_eq!((&nodes["total"], &nodes["voting"], &nodes["can_lose"]), (&json!(1), &json!(1), &json!(0)));
    assert_eq!(nodes["nodes"][0]["state"], "voting");
    assert_eq!(service.get("/healthz").expect(200).body, "ok\n");
    service.get("/readyz").expect(200);
}

#[test]
fn a_service_without_a_majority_is_not_ready() {
    let nodes = Nodes::servers(3);
    let service = nodes.serve();
    service.get("/readyz").expect(200);
    nodes.servers[0].kill();
    nodes.servers[1].kill();
    eventually("it is noticed", || service.get_once("/readyz").status == 503);
    eventually("both are named", || {
        let not_ready = service.get_once("/readyz").problem(503, "no-quorum");
        assert!(not_ready.number("retry_after_ms") > 0);
        let silent = not_ready.body["nodes"].as_array().unwrap();
        silent.len() == 2
            && silent.iter().all(|node| node["vote"] == "silent" && !node["why"].as_str().unwrap().is_empty())
    });
    let refused = service.post_once("/v1/leases", &json!({"name": "a"})).problem(503, "no-quorum");
    assert_eq!(refused.body["nodes"].as_array().unwrap().len(), 3);
    service.get("/healthz").expect(200);
}

#[test]
fn quarantined_and_unreachable_nodes_are_distinguished() {
    let nodes = Nodes::uninitialised(3).long();
    let service = nodes.serve();
    let votes = |told: &Answer, wanted: [&str; 3]| {
        told.body["nodes"].as_array().unwrap().iter().map(|node| node["vote"].clone()).eq(wanted)
    };
    let lock = || service.post_once("/v1/leases", &json!({"name": "a"})).problem(503, "no-quorum");
    let look = || service.get_once("/readyz").problem(503, "no-quorum");
    eventually("none may vote yet", || votes(&look(), ["quarantined"; 3]));
    nodes.servers[2].kill();
    for ask in [&lock as &dyn Fn() -> Answer, &look] {
        let mut told = ask();
        eventually("two may not vote yet, and one is away", || {
            told = ask();
            votes(&told, ["quarantined", "quarantined", "silent"])
        });
        assert_eq!(told.text("title"), "Too few nodes voted");
        let pause = told.number("retry_after_ms");
        assert!((LONG_MS / 2..=2 * LONG_MS).contains(&pause), "{pause}");
    }
}

#[test]
fn a_head_request_gets_only_the_headers() {
    let service = Service::start();
    for path in ["/healthz", "/readyz", "/v1/locks", "/v1/history", "/", "/openapi.json"] {
        let answered = agent(None).head(service.url(path)).call().unwrap();
        assert_eq!(answered.status(), 200, "{path}");
        let told = service.get(path).expect(200);
        assert_eq!(answered.headers()["content-type"], told.kind, "{path}");
        assert_eq!(answered.into_body().read_to_string().unwrap(), "", "{path}");
    }
}

#[test]
fn events_are_recorded() {
    let service = Service::start();
    let granted = service.lock(&json!({"name": "a", "label": "w"})).expect(201);
    service.release(&granted);
    service.lock(&json!({"name": "b"})).expect(201);
    let events = happened(&service, "a", 2);
    let told: Vec<&Value> = events.iter().map(|event| &event["what"]).collect();
    assert_eq!(told, ["released", "granted"]);
    let newest = service.get("/v1/history?limit=1").expect(200).body;
    assert_eq!(newest["events"].as_array().unwrap().len(), 1);
}

#[test]
fn an_expired_lease_is_recorded_as_lost() {
    let service = Service::start();
    let granted = service.lock(&json!({"name": "a", "ttl_ms": 200, "label": "w"})).expect(201);
    eventually("it has lapsed", || service.status("a")["held"] == false);
    for _ in 0..3 {
        service.post("/v1/leases/renew", &granted.lease()).problem(410, "lease-lost");
    }
    let events = happened(&service, "a", 2);
    let told: Vec<&Value> = events.iter().map(|event| &event["what"]).collect();
    assert_eq!(told, ["lost", "granted"], "newest first, and once");
    assert_eq!((&events[0]["fence"], &events[0]["by"]["label"]), (&granted.body["fence"], &json!("w")));
}

#[test]
fn a_keyed_lease_has_one_grant_and_one_end_in_the_history() {
    let service = Service::start();
    let key = "5b1f0c52-6c1e-4d43-9d4e-3f0b7c1e9a11";
    for (name, mode, by_lease) in [("a", "exclusive", true), ("b", "exclusive", false), ("c", "shared", true)] {
        let ask = json!({"name": name, "mode": mode, "key": key, "label": "w"});
        let granted = service.lock(&ask).expect(201);
        let what = if by_lease { granted.lease() } else { json!({"name": name, "key": key}) };
        service.post("/v1/leases/release", &what).expect(204);
        let [released, begun] = &happened(&service, name, 2)[..] else { panic!("a grant and a release of {name}") };
        assert_eq!((&released["what"], &begun["what"]), (&json!("released"), &json!("granted")));
        assert_eq!(released["fence"], granted.body["fence"]);
        assert_eq!((&released["by"], &released["mode"]), (&begun["by"], &begun["mode"]));
    }
}

#[test]
fn the_event_stream_reports_changes() {
    let service = Service::start();
    service.lock(&json!({"name": "before"})).expect(201);
    let mut events = service.follow(None);
    let snapshot = events.until("snapshot").data;
    assert_eq!(names(&snapshot), ["before"]);
    assert_eq!(snapshot["nodes"]["voting"], 1);

    let granted = service.lock(&json!({"name": "a", "label": "new"})).expect(201);
    let lock = events.until("lock").data;
    assert_eq!((&lock["name"], &lock["holder"]["label"], &lock["renewals"]), (&json!("a"), &json!("new"), &json!(0)));
    events.until("look");
    events.until("look");
    service.post("/v1/leases/renew", &granted.lease()).expect(200);
    assert_eq!(events.until("lock").data["renewals"], 1);
    service.release(&granted);
    assert_eq!(events.until("gone").data["name"], "a");
    while events.until("history").data["what"] != "released" {}
}

#[test]
fn a_stream_resumes_where_it_was_cut() {
    let service = Service::start();
    let mut events = service.follow(None);
    events.until("snapshot");
    let last = events.until("look").id;
    drop(events);
    service.lock(&json!({"name": "meanwhile"})).expect(201);
    let mut again = service.follow(Some(&last));
    let mut event = again.next().unwrap();
    while ["look", "nodes"].contains(&event.what.as_str()) {
        event = again.next().unwrap();
    }
    assert_eq!((event.what.as_str(), &event.data["name"]), ("lock", &json!("meanwhile")), "no new snapshot");
    let mut foreign = service.follow(Some("0000000000000001-7"));
    assert_eq!(foreign.next().unwrap().what, "snapshot");
}

#[test]
fn streams_are_limited_for_each_client() {
    const FOLLOWERS: usize = 64;
    let service = Service::start();
    let mut following: Vec<_> = (0..FOLLOWERS).map(|_| service.follow(None)).collect();
    let ask = || answer(agent(None).get(service.url("/v1/events")).call());
    let refused = ask().problem(429, "rate-limited");
    assert!(refused.text("detail").contains("64 streams"), "{refused:?}");
    drop(following.pop());
    eventually("there is room again", || {
        let asked = agent(None).get(service.url("/v1/events")).call().unwrap();
        asked.status() == 200
    });
}
