use super::*;

fn parse(url: &str) -> Result<NodeUrl, String> {
    NodeUrl::parse(url, None)
}

fn login(user: &str, password: &str) -> Login {
    (user.to_owned(), password.to_owned())
}

fn tcp(host: &str, port: u16) -> Address {
    Address::Tcp(host.to_owned(), port)
}

fn server(url: &str) -> Server {
    match parse(url) {
        Ok(NodeUrl::Redis(Origin::Server(server))) => server,
        other => panic!("{url}: {other:?}"),
    }
}

#[test]
fn a_server_is_parsed_from_its_url() {
    let plain = Server { address: tcp("a", 6_379), tls: false, login: None, db: 0 };
    assert_eq!(server("redis://a"), plain);
    assert_eq!(server("redis://a/"), plain);
    assert_eq!(server("rediss://a:7"), Server { address: tcp("a", 7), tls: true, ..plain.clone() });
    assert_eq!(server("redis://[::1]/3"), Server { address: tcp("::1", 6_379), db: 3, ..plain.clone() });
    let encoded = server("redis://us%40er:p%2Fss%3A@a_b.c-d");
    assert_eq!((encoded.address, encoded.login), (tcp("a_b.c-d", 6_379), Some(login("us@er", "p/ss:"))));
    assert_eq!(server("redis://:p@ss@a").login, Some(login("default", "p@ss")));
}

#[test]
fn a_socket_file_is_parsed_from_its_url() {
    let file = Server { address: Address::Unix("/run/r s.sock".into()), tls: false, login: None, db: 0 };
    for url in ["redis+unix:/run/r%20s.sock", "redis+unix:///run/r%20s.sock", "unix:/run/r s.sock"] {
        assert_eq!(server(url), file, "{url}");
    }
    let url = "unix:///run/r s.sock?db=3&user=me&pass=%26";
    assert_eq!(server(url), Server { login: Some(login("me", "&")), db: 3, ..file });
}

#[test]
fn sentinels_are_parsed_from_their_url() {
    let url = "redis+sentinel://us%40er:p%2Fss%3A@a,[::1]:7000,b:1/main-1?db=3&tls=true&sentinel_password=%26";
    let Ok(NodeUrl::Redis(Origin::Sentinels(sentinels))) = parse(url) else { panic!("not sentinels") };
    assert_eq!(
        (sentinels.service.as_str(), &sentinels.login, sentinels.db),
        ("main-1", &Some(login("us@er", "p/ss:")), 3)
    );
    let addresses = [tcp("a", 26_379), tcp("::1", 7_000), tcp("b", 1)];
    let sentinel = |address| Server { address, tls: true, login: Some(login("default", "&")), db: 0 };
    assert_eq!(sentinels.hosts, addresses.map(sentinel));
}

#[test]
fn a_cluster_is_parsed_from_its_url() {
    let seed = |host, tls| Server { address: tcp(host, 6_379), tls, login: None, db: 0 };
    assert_eq!(parse("redis+cluster://[::1]"), Ok(NodeUrl::Redis(Origin::Cluster(vec![seed("::1", false)]))));
    assert_eq!(
        parse("redis+cluster://a,b?tls=true"),
        Ok(NodeUrl::Redis(Origin::Cluster(vec![seed("a", true), seed("b", true)])))
    );
}

#[test]
fn the_default_login_applies_to_urls_without_a_password() {
    let default = Some(login("me", "pw"));
    for (url, expected) in [
        ("redis://a", default.clone()),
        ("redis://:own@a", Some(login("default", "own"))),
        ("redis+unix:/s", default.clone()),
        ("redis+cluster://a", default.clone()),
    ] {
        let found = match NodeUrl::parse(url, default.as_ref()) {
            Ok(NodeUrl::Redis(Origin::Server(server))) => server.login,
            Ok(NodeUrl::Redis(Origin::Cluster(seeds))) => seeds[0].login.clone(),
            other => panic!("{url}: {other:?}"),
        };
        assert_eq!(found, expected, "{url}");
    }
    let url = NodeUrl::parse("redis+sentinel://a/main", default.as_ref());
    let Ok(NodeUrl::Redis(Origin::Sentinels(sentinels))) = url else { panic!("{url:?}") };
    assert_eq!(
        (&sentinels.login, &sentinels.hosts[0].login),
        (&default, &None),
        "the login is for the master, not for the sentinels"
    );
}

