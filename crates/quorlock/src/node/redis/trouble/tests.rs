use super::*;

#[test]
fn a_servers_error_has_no_control_characters() {
    assert_eq!(describe("ERR \x1b]0;mine\x07 no"), "ERR \u{fffd}]0;mine\u{fffd} no");
    assert_eq!(describe("\x1b[2J"), "\u{fffd}[2J");
    assert_eq!(describe("ERR a\r\nb"), "ERR a\u{fffd}\u{fffd}b");
}

#[test]
fn a_long_error_is_cut() {
    let description = describe(&format!("ERR {}", "ü".repeat(10_000)));
    assert!(description.starts_with("ERR üü") && description.len() <= QUOTE_BYTES_MAX, "{} bytes", description.len());
}

#[test]
fn an_error_does_not_repeat_the_arguments_of_its_command() {
    assert_eq!(
        describe("ERR unknown command 'HELLO', with args beginning with: '3' 'hunter2'"),
        "ERR unknown command 'HELLO'"
    );
}
