//! A checkpoint says which hash its state has, and no fuzzer guesses that: so it is told.

/// What a refusal says of the state hash: what was found, and what the checkpoint says.
fn hashes(refusal: &str) -> Option<(u64, u64)> {
    let mut numbers = refusal
        .split("0x")
        .skip(1)
        .map(|text| text.split(|character: char| !character.is_ascii_hexdigit()).next().unwrap_or_default());
    let mut number = || u64::from_str_radix(numbers.next()?, 16).ok();
    refusal.contains("the restored state has hash").then_some((number()?, number()?))
}

/// The bytes with the hash that `refusal` says they should hold; `None` when that was not what was refused.
pub fn repaired(bytes: &[u8], refusal: &str) -> Option<Vec<u8>> {
    let (found, expected) = hashes(refusal)?;
    let at = bytes.windows(8).position(|window| window == expected.to_le_bytes())?;
    let mut repaired = bytes.to_vec();
    repaired[at..at + 8].copy_from_slice(&found.to_le_bytes());
    Some(repaired)
}
