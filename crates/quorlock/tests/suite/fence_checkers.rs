//! Runs the examples that check fences against real databases.

#[path = "../../examples/fence_redis.rs"]
mod fence_redis;
#[path = "../../examples/fence_sql.rs"]
mod fence_sql;
mod postgres;

use postgres::Postgres;
use quorlock_testkit::RedisServer;
use rusqlite::Connection;

#[test]
fn a_table_accepts_the_same_fence_again_and_no_lower_one() {
    let database = Connection::open_in_memory().unwrap();
    fence_sql::create_table(&database).unwrap();
    let write = |cents, fence| fence_sql::write(&database, "7", cents, fence).unwrap();
    assert!(write(1, 5) && write(2, 5) && write(3, 1_763_267_021_482_113));
    assert!(!write(4, 6) && !write(5, 1_763_267_021_482_112));
    let cents: i64 = database.query_row("SELECT cents FROM account", [], |row| row.get(0)).unwrap();
    assert_eq!(cents, 3, "a rejected write changed the table");
}

#[test]
fn a_script_accepts_the_same_fence_again_and_no_lower_one() {
    let server = RedisServer::start();
    let mut connection = redis::Client::open(server.url()).unwrap().get_connection().unwrap();
    let mut write = |value, fence| fence_redis::write(&mut connection, "report", value, fence).unwrap();
    assert!(write("a", 5) && write("b", 5) && write("c", 1_763_267_021_482_113));
    assert!(!write("d", 6) && !write("e", 1_763_267_021_482_112));
    assert_eq!(server.command(&["HGET", "report", "value"]).as_str(), Some("c"));
}

/// Runs only if PostgreSQL is installed.
#[test]
fn postgresql_accepts_the_same_fence_again_and_no_lower_one() {
    let Some(database) = Postgres::start() else {
        println!("NOT RUN: PostgreSQL is not installed");
        return;
    };
    database.run(fence_sql::CREATE_TABLE);
    let writes = [(1, 5), (2, 5), (3, 1_763_267_021_482_113_u64), (4, 6), (5, 1_763_267_021_482_112)];
    let statements = writes.map(|(cents, fence)| format!("EXECUTE fenced({cents}, {fence}, '7');")).concat();
    let output = database.run(&format!("PREPARE fenced(bigint, bigint, text) AS {}; {statements}", fence_sql::WRITE));
    let updates: Vec<&str> = output.lines().filter(|line| line.starts_with("UPDATE")).collect();
    assert_eq!(updates, ["UPDATE 1", "UPDATE 1", "UPDATE 1", "UPDATE 0", "UPDATE 0"], "{output}");
    assert_eq!(database.run("SELECT cents FROM account").trim(), "3", "a rejected write changed the table");
}
