//! Tests of servers that start, stop and restart.

use std::collections::HashSet;
use std::env;
use std::fs;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;

use quorlock_testkit::{Aof, RedisServer, Reply, eventually};

fn set(server: &RedisServer, key: &str, value: &str) {
    assert_eq!(server.command(&["SET", key, value]).as_str(), Some("OK"));
}

fn get(server: &RedisServer, key: &str) -> Option<String> {
    server.command(&["GET", key]).as_str().map(str::to_owned)
}

/// Whether the process is gone, or is a zombie, which no process in a container reaps.
fn is_dead(pid: &str) -> bool {
    match fs::read_to_string(format!("/proc/{pid}/stat")) {
        Ok(stat) => stat.contains(") Z "),
        Err(_) => true,
    }
}

#[test]
fn a_started_server_answers() {
    let server = RedisServer::start();
    assert!(server.is_alive());
    assert_eq!(server.command(&["PING"]).as_str(), Some("PONG"));
    assert_eq!(server.url(), format!("redis://127.0.0.1:{}", server.port()));
}

#[test]
fn every_kind_of_reply_is_read() {
    let server = RedisServer::start();
    set(&server, "text", "two\r\nlines");
    assert_eq!(server.command(&["GET", "text"]), Reply::Bulk(b"two\r\nlines".to_vec()));
    assert!(server.command(&["GET", "missing"]).is_nil());
    assert_eq!(server.command(&["INCR", "number"]).as_int(), Some(1));
    assert!(matches!(server.command(&["INCR", "text"]), Reply::Error(_)));
    let list = server.command(&["MGET", "text", "number"]);
    assert_eq!(list.strings(), ["two\r\nlines", "1"]);
}

#[test]
fn keys_lists_more_keys_than_one_page_of_a_scan_holds() {
    let server = RedisServer::start();
    let script = "for i = 1, 5000 do redis.call('SET', 'k' .. i, i) end";
    server.command(&["EVAL", script, "0"]);
    set(&server, "other", "1");
    assert_eq!(server.keys("k*").len(), 5000);
    assert_eq!(server.keys("other"), ["other"]);
}

#[test]
fn the_command_line_client_reaches_the_server() {
    let server = RedisServer::builder().password("s3cret").start();
    assert_eq!(server.cli(&["SET", "key", "value"]), "OK");
    assert_eq!(server.cli(&["GET", "key"]), "value");
}

#[test]
fn a_server_requires_its_password_and_has_it_in_its_url() {
    let server = RedisServer::builder().password("s3cret").start();
    assert_eq!(server.command(&["PING"]).as_str(), Some("PONG"));
    assert!(server.url().starts_with("redis://:s3cret@127.0.0.1:"));

    let mut client_without_password = TcpStream::connect(server.addr()).unwrap();
    client_without_password.write_all(b"PING\r\n").unwrap();
    let mut line = String::new();
    BufReader::new(client_without_password).read_line(&mut line).unwrap();
    assert!(line.starts_with("-NOAUTH"), "{line}");
}

#[test]
fn a_config_line_reaches_the_server() {
    let server = RedisServer::builder().config("maxclients", "77").start();
    let reply = server.command(&["CONFIG", "GET", "maxclients"]);
    assert_eq!(reply.strings(), ["maxclients", "77"]);
}

#[test]
fn a_killed_server_refuses_connections() {
    let server = RedisServer::start();
    server.kill();
    assert!(!server.is_alive());
    let error = server.try_command(&["PING"]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
}

#[test]
fn a_server_without_persistence_comes_back_empty_on_the_same_port() {
    let server = RedisServer::start();
    let (port, pid) = (server.port(), server.pid());
    set(&server, "key", "value");
    server.restart();
    assert_eq!(server.port(), port);
    assert_ne!(server.pid(), pid);
    assert_eq!(get(&server, "key"), None);
}

#[test]
fn an_append_only_file_survives_a_kill() {
    for aof in [Aof::Everysec, Aof::Always] {
        let server = RedisServer::builder().aof(aof).start();
        set(&server, "key", "value");
        server.kill();
        server.restart();
        assert_eq!(get(&server, "key").as_deref(), Some("value"));
    }
}

#[test]
fn a_server_that_restarts_empty_has_lost_its_append_only_file() {
    let server = RedisServer::builder().aof(Aof::Always).start();
    set(&server, "key", "value");
    server.restart_empty();
    assert_eq!(get(&server, "key"), None);
}

#[test]
fn a_kill_loses_writes_after_the_last_snapshot() {
    let server = RedisServer::builder().rdb().start();
    set(&server, "saved", "1");
    server.save();
    set(&server, "not-saved", "1");
    server.restart();
    assert_eq!(server.keys("*"), ["saved"]);
}

#[test]
fn a_clean_shutdown_keeps_everything() {
    let server = RedisServer::builder().rdb().start();
    set(&server, "key", "value");
    server.shutdown_save();
    assert!(!server.is_alive());
    server.restart();
    assert_eq!(get(&server, "key").as_deref(), Some("value"));
}

#[test]
fn a_frozen_server_does_not_answer_until_it_is_thawed() {
    let server = RedisServer::start();
    let mut stream = TcpStream::connect(server.addr()).unwrap();
    server.freeze();
    assert!(server.is_alive());
    stream.write_all(b"PING\r\n").unwrap();
    stream.set_nonblocking(true).unwrap();
    let mut reply = [0; 7];
    let error = stream.read(&mut reply).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::WouldBlock);

    server.thaw();
    stream.set_nonblocking(false).unwrap();
    stream.read_exact(&mut reply).unwrap();
    assert_eq!(&reply, b"+PONG\r\n");
}

