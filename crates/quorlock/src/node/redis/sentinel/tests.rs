use super::*;
use crate::node::url::{NodeUrl, Origin};

#[tokio::test]
async fn sentinels_that_cannot_be_reached_are_named_with_their_reasons() {
    let url = NodeUrl::parse("redis+sentinel://:hunter2@127.0.0.1:1,127.0.0.1:2/main", None);
    let Ok(NodeUrl::Redis(Origin::Sentinels(sentinels))) = url else { panic!("{url:?}") };
    let Err(Trouble::Unreachable(why)) = sentinels.master(Duration::from_secs(5)).await else {
        panic!("a sentinel was reached")
    };
    assert!(why.contains("127.0.0.1:1 ") && why.contains("127.0.0.1:2 ") && !why.contains("hunter2"), "{why}");
}

#[test]
fn only_an_announcement_about_this_service_names_a_master() {
    let push = |kind: &str, text: &str| [kind, SWITCH_CHANNEL, text].map(|text| Value::Text(text.into()));
    let master_of = |text: &str| announced_master("main", &push("message", text));
    for other in ["main2 h 1 h 2", "mai", "", "main h 1 h", "main h 1 h x", "main h 1 h 2 3"] {
        assert_eq!(master_of(other), None, "{other:?}");
    }
    assert_eq!(master_of("main 10.0.0.1 1 10.0.0.2 2"), Some(Address::Tcp("10.0.0.2".into(), 2)));
    assert_eq!(announced_master("main", &push("pmessage", "main h 1 h 2")), None);
}