#[test]
fn a_url_is_shown_without_login_and_settings() {
    for (url, shown) in [
        ("redis://user:hunter2@127.0.0.1:7000/3", "redis://127.0.0.1:7000"),
        ("rediss://[::1]", "rediss://[::1]:6379"),
        ("unix:/s?pass=hunter2", "redis+unix:/s"),
        ("redis+sentinel://:hunter2@a,b:7/main?sentinel_password=hunter3", "redis+sentinel://a:26379,b:7/main"),
        ("redis+cluster://:hunter2@a,[::1]:7", "redis+cluster://a:6379,[::1]:7"),
    ] {
        let Ok(NodeUrl::Redis(origin)) = parse(url) else { panic!("{url} was refused") };
        assert_eq!(origin.to_string(), shown);
    }
}

#[test]
fn the_error_of_a_url_says_what_is_wrong_and_what_to_write() {
    for (url, expected) in [
        ("a", "use redis://"),
        ("valkey://a", "use redis://"),
        ("10.0.0.1:6379", "use redis://"),
        ("sqlite:", "write sqlite:/var"),
        ("redis:a", "write redis://host:6379"),
        ("redis://", "the host name is missing"),
        ("redis://:7", "the host name is missing"),
        ("redis://0.0.0.0", "not the address"),
        ("redis://a:x", "the port must be a number from 1 to 65535"),
        ("redis://a:0", "the port must be"),
        ("redis://a:+1", "the port must be"),
        ("redis://a:65536", "the port must be"),
        ("redis://a b", "not allowed in host names"),
        ("redis://::1", "in brackets"),
        ("redis://[a]", "brackets are for IPv6"),
        ("redis://a,b", "it contains 2 hosts"),
        ("redis://a/x", "database must be a number"),
        ("redis://a/-1", "database must be a number"),
        ("redis://a?tls=true", "known here: none"),
        ("redis://me@a", "write user:password@"),
        ("redis://me:@a", "write user:password@"),
        ("redis://:%ff@a", "must be UTF-8"),
        ("rediss://a/#insecure", "has a #"),
        ("redis+unix:s", "no absolute path"),
        ("redis+unix:/s?user=a", "add pass=.."),
        ("redis+unix:/s?db=x", "database must be a number"),
        ("redis+sentinel://a", "no service"),
        ("redis+sentinel://a/", "no service"),
        ("redis+sentinel://a/main/3", "no service"),
        ("redis+sentinel://a,,b/main", "host 2: the host name is missing"),
        ("redis+sentinel://a/main?db=x", "database must be a number"),
        ("redis+sentinel://a/main?tls=perhaps", "tls must be true or false"),
        ("redis+sentinel://a/main?sentinel_username=me", "add sentinel_password=.."),
        ("redis+sentinel://a/main?password=x", "known here: db, tls, sentinel_username, sentinel_password"),
        ("redis+sentinel://a/main?tls", "write name=value"),
        ("redis+sentinel://a/main?db=1&db=1", "given twice"),
        ("rediss+sentinel://a/main", "redis+sentinel://..?tls=true"),
        ("redis+cluster://a/3", "no databases"),
        ("redis+cluster://a?db=3", "known here: tls"),
        (&format!("redis+cluster://{}", ["a"; 65].join(",")), "at most 64"),
    ] {
        let error = parse(url).expect_err(url);
        assert!(error.contains(expected), "{url}: {error}");
    }
}

