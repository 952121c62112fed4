use super::*;
use crate::error::AcquireError;

async fn config_error(builder: ClientBuilder) -> String {
    match builder.memory(&MemoryNodes::new(1)).connect().await {
        Err(ConnectError::Config(error)) => error.to_string(),
        other => panic!("the settings were accepted: {other:?}"),
    }
}

#[test]
fn a_builder_does_not_show_passwords() {
    let builder = Client::builder().nodes(["redis://user:hunter2@127.0.0.1"]);
    assert!(!format!("{builder:?}").contains("hunter2"));
}

#[tokio::test]
async fn settings_out_of_bounds_are_named() {
    let day = Duration::from_secs(86_400);
    for (builder, setting) in [
        (Client::builder().max_ttl(day * 2), "max_ttl"),
        (Client::builder().max_clock_skew(Duration::MAX), "twice max_clock_skew"),
        (Client::builder().max_clock_step_back(Duration::MAX), "max_clock_step_back"),
        (Client::builder().min_validity(Duration::MAX), "min_validity"),
        (Client::builder().node_deadline(Duration::from_nanos(1)), "node_deadline"),
        (Client::builder().node_deadline(day), "node_deadline"),
        (Client::builder().drift(Drift { ppm: 900_000, fixed: Duration::ZERO }), "drift"),
        (Client::builder().drift(Drift { ppm: 0, fixed: Duration::MAX }), "drift"),
        (Client::builder().key_template("no name"), "{name}"),
        (Client::builder().retry(Retry { attempts: Some(0), ..Retry::default() }), "attempts"),
        (Client::builder().retry(Retry { min: day, ..Retry::default() }), "retry.max"),
        (Client::builder().renewals(Renewals::Watchdog { every: Some(Duration::ZERO), lifetime: day }), "renewal"),
        (Client::builder().renewals(Renewals::Watchdog { every: Some(day), lifetime: day }), "renewal"),
    ] {
        let error = config_error(builder).await;
        assert!(error.contains(setting), "{setting:?} is not in: {error}");
    }
}

#[tokio::test]
async fn a_ttl_too_short_for_the_clients_settings_is_refused_at_once() {
    let builder = Client::builder().memory(&MemoryNodes::new(1)).min_validity(Duration::from_secs(10));
    let client = builder.connect().await.unwrap();
    let error = client.lock("a").ttl(Duration::from_secs(5)).acquire().await.unwrap_err();
    assert!(matches!(&error, AcquireError::Config(why) if why.to_string().contains("min_validity")), "{error}");
}

#[tokio::test]
async fn retries_without_delays_do_not_block_other_tasks() {
    let nodes = MemoryNodes::new(1);
    nodes.down(0);
    let retry = Retry { min: Duration::ZERO, max: Duration::ZERO, attempts: None };
    let client = Client::builder().memory(&nodes).retry(retry).connect_lazy().await.unwrap();
    let lock = client.lock("a");
    let waiting = tokio::spawn(async move { lock.acquire().await.map(|lease| lease.name().clone()) });
    nodes.up(0);
    assert_eq!(waiting.await.unwrap().unwrap().as_str(), "a");
}

#[tokio::test]
async fn a_node_that_promotes_replicas_must_be_the_only_node() {
    let urls = ["redis://a", "redis+sentinel://:hunter2@b/main?sentinel_password=hunter3", "redis://c"];
    let error = Client::builder().nodes(urls).connect().await.unwrap_err().to_string();
    assert!(error.starts_with("redis+sentinel://b:26379/main cannot be one of several nodes"), "{error}");
    let urls = ["redis+cluster://:hunter2@a,b", "redis://c", "redis://d"];
    let error = Client::builder().nodes(urls).connect().await.unwrap_err().to_string();
    assert!(error.starts_with("redis+cluster://a:6379,b:6379 cannot be one of several nodes"), "{error}");
}
