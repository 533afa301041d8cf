//! Checks a value of a flag as Go's libraries do, with their messages.

use std::time::Duration;

use crate::table::Kind;
use crate::text::quote::quoted;

/// Checks that a value fits its kind.
///
/// # Errors
///
/// Go's message, such as `strconv.ParseInt: parsing "abc": invalid syntax`.
pub fn check(kind: Kind, value: &str) -> Result<(), String> {
    match kind {
        Kind::Bool => parse_bool(value).map(drop).ok_or_else(|| {
            format!("strconv.ParseBool: parsing {}: invalid syntax", quoted(value.as_bytes()))
        }),
        Kind::Int => parse_int(value, 0).map(drop),
        Kind::Uint => parse_uint(value, 0).map(drop),
        Kind::Float => value
            .parse::<f64>()
            .map(drop)
            .map_err(|_| format!("strconv.ParseFloat: parsing {}: invalid syntax", quoted(value.as_bytes()))),
        Kind::Duration => parse_duration(value).map(drop),
        Kind::Text | Kind::List => Ok(()),
    }
}

/// The words that Go takes for true and false.
pub fn parse_bool(value: &str) -> Option<bool> {
    match value {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}

/// A number with a sign in the given base; base 0 reads the base from the text (`0x1f`, `0b1`, `0o7`, `1_000`).
///
/// # Errors
///
/// Go's message for what is no number or does not fit 64 bits.
pub fn parse_int(value: &str, base: u32) -> Result<i64, String> {
    let error = |why: &str| format!("strconv.ParseInt: parsing {}: {why}", quoted(value.as_bytes()));
    let (negative, digits) = match value.as_bytes().first() {
        Some(b'-') => (true, &value[1..]),
        Some(b'+') => (false, &value[1..]),
        _ => (false, value),
    };
    match magnitude(digits, base) {
        Ok(magnitude) if negative => {
            0i64.checked_sub_unsigned(magnitude).ok_or_else(|| error("value out of range"))
        }
        Ok(magnitude) => i64::try_from(magnitude).map_err(|_| error("value out of range")),
        Err(why) => Err(error(why)),
    }
}

/// A number without a sign in the given base; see [`parse_int`].
///
/// # Errors
///
/// Go's message for what is no number or does not fit 64 bits.
pub fn parse_uint(value: &str, base: u32) -> Result<u64, String> {
    magnitude(value, base)
        .map_err(|why| format!("strconv.ParseUint: parsing {}: {why}", quoted(value.as_bytes())))
}

fn magnitude(digits: &str, base: u32) -> Result<u64, &'static str> {
    let lower = digits.to_ascii_lowercase();
    let (base, digits) = match base {
        0 => match lower.as_bytes() {
            [b'0', b'x', ..] => (16, lower[2..].replace('_', "")),
            [b'0', b'b', ..] => (2, lower[2..].replace('_', "")),
            [b'0', b'o', ..] => (8, lower[2..].replace('_', "")),
            [b'0', _, ..] => (8, lower[1..].replace('_', "")),
            _ => (10, lower.replace('_', "")),
        },
        base => (base, lower),
    };
    if digits.is_empty() || !digits.chars().all(|digit| digit.is_digit(base)) {
        return Err("invalid syntax");
    }
    u64::from_str_radix(&digits, base).map_err(|_| "value out of range")
}

/// The units of Go's durations in nanoseconds; both signs for micro are in use.
const UNITS: [(&str, f64); 8] =
    [("ns", 1.0), ("us", 1e3), ("µs", 1e3), ("μs", 1e3), ("ms", 1e6), ("s", 1e9), ("m", 60e9), ("h", 3600e9)];

/// A duration as Go writes it: numbers with units, such as `1m30s` or `1.5h`. Negative ones count as zero: here they
/// are timeouts that have passed.
///
/// # Errors
///
/// Go's message for what is none.
pub fn parse_duration(value: &str) -> Result<Duration, String> {
    let invalid = || format!("time: invalid duration {}", quoted(value.as_bytes()));
    let (negative, mut rest) = match value.as_bytes().first() {
        Some(b'-') => (true, &value[1..]),
        Some(b'+') => (false, &value[1..]),
        _ => (false, value),
    };
    if rest == "0" {
        return Ok(Duration::ZERO);
    }
    if rest.is_empty() {
        return Err(invalid());
    }
    let mut nanoseconds = 0.0;
    while !rest.is_empty() {
        let digits =
            rest.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(rest.len());
        let number: f64 = rest[..digits].parse().map_err(|_| invalid())?;
        rest = &rest[digits..];
        let end = rest.find(|letter: char| letter.is_ascii_digit() || letter == '.').unwrap_or(rest.len());
        let unit = &rest[..end];
        if unit.is_empty() {
            return Err(format!("time: missing unit in duration {}", quoted(value.as_bytes())));
        }
        let Some((_, factor)) = UNITS.iter().find(|(name, _)| *name == unit) else {
            let unit = quoted(unit.as_bytes());
            return Err(format!("time: unknown unit {unit} in duration {}", quoted(value.as_bytes())));
        };
        nanoseconds += number * factor;
        rest = &rest[end..];
    }
    if nanoseconds > i64::MAX as f64 {
        return Err(invalid());
    }
    Ok(if negative { Duration::ZERO } else { Duration::from_nanos(nanoseconds as u64) })
}