#[test]
fn a_frozen_server_can_be_restarted() {
    let server = RedisServer::start();
    server.freeze();
    server.restart();
    assert_eq!(server.command(&["PING"]).as_str(), Some("PONG"));
}

#[test]
fn many_servers_have_ports_and_folders_of_their_own() {
    let servers = RedisServer::start_many(5);
    let ports: HashSet<_> = servers.iter().map(RedisServer::port).collect();
    let folders: HashSet<_> = servers.iter().map(RedisServer::dir).collect();
    assert_eq!((ports.len(), folders.len()), (5, 5));
    set(&servers[0], "key", "value");
    assert_eq!(get(&servers[1], "key"), None);
}

#[test]
fn a_server_outlives_the_thread_that_started_it() {
    let (server, thread) = thread::spawn(|| {
        let thread = fs::read_link("/proc/thread-self").unwrap();
        (RedisServer::start(), Path::new("/proc").join(thread))
    })
    .join()
    .unwrap();
    // The kernel sends the parent death signal before it forgets the thread.
    eventually("the thread to be gone", || !thread.exists());
    assert_eq!(server.command(&["PING"]).as_str(), Some("PONG"));
}

#[test]
fn a_restart_waits_until_a_foreign_program_frees_the_port() {
    let server = RedisServer::start();
    server.kill();
    let foreign_listener = TcpListener::bind(server.addr()).unwrap();
    thread::scope(|scope| {
        let restart = scope.spawn(|| server.restart());
        let log = server.dir().join("redis.log");
        eventually("the server to find its port taken", || {
            fs::read_to_string(&log).is_ok_and(|log| log.contains("Address already in use"))
        });
        drop(foreign_listener);
        restart.join().unwrap();
    });
    assert_eq!(server.command(&["PING"]).as_str(), Some("PONG"));
}

#[test]
fn a_dropped_server_is_dead_and_its_folder_gone() {
    let server = RedisServer::start();
    let (pid, dir) = (server.pid().to_string(), server.dir().to_owned());
    server.freeze();
    drop(server);
    assert!(is_dead(&pid));
    assert!(!dir.exists());
}

#[test]
fn a_server_is_killed_when_its_test_panics() {
    let panic = thread::spawn(|| {
        let server = RedisServer::start();
        std::panic::panic_any(server.pid().to_string());
    })
    .join()
    .unwrap_err();
    assert!(is_dead(panic.downcast_ref::<String>().unwrap()));
}

/// Runs this test again in a second process, and kills this process.
#[test]
fn a_server_dies_with_its_test_process_even_on_sigkill() {
    const INNER: &str = "QUORLOCK_TESTKIT_INNER";
    if env::var_os(INNER).is_some() {
        let server = RedisServer::start();
        println!("\nfolder {}", server.dir().display());
        println!("pid {}", server.pid());
        loop {
            thread::park();
        }
    }
    let mut inner = Command::new(env::current_exe().unwrap())
        .args(["--exact", "--nocapture"])
        .arg("redis_server::a_server_dies_with_its_test_process_even_on_sigkill")
        .env(INNER, "1")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(inner.stdout.take().unwrap()).lines();
    let mut value_of = |prefix: &str| {
        lines
            .find_map(|line| line.unwrap().strip_prefix(prefix).map(str::to_owned))
            .expect("the inner process starts a server")
    };
    let (folder, pid) = (value_of("folder "), value_of("pid "));
    inner.kill().unwrap();
    inner.wait().unwrap();
    eventually("the server to die", || is_dead(&pid));
    // The killed process could not clean up.
    fs::remove_dir_all(folder).unwrap();
}