#[test]
fn the_error_of_a_url_repeats_no_part_that_may_be_a_password() {
    for url in [
        "redis+sentinel:hunter2",
        "redis://hunter2@a",
        "redis://hunter2:@a",
        "redis://a:hunter2",
        "redis://a:1:hunter2:2",
        "redis://hunter2#x",
        "redis://:hun/ter2@a",
        "redis://:hun?ter2@a",
        "redis://:hun#ter2@a",
        "redis+sentinel://a?hunter2",
        "redis+sentinel://a?hunter2=1&hunter2=2",
        "redis+sentinel://:hunter2%ff@a",
        "redis+unix:s?pass=hunter2",
    ] {
        let shown = format!("{} {}", mask_url(url), parse(url).expect_err(url));
        assert!(!shown.contains("hun") && !shown.contains("ter2"), "{url}: {shown}");
    }
}

#[test]
fn an_error_numbers_the_hosts_only_if_there_are_several() {
    assert!(parse("redis://127.0.0.1:99999").unwrap_err().starts_with("the port must be"));
    assert!(parse("redis+cluster://a,127.0.0.1:99999").unwrap_err().starts_with("host 2: the port must be"));
}

#[test]
fn a_list_of_urls_in_one_url_is_recognized() {
    for url in [
        "redis://127.0.0.1:17201,redis://127.0.0.1:17202",
        "redis://:hunter2@a,redis://:hunter2@b",
        "redis://a,rediss://b/1",
        "redis+cluster://a,redis+cluster://b",
    ] {
        let error = parse(url).expect_err(url);
        assert!(error.contains("pass each URL as an item of its own") && !error.contains("hunter2"), "{url}: {error}");
        assert!(!mask_url(url).contains("hunter2"), "{}", mask_url(url));
    }
    assert_eq!(server("redis://:a,redis@h").login, Some(login("default", "a,redis")), "a comma in a password is valid");
}

#[test]
fn a_wrong_port_is_shown_only_after_text_that_cannot_be_a_username() {
    for url in ["redis://127.0.0.1:99999", "redis://[::1]:0", "redis://localhost:99999", "redis+cluster://a,10.0.0.1:0"]
    {
        assert_eq!(mask_url(url), url);
    }
    for (url, masked) in [
        ("redis://me:99999", "redis://me:***"),
        ("redis://127.0.0.1:hunter2", "redis://127.0.0.1:***"),
        ("redis://127.0.0.1:123456", "redis://127.0.0.1:***"),
        ("redis://127.0.0.1:1:99999", "redis://127.0.0.1:***"),
        ("redis://:99999@127.0.0.1:99999", "redis://:***@127.0.0.1:99999"),
        ("redis://[me]:99999", "redis://***"),
        ("redis://::1:99999", "redis://:***"),
    ] {
        assert_eq!(mask_url(url), masked);
    }
}

#[test]
fn passwords_are_masked() {
    for (url, masked) in [
        ("redis://h:1", "redis://h:1"),
        ("redis://:p@ss@h:1/2", "redis://:***@h:1/2"),
        ("rediss://me:pw@h", "rediss://me:***@h"),
        ("redis+unix:///s?user=a&pass=b", "redis+unix:///s?user=a&pass=***"),
        ("unix:/s?pass=b", "unix:/s?pass=***"),
        ("sqlite:/a@b", "sqlite:/a@b"),
        ("memory:", "memory:"),
        ("redis+sentinel://h:1,i:2/main", "redis+sentinel://h:1,i:2/main"),
        ("redis+sentinel://h/main?db=1&sentinel_password=p", "redis+sentinel://h/main?db=1&sentinel_password=***"),
        ("redis://[::1]:7", "redis://[::1]:7"),
        ("redis//me:pw@h", "***@h"),
        ("me:pw@h:1", "***@h:1"),
        ("10.0.0.1:6379", "10.0.0.1:6379"),
        ("redis://a:port", "redis://a:***"),
        // Both parts of a URL that was split at a comma in the password.
        ("redis://me:p", "redis://me:***"),
        ("w@h:1", "***@h:1"),
    ] {
        assert_eq!(mask_url(url), masked);
    }
}
