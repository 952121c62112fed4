#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| quorlock::fuzzing::membership(bytes));
