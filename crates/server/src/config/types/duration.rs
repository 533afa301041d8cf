//! Durations as Go writes them, since that is what users' flags and files hold: `1h30m`, `1.5s`, `100ms`, `0`.

use std::time::Duration;

const UNITS: [(&str, u64); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("μs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60 * 1_000_000_000),
    ("h", 3_600 * 1_000_000_000),
];

/// Reads a duration.
///
/// # Errors
/// Text that is not a duration, a negative duration, or one beyond Go's limit of 2^63 ns (about 292 years).
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    let invalid = || format!("invalid duration {text:?}, expected for example 300ms, 1.5s or 1h30m");
    if text.starts_with('-') && text != "-0" {
        return Err(format!("duration {text:?} must not be negative"));
    }
    let mut rest = text.strip_prefix(['+', '-']).unwrap_or(text);
    if rest == "0" {
        return Ok(Duration::ZERO);
    }
    if rest.is_empty() {
        return Err(invalid());
    }
    let mut total: u64 = 0;
    while !rest.is_empty() {
        let (ns, after) = leading_part(rest).ok_or_else(invalid)?;
        total = total.checked_add(ns).filter(|&total| total <= i64::MAX as u64).ok_or_else(invalid)?;
        rest = after;
    }
    Ok(Duration::from_nanos(total))
}

/// The nanoseconds of the first number with its unit, and what follows.
fn leading_part(text: &str) -> Option<(u64, &str)> {
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, after) = text.split_at(digits);
    let letters = after.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(after.len());
    let (unit, after) = after.split_at(letters);
    let (_, scale) = UNITS.iter().find(|(name, _)| *name == unit)?;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let whole = if whole.is_empty() { 0 } else { whole.parse::<u64>().ok()? };
    Some((whole.checked_mul(*scale)?.checked_add(fraction_of(fraction, *scale)?)?, after))
}

/// `scale` times the decimal fraction with these digits, rounded down.
fn fraction_of(digits: &str, scale: u64) -> Option<u64> {
    // Digits beyond these are less than a nanosecond in any unit.
    let digits = &digits[..digits.len().min(18)];
    if digits.is_empty() {
        return Some(0);
    }
    let value = digits.parse::<u64>().ok()?;
    u64::try_from(u128::from(value) * u128::from(scale) / 10u128.pow(digits.len() as u32)).ok()
}

#[cfg(test)]
mod tests {
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
        for text in
            ["", "5", "s", ".s", "1.2.3s", "1d", "1 s", "-5s", "99999999999999h", "1hx", "+", "1\u{663}s"]
        {
            assert!(parse(text).is_err(), "{text}");
        }
        assert_eq!(parse("-5s").expect_err("negative"), "duration \"-5s\" must not be negative");
    }
}
