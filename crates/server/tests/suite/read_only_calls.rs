//! Read-only calls: locks, nodes, the history and the stream of events.

use quorlock_testkit::eventually;
use quorlock_testkit::http::{Answer, agent, answer};
use serde_json::{Value, json};

use crate::service::{LONG_TTL_MS, Nodes, Service};

fn names(page: &Value) -> Vec<&str> {
    page["locks"].as_array().unwrap().iter().map(|lock| lock["name"].as_str().unwrap()).collect()
}

/// Waits until the history has at least `count` events of a lock, and returns them, newest first.
fn wait_for_events(service: &Service, name: &str, count: usize) -> Vec<Value> {
    let mut events = Vec::new();
    eventually("all events are in the copy", || {
        let reply = service.get(&format!("/v1/history?name={name}")).expect(200).body;
        events.clone_from(reply["events"].as_array().unwrap());
        events.len() >= count
    });
    events
}

#[test]
fn locks_are_listed_page_by_page_in_order() {
    let service = Service::start();
    let expected: Vec<String> = (0..7).map(|number| format!("in*/{number}")).collect();
    for name in expected.iter().chain(&["inner".to_owned(), "out".to_owned()]) {
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
    assert_eq!(found, expected);
    let page = service.get("/v1/locks").expect(200).body;
    assert_eq!((names(&page).len(), &page["next"]), (9, &Value::Null));
    assert!(page["as_of"].as_u64().unwrap() > 0);
}

#[test]
fn a_page_of_more_locks_than_the_copy_holds_continues_after_the_previous_page() {
    let nodes = Nodes::start_servers(1);
    let fill_script =
        "for i = 1, 10500 do redis.call('SET', 'quorlock:held/' .. i, string.format('%032x', i), 'EX', 3600) end";
    nodes.servers[0].command(&["EVAL", fill_script, "0"]);
    let service = nodes.serve();
    let page = |cursor: &str| {
        let request = || agent(None).get(service.url("/v1/locks")).query("limit", "1").query("cursor", cursor);
        let mut reply = answer(request().call());
        eventually("the rate limit allows another read of the nodes", || {
            if reply.status == 429 {
                reply = answer(request().call());
            }
            reply.status == 200
        });
        reply.body
    };
    let first_page = page("");
    let second_page = page(first_page["next"].as_str().unwrap());
    assert_eq!((names(&first_page).len(), names(&second_page).len()), (1, 1));
    assert_ne!(names(&first_page), names(&second_page));
    for cursor in ["held/1", "keys:x", "name"] {
        let refused = answer(agent(None).get(service.url("/v1/locks")).query("cursor", cursor).call());
        assert!([400, 429].contains(&refused.status), "{cursor}: {refused:?}");
    }
}

#[test]
fn keys_without_a_lock_are_not_listed() {
    let nodes = Nodes::start_servers(1);
    let service = nodes.serve();
    // An expired queue position leaves these keys. They look like the keys of a lock until they are read.
    for key in ["quorlock~queue:quorlock:a", "quorlock~kept:quorlock:a"] {
        nodes.servers[0].command(&["ZADD", key, "1", "0000000000000001 x 00000000000000000000000000000001"]);
    }
    service.lock(&json!({"name": "b"})).expect(201);
    let page = service.get("/v1/locks?limit=1").expect(200).body;
    assert_eq!((names(&page), &page["next"]), (vec!["b"], &Value::Null));
}

#[test]
fn a_lock_of_another_program_is_held_and_its_holder_names_the_type_of_the_key() {
    let nodes = Nodes::start_servers(1);
    let service = nodes.serve();
    nodes.servers[0].command(&["HSET", "quorlock:a", "5c4e:1", "1"]);
    let foreign_holder = json!({"host": "another program", "pid": 0, "label": "key type hash"});
    let refused = service.lock(&json!({"name": "a"})).expect(409).body;
    assert_eq!((&refused["code"], &refused["holder"]), (&json!("lock-held"), &foreign_holder), "{refused}");
    let lock = service.status("a");
    let shown = (&lock["held"], &lock["holder"], &lock["fence"]);
    assert_eq!(shown, (&json!(true), &foreign_holder, &Value::Null), "{lock}");
    assert_eq!(names(&service.get("/v1/locks").expect(200).body), ["a"]);
    nodes.servers[0].command(&["DEL", "quorlock:a"]);
    service.lock(&json!({"name": "a"})).expect(201);
}

#[test]
fn an_inspection_shows_the_holder_and_each_node() {
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
    let nodes = Nodes::start_servers(3);
    let service = nodes.serve();
    service.get("/readyz").expect(200);
    nodes.servers[0].kill();
    nodes.servers[1].kill();
    eventually("the service notices the loss of the majority", || service.get_once("/readyz").status == 503);
    eventually("the problem names both silent nodes", || {
        let not_ready = service.get_once("/readyz").problem(503, "no-quorum");
        assert!(not_ready.number("retry_after_ms") > 0);
        let silent_nodes = not_ready.body["nodes"].as_array().unwrap();
        silent_nodes.len() == 2
            && silent_nodes.iter().all(|node| node["vote"] == "silent" && !node["why"].as_str().unwrap().is_empty())
    });
    let refused = service.post_once("/v1/leases", &json!({"name": "a"})).problem(503, "no-quorum");
    assert_eq!(refused.body["nodes"].as_array().unwrap().len(), 3);
    service.get("/healthz").expect(200);
}

#[test]
fn quarantined_and_unreachable_nodes_are_distinguished() {
    let nodes = Nodes::start_uninitialized(3).allow_long_leases();
    let service = nodes.serve();
    let has_votes = |reply: &Answer, expected: [&str; 3]| {
        reply.body["nodes"].as_array().unwrap().iter().map(|node| node["vote"].clone()).eq(expected)
    };
    let lock = || service.post_once("/v1/leases", &json!({"name": "a"})).problem(503, "no-quorum");
    let readyz = || service.get_once("/readyz").problem(503, "no-quorum");
    eventually("all nodes are quarantined", || has_votes(&readyz(), ["quarantined"; 3]));
    nodes.servers[2].kill();
    for call in [&lock as &dyn Fn() -> Answer, &readyz] {
        let mut reply = call();
        eventually("two nodes are quarantined, and one is unreachable", || {
            reply = call();
            has_votes(&reply, ["quarantined", "quarantined", "silent"])
        });
        assert_eq!(reply.text("title"), "Too few nodes voted");
        let pause = reply.number("retry_after_ms");
        assert!((LONG_TTL_MS / 2..=2 * LONG_TTL_MS).contains(&pause), "{pause}");
    }
}

#[test]
fn a_head_request_gets_only_the_headers() {
    let service = Service::start();
    for path in ["/healthz", "/readyz", "/v1/locks", "/v1/history", "/", "/openapi.json"] {
        let head = agent(None).head(service.url(path)).call().unwrap();
        assert_eq!(head.status(), 200, "{path}");
        let get = service.get(path).expect(200);
        assert_eq!(head.headers()["content-type"], get.content_type, "{path}");
        assert_eq!(head.into_body().read_to_string().unwrap(), "", "{path}");
    }
}

#[test]
fn grants_and_releases_are_in_the_history() {
    let service = Service::start();
    let granted = service.lock(&json!({"name": "a", "label": "w"})).expect(201);
    service.release(&granted);
    service.lock(&json!({"name": "b"})).expect(201);
    let events = wait_for_events(&service, "a", 2);
    let what_happened: Vec<&Value> = events.iter().map(|event| &event["what"]).collect();
    assert_eq!(what_happened, ["released", "granted"]);
    let newest = service.get("/v1/history?limit=1").expect(200).body;
    assert_eq!(newest["events"].as_array().unwrap().len(), 1);
}

#[test]
fn an_expired_lease_is_recorded_as_lost_when_its_renewal_fails() {
    let service = Service::start();
    let granted = service.lock(&json!({"name": "a", "ttl_ms": 200, "label": "w"})).expect(201);
    eventually("the lease has expired", || service.status("a")["held"] == false);
    for _ in 0..3 {
        service.post("/v1/leases/renew", &granted.lease()).problem(410, "lease-lost");
    }
    let events = wait_for_events(&service, "a", 2);
    let what_happened: Vec<&Value> = events.iter().map(|event| &event["what"]).collect();
    assert_eq!(what_happened, ["lost", "granted"], "the loss must be recorded only once");
    assert_eq!((&events[0]["fence"], &events[0]["by"]["label"]), (&granted.body["fence"], &json!("w")));
}

#[test]
fn a_keyed_lease_has_one_grant_and_one_end_in_the_history() {
    let service = Service::start();
    let key = "5b1f0c52-6c1e-4d43-9d4e-3f0b7c1e9a11";
    for (name, mode, is_released_by_lease) in
        [("a", "exclusive", true), ("b", "exclusive", false), ("c", "shared", true)]
    {
        let request = json!({"name": name, "mode": mode, "key": key, "label": "w"});
        let granted = service.lock(&request).expect(201);
        let release = if is_released_by_lease { granted.lease() } else { json!({"name": name, "key": key}) };
        service.post("/v1/leases/release", &release).expect(204);
        let [released, grant] = &wait_for_events(&service, name, 2)[..] else {
            panic!("a grant and a release of {name}")
        };
        assert_eq!((&released["what"], &grant["what"]), (&json!("released"), &json!("granted")));
        assert_eq!(released["fence"], granted.body["fence"]);
        assert_eq!((&released["by"], &released["mode"]), (&grant["by"], &grant["mode"]));
    }
}

#[test]
fn the_event_stream_has_a_snapshot_and_then_each_change() {
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
fn an_event_stream_resumes_after_the_last_event_id() {
    let service = Service::start();
    let mut events = service.follow(None);
    events.until("snapshot");
    let last_id = events.until("look").id;
    drop(events);
    service.lock(&json!({"name": "meanwhile"})).expect(201);
    let mut resumed_stream = service.follow(Some(&last_id));
    let mut event = resumed_stream.next().unwrap();
    while ["look", "nodes"].contains(&event.name.as_str()) {
        event = resumed_stream.next().unwrap();
    }
    assert_eq!(
        (event.name.as_str(), &event.data["name"]),
        ("lock", &json!("meanwhile")),
        "the stream must resume without a snapshot"
    );
    let mut new_stream = service.follow(Some("0000000000000001-7"));
    assert_eq!(new_stream.next().unwrap().name, "snapshot");
}

#[test]
fn event_streams_are_limited_for_each_client() {
    const FOLLOWERS: usize = 64;
    let service = Service::start();
    let mut streams: Vec<_> = (0..FOLLOWERS).map(|_| service.follow(None)).collect();
    let follow = || answer(agent(None).get(service.url("/v1/events")).call());
    let refused = follow().problem(429, "rate-limited");
    assert!(refused.text("detail").contains("64 event streams"), "{refused:?}");
    drop(streams.pop());
    eventually("a new stream is accepted again", || {
        let response = agent(None).get(service.url("/v1/events")).call().unwrap();
        response.status() == 200
    });
}
