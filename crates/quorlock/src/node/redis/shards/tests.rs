use super::*;

fn range(first: i64, last: i64, host: &Value, port: i64) -> Value {
    let server = |port| Value::Array(vec![host.clone(), Value::Int(port), Value::Text("id".into())]);
    Value::Array(vec![Value::Int(first), Value::Int(last), server(port), server(port + 1)])
}

fn server(host: &str, port: u16) -> Server {
    Server { address: Address::Tcp(host.into(), port), tls: true, login: None, db: 0 }
}

fn parse(value: &Value) -> Result<Shards, Trouble> {
    Shards::parse(value, &server("seed", 9))
}

fn host(name: &str) -> Value {
    Value::Text(name.into())
}

#[test]
fn every_slot_has_the_lane_of_its_master() {
    let ranges = [range(0, 99, &host("a"), 1), range(100, 16_382, &host("b"), 1), range(16_383, 16_383, &host("a"), 1)];
    let shards = parse(&Value::Array(ranges.to_vec())).unwrap();
    assert_eq!(shards.masters, [server("a", 1), server("b", 1)]);
    assert_eq!([0, 99, 100, 16_382, 16_383].map(|slot| shards.lanes[slot]), [0, 0, 1, 1, 0]);
}

#[test]
fn a_server_that_does_not_know_its_address_gets_the_address_of_the_seed() {
    for unknown in [Value::Nil, host("")] {
        let shards = parse(&Value::Array(vec![range(0, 16_383, &unknown, 7)])).unwrap();
        assert_eq!(shards.masters, [server("seed", 7)]);
    }
}

#[test]
fn a_cluster_with_slots_without_a_master_is_unreachable() {
    let Err(Trouble::Unreachable(why)) = parse(&Value::Array(vec![range(5, 16_383, &host("a"), 1)])) else {
        panic!("slots without a master were accepted")
    };
    assert!(why.contains("5 of its 16384"), "{why}");
    assert!(matches!(parse(&Value::Array(vec![])), Err(Trouble::Unreachable(_))));
}

#[test]
fn a_malformed_reply_to_cluster_slots_is_refused() {
    for wrong in [
        Value::Nil,
        Value::Array(vec![Value::Int(1)]),
        Value::Array(vec![range(7, 5, &host("a"), 1)]),
        Value::Array(vec![range(-1, 5, &host("a"), 1)]),
        Value::Array(vec![range(0, 16_384, &host("a"), 1)]),
        Value::Array(vec![range(0, 16_383, &host("a"), 65_536)]),
        Value::Array(vec![range(0, 16_383, &host("?"), 1)]),
        Value::Array(vec![range(0, 16_383, &Value::Int(1), 1)]),
    ] {
        assert!(matches!(parse(&wrong), Err(Trouble::Broken(_))), "{wrong:?}");
    }
}
