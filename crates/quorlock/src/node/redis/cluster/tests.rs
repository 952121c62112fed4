use super::*;

#[test]
fn a_title_names_the_seeds_and_nothing_else() {
    let constants = || Constants { cluster: String::new(), nodes: 1, max_ttl_millis: 1, max_skew_micros: 1 };
    let new = |url: &str| ClusterNode::new(url, None, constants(), Duration::from_secs(1));
    let node = new("redis+cluster://user:hunter2@a,b:7001?tls=true").unwrap();
    assert_eq!(node.title(), "redis+cluster://a:6379,b:7001");
    assert_eq!((node.setup.login.password(), node.setup.tls), (Some("hunter2"), true));
    for (url, says) in [("redis+cluster://a/3", "databases"), ("redis+cluster://a?db=3", "tls")] {
        let error = new(url).err().unwrap_or_else(|| panic!("{url} was accepted"));
        assert!(error.contains(says), "{url}: {error}");
    }
}
