//! Keys and values, and what several commands check and print about them.

/// The bytes in which Go's `binary.PutVarint` writes a number that is not negative: keys of `benchmark` begin with
/// them. The rest of the key is zeros.
pub(crate) fn number_key(number: u64, size: usize) -> Vec<u8> {
    let mut key = Vec::with_capacity(size);
    let mut rest = number << 1;
    while rest >= 0x80 {
        key.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    key.push(rest as u8);
    // A size that is too small for the number gives a longer key, where benchmark ends with a panic.
    key.resize(size.max(key.len()), 0);
    key
}

/// Random bytes.
pub(crate) fn random_bytes(count: usize) -> Vec<u8> {
    let mut bytes = vec![0; count];
    fastrand::fill(&mut bytes);
    bytes
}

/// Checks the size of a key space.
pub(crate) fn check_key_space(size: i64) -> Result<u64, String> {
    u64::try_from(size)
        .ok()
        .filter(|size| *size > 0)
        .ok_or_else(|| format!("expected positive --key-space-size, got ({size})"))
}

/// The line that `benchmark` prints above the report of ranges.
pub(super) fn say_consistency(consistency: &str) {
    crate::print::say(&format!(
        "bench with {} range\n",
        if consistency == "s" { "serializable" } else { "linearizable" }
    ));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_those_of_benchmark() {
        assert_eq!(number_key(0, 8), [0; 8]);
        assert_eq!(number_key(1, 4), [2, 0, 0, 0]);
        assert_eq!(number_key(64, 4), [0x80, 1, 0, 0]);
        assert_eq!(number_key(99_999, 8), [0xbe, 0x9a, 0x0c, 0, 0, 0, 0, 0]);
        assert_eq!(number_key(99_999, 1).len(), 3);
    }
}
