//! `grpc-timeout`: up to eight digits and a unit, as in `150m`, 150 milliseconds. Rules and texts are grpc-go's.

use std::time::Duration;

/// Digits and unit.
const MAX_BYTES: usize = 9;

/// Reads a time.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn decode(value: &[u8]) -> Result<Duration, String> {
    let text = String::from_utf8_lossy(value);
    let fault = |what: &str| Err(format!("transport: timeout {what}: {text:?}"));
    let Some((unit, digits)) = value.split_last().filter(|(_, digits)| !digits.is_empty()) else {
        return fault("string is too short");
    };
    if value.len() > MAX_BYTES {
        return fault("string is too long");
    }
    let unit = match unit {
        b'H' => Duration::from_secs(3_600),
        b'M' => Duration::from_secs(60),
        b'S' => Duration::from_secs(1),
        b'm' => Duration::from_millis(1),
        b'u' => Duration::from_micros(1),
        b'n' => Duration::from_nanos(1),
        _ => return fault("unit is not recognized"),
    };
    if !digits.iter().all(u8::is_ascii_digit) {
        let digits = String::from_utf8_lossy(digits);
        return Err(format!("strconv.ParseUint: parsing {digits:?}: invalid syntax"));
    }
    let count = digits.iter().fold(0, |sum, digit| sum * 10 + u32::from(digit - b'0'));
    Ok(unit * count)
}

#[cfg(test)]
mod tests {
    //! Times, and what is none.
    use super::*;

    #[test]
    fn times_have_digits_and_a_unit() {
        for (text, time) in [
            ("0n", Duration::ZERO),
            ("150m", Duration::from_millis(150)),
            ("00000001S", Duration::from_secs(1)),
            ("99999999H", Duration::from_secs(99_999_999 * 3_600)),
            ("7u", Duration::from_micros(7)),
            ("2M", Duration::from_secs(120)),
        ] {
            assert_eq!(decode(text.as_bytes()), Ok(time));
        }
        for (text, why) in [
            ("", "transport: timeout string is too short: \"\""),
            ("S", "transport: timeout string is too short: \"S\""),
            ("123456789S", "transport: timeout string is too long: \"123456789S\""),
            ("1s", "transport: timeout unit is not recognized: \"1s\""),
            ("-1S", "strconv.ParseUint: parsing \"-1\": invalid syntax"),
        ] {
            assert_eq!(decode(text.as_bytes()), Err(why.to_owned()));
        }
    }
}
