use std::time::Duration;

use super::*;

#[test]
fn a_title_names_sentinels_and_service_and_nothing_else() {
    let url = "redis+sentinel://user:hunter2@a,b:7/main-1?db=3&sentinel_username=me&sentinel_password=hunter3&tls=true";
    let (title, sentinels) = Sentinels::parse(url, None).unwrap();
    assert_eq!(title, "redis+sentinel://a:26379,b:7/main-1");
    assert_eq!((sentinels.login.db(), sentinels.login.password(), sentinels.tls), (3, Some("hunter2"), true));
    let login = sentinels.hosts[1].redis_settings();
    assert_eq!((login.username(), login.password(), login.db()), (Some("me"), Some("hunter3"), 0));
    let login = ("user".to_owned(), "hunter2".to_owned());
    let (_, sentinels) = Sentinels::parse("redis+sentinel://a/main?db=3", Some(&login)).unwrap();
    assert_eq!((sentinels.login.db(), sentinels.login.password()), (3, Some("hunter2")));
    assert_eq!(sentinels.hosts[0].redis_settings().password(), None, "it is the master's");
}

#[test]
fn what_is_missing_or_not_known_is_refused() {
    for (url, says) in [
        ("redis+sentinel://a", "service"),
        ("redis+sentinel://a/", "service"),
        ("redis+sentinel://a/main/3", "service"),
        ("redis+sentinel://a/main?db=x", "db"),
        ("redis+sentinel://a/main?tls=perhaps", "tls"),
        ("redis+sentinel://a/main?sentinel_username=me", "password"),
        ("redis+sentinel://a/main?password=x", "sentinel_password"),
    ] {
        let error = Sentinels::parse(url, None).err().unwrap_or_else(|| panic!("{url} was accepted"));
        assert!(error.contains(says), "{url}: {error}");
    }
}

#[tokio::test]
async fn sentinels_that_cannot_be_reached_are_named_with_their_reasons() {
    let (_, sentinels) = Sentinels::parse("redis+sentinel://:hunter2@127.0.0.1:1,127.0.0.1:2/main", None).unwrap();
    let Err(Trouble::Unreachable(why)) = sentinels.master(Duration::from_secs(5)).await else { panic!("reached") };
    assert!(why.contains("127.0.0.1:1 ") && why.contains("127.0.0.1:2 ") && !why.contains("hunter2"), "{why}");
}

#[test]
fn only_a_switch_of_this_service_names_a_master() {
    let said = |text: &str| {
        let data = [Value::BulkString(SWITCH.into()), Value::BulkString(text.into())];
        switched("main", &PushKind::Message, &data)
    };
    for other in ["main2 h 1 h 2", "mai", "", "main h 1 h", "main h 1 h x", "main h 1 h 2 3"] {
        assert_eq!(said(other), None, "{other:?}");
    }
    assert_eq!(said("main 10.0.0.1 1 10.0.0.2 2"), Some(("10.0.0.2".into(), 2)));
}
