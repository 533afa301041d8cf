//! Ends of key ranges, by the rules of the API: a range ends before `range_end`, and `range_end` = `\0` stands for all
//! keys from the first one on.
//!
//! ```text
//! prefix "a"       range "a" .. "b"
//! prefix "a\xff"   range "a\xff" .. "b"
//! prefix "\xff"    range "\xff" .. "\0": no key follows all of them
//! ```

use bytes::Bytes;

/// The `range_end` of a range that reaches to the last key.
pub const TO_THE_END: &[u8] = b"\0";

/// The `range_end` of all keys that begin with `prefix`: the first key behind them, or [`TO_THE_END`].
pub fn prefix_end(prefix: &[u8]) -> Bytes {
    let mut end = prefix.to_vec();
    while let Some(last) = end.pop() {
        if last < 0xff {
            end.push(last + 1);
            return end.into();
        }
    }
    Bytes::from_static(TO_THE_END)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_ends_before_the_next_one() {
        assert_eq!(prefix_end(b"a").as_ref(), b"b");
        assert_eq!(prefix_end(b"a\xff").as_ref(), b"b");
        assert_eq!(prefix_end(b"\xff").as_ref(), b"\0");
        assert_eq!(prefix_end(b"").as_ref(), b"\0");
    }

    #[test]
    fn a_range_ends_behind_the_slash() {
        assert_eq!(prefix_end(b"m/")[..], b"m0"[..]);
        assert_eq!(prefix_end(b"/")[..], b"0"[..]);
    }
}
