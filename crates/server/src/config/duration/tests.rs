//! Durations agree with Go's `time.ParseDuration`.

use super::*;

#[test]
fn go_durations_are_read() {
    let cases = [
        ("0", 0),
        ("0s", 0),
        ("-0", 0),
        ("1ns", 1),
        ("7us", 7_000),
        ("7µs", 7_000),
        ("100ms", 100_000_000),
        ("1.5s", 1_500_000_000),
        (".5s", 500_000_000),
        ("1.s", 1_000_000_000),
        ("+5s", 5_000_000_000),
        ("1h15m30.918s", 4_530_918_000_000),
        ("0.0000000000000000000001s", 0),
    ];
    for (text, ns) in cases {
        assert_eq!(parse(text), Ok(Duration::from_nanos(ns)), "{text}");
    }
}

#[test]
fn everything_else_is_refused() {
    for text in ["", "5", "s", ".s", "1.2.3s", "1d", "1 s", "-5s", "99999999999999h", "1hx", "+", "1\u{663}s"]
    {
        assert!(parse(text).is_err(), "{text}");
    }
    assert_eq!(parse("-5s").expect_err("negative"), "duration \"-5s\" must not be negative");
}
