use super::*;

fn parse(url: &str) -> Result<Seeds, String> {
    Seeds::parse(url, 26_379)
}

#[test]
fn every_part_is_read() {
    let mut seeds = parse("redis+sentinel://us%40er:p%2Fss%3A@a,[::1]:7000,b:1/main?db=3&tls=true&x=%26").unwrap();
    let host = |name: &str, port| (name.to_owned(), port);
    assert_eq!(seeds.hosts, [host("a", 26_379), host("::1", 7_000), host("b", 1)]);
    assert_eq!((seeds.login.username(), seeds.login.password()), (Some("us@er"), Some("p/ss:")));
    assert_eq!(seeds.path, "main");
    assert_eq!((seeds.setting("db").as_deref(), seeds.tls()), (Some("3"), Ok(true)));
    assert!(seeds.end("db, tls").is_err());
    assert_eq!(seeds.setting("x").as_deref(), Some("&"));
    assert_eq!(seeds.end("db, tls"), Ok(()));
    assert_eq!(seeds.title(), "a:26379,[::1]:7000,b:1");
}

#[test]
fn a_url_can_be_as_short_as_a_host() {
    let mut seeds = parse("redis+cluster://[::1]").unwrap();
    assert_eq!((seeds.hosts.len(), seeds.login.password(), seeds.path.as_str()), (1, None, ""));
    assert_eq!((seeds.title().as_str(), seeds.tls()), ("[::1]:26379", Ok(false)));
    let seeds = parse("redis+cluster://:pass@a").unwrap();
    assert_eq!((seeds.login.username(), seeds.login.password()), (None, Some("pass")));
}

#[test]
fn what_cannot_be_read_is_refused_without_being_repeated() {
    for secret in [
        "redis+sentinel:hunter2",
        "redis+sentinel://hunter2@a",
        "redis+sentinel://hunter2:@a",
        "redis+sentinel://a:hunter2",
        "redis+sentinel://a:1:hunter2:2",
        "redis+sentinel://hunter2#x",
        "redis+sentinel://:hun/ter2@a",
        "redis+sentinel://:hun?ter2@a",
        "redis+sentinel://a?hunter2",
        "redis+sentinel://a?hunter2=1&hunter2=2",
        "redis+sentinel://:hunter2%ff@a",
        "redis+sentinel://::1/hunter2",
        "redis+sentinel://a,,hunter2",
        "redis+sentinel://",
    ] {
        let error = parse(secret).err().unwrap_or_else(|| panic!("{secret} was accepted"));
        assert!(!error.contains("hun") && !error.contains("ter2"), "{secret}: {error}");
    }
    assert!(parse(&format!("redis+cluster://{}", ["a"; 65].join(","))).is_err());
}
