//! Values of options.

use std::time::Duration;

/// The units of Go's times, in nanoseconds.
const UNITS: [(&str, f64); 7] =
    [("ns", 1.0), ("us", 1e3), ("µs", 1e3), ("ms", 1e6), ("s", 1e9), ("m", 60e9), ("h", 3600e9)];

/// The largest key or value that is made: far more than any server takes.
const MAX_SIZE_BYTES: usize = 1 << 30;

/// The most watchers, streams and the like: each takes memory here.
const MAX_COUNT: usize = 10_000_000;

/// Bytes of a key or a value.
///
/// # Errors
/// What is no number, or one beyond the limit.
pub(crate) fn size(text: &str) -> Result<usize, String> {
    up_to(text, MAX_SIZE_BYTES)
}

/// How many there are of something that takes memory.
///
/// # Errors
/// What is no number, or one beyond the limit.
pub(crate) fn count(text: &str) -> Result<usize, String> {
    up_to(text, MAX_COUNT)
}

fn up_to(text: &str, max: usize) -> Result<usize, String> {
    text.parse()
        .ok()
        .filter(|value| *value <= max)
        .ok_or_else(|| format!("{text:?} is not a number from 0 to {max}"))
}

/// A time as Go writes it: numbers with units, such as `1m30s` or `1.5h`.
///
/// # Errors
/// What is no such time, with an example of one.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("{text:?} is not a time such as 30s, 5m or 1h30m");
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    let (mut rest, mut nanoseconds) = (text, 0.0);
    while !rest.is_empty() {
        let digits = rest.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(0);
        let number: f64 = rest[..digits].parse().map_err(|_| wrong())?;
        rest = &rest[digits..];
        let end = rest.find(|letter: char| letter.is_ascii_digit()).unwrap_or(rest.len());
        let unit = UNITS.iter().find(|(name, _)| *name == &rest[..end]).ok_or_else(wrong)?;
        nanoseconds += number * unit.1;
        rest = &rest[end..];
    }
    if text.is_empty() || nanoseconds > i64::MAX as f64 {
        return Err(wrong());
    }
    Ok(Duration::from_nanos(nanoseconds as u64))
}

/// A share of a mix: a name and a weight, such as `put=3`.
///
/// # Errors
/// What is no such share.
pub(crate) fn share(text: &str) -> Result<(String, f64), String> {
    let wrong = || format!("{text:?} is not a share such as put=3");
    let (name, weight) = text.split_once('=').ok_or_else(wrong)?;
    let weight: f64 = weight.parse().map_err(|_| wrong())?;
    if !weight.is_finite() || weight < 0.0 {
        return Err(wrong());
    }
    Ok((name.to_owned(), weight))
}
