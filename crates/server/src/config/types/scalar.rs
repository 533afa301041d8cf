//! Booleans and whole numbers as Go reads them, since users' flags and files hold what Go reads.

/// A boolean as Go reads it.
pub(in crate::config) fn parse_bool(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}

/// A number of at most `bits` bits, decimal or with Go's prefixes `0x`, `0o`, `0b`.
pub(in crate::config) fn parse_count(text: &str, bits: u32) -> Option<u64> {
    let (digits, radix) = match text.get(..2).map(str::to_ascii_lowercase).as_deref() {
        Some("0x") => (&text[2..], 16),
        Some("0o") => (&text[2..], 8),
        Some("0b") => (&text[2..], 2),
        _ => (text, 10),
    };
    if !digits.starts_with(|c: char| c.is_digit(radix)) {
        return None;
    }
    let value = u64::from_str_radix(digits, radix).ok()?;
    (bits >= u64::BITS || value >> bits == 0).then_some(value)
}

/// A whole number with an optional sign.
pub(in crate::config) fn parse_integer(text: &str) -> Option<i64> {
    match text.strip_prefix('-') {
        Some(digits) => 0i64.checked_sub_unsigned(parse_count(digits, u64::BITS)?),
        None => i64::try_from(parse_count(text.strip_prefix('+').unwrap_or(text), u64::BITS)?).ok(),
    }
}
