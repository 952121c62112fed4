use ::redis::cmd;
use proptest::prelude::*;

use super::super::*;

proptest! {
    #[test]
    fn redis_rs_encodes_commands_to_the_same_bytes(
        texts in prop::collection::vec(".{0,40}", 0..12),
        numbers: [u64; 3],
    ) {
        let (mut commands, mut expected) = (Commands::default(), Vec::new());
        for number in numbers {
            let mut command = cmd("SET");
            command.arg(&texts).arg(texts.concat()).arg(number);
            expected.extend(command.get_packed_command());
            commands.command("SET");
            for text in &texts {
                commands.word(text);
            }
            let parts: Vec<&[u8]> = texts.iter().map(String::as_bytes).collect();
            commands.joined(parts).number(number);
        }
        prop_assert_eq!(commands.as_bytes(), &*expected);
        prop_assert_eq!(commands.len(), 3);
    }
}

#[test]
fn cleared_commands_are_like_new_commands() {
    let mut commands = Commands::default();
    for _ in 0..2 {
        commands.command("PING").word("x".repeat(2 * CAPACITY_KEPT_MAX));
        commands.clear();
        assert_eq!((commands.len(), commands.as_bytes()), (0, &[][..]));
        assert!(commands.bytes.capacity() <= CAPACITY_KEPT_MAX);
    }
    commands.command("PING");
    assert_eq!(commands.as_bytes(), b"*1\r\n$4\r\nPING\r\n");
}

#[test]
fn numbers_are_formatted_with_all_their_digits() {
    for number in [0, 9, 10, u64::MAX] {
        assert_eq!(decimal(number, &mut [0; DIGITS_MAX]), number.to_string().as_bytes());
    }
}
