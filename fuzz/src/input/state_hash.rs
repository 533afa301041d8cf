//! Corrects the state hash in an input: a checkpoint contains the hash of its state, which a fuzzer cannot guess.

/// The state hashes in the text of a refusal: the one found, and the one in the checkpoint.
fn hashes(refusal: &str) -> Option<(u64, u64)> {
    let mut numbers = refusal
        .split("0x")
        .skip(1)
        .map(|text| text.split(|character: char| !character.is_ascii_hexdigit()).next().unwrap_or_default());
    let mut number = || u64::from_str_radix(numbers.next()?, 16).ok();
    refusal.contains("the restored state has hash").then_some((number()?, number()?))
}

/// The input with the hash that was found; `None` when it was refused for another reason.
pub fn with_found_hash(bytes: &[u8], refusal: &str) -> Option<Vec<u8>> {
    let (found, expected) = hashes(refusal)?;
    let at = bytes.windows(8).position(|window| window == expected.to_le_bytes())?;
    let mut repaired = bytes.to_vec();
    repaired[at..at + 8].copy_from_slice(&found.to_le_bytes());
    Some(repaired)
}
