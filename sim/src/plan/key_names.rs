//! The names of the keys that clients use. Names are in the order of their numbers.
//!
//! ```text
//! few keys      k00, k01, ... k39
//! many keys     aaa, aab-, ... {////////0aaa, ... {////////1zzb-----     few beginnings, 3 to 300 bytes
//! ```

use crate::rng::Rng;

/// Longest beginning that all but the first names share.
const MAX_SHARED_BYTES: u64 = 180;

/// Longest part of a beginning behind what they share.
const MAX_OWN_BYTES: u64 = 80;

/// Bytes of a long name. One in [`LONG_NAME_EVERY`] is so long.
const LONG_NAME_BYTES: usize = 300;
const LONG_NAME_EVERY: u64 = 97;

/// Other names have fewer additional bytes than this.
const MAX_PADDING: u64 = 7;

/// Letters of the number of a name; enough for 17,576.
const LETTERS: u32 = 3;

/// Names of keys.
#[derive(Clone, Debug)]
pub(crate) struct KeyNames {
    /// How many there are.
    pub(crate) keys: u64,
    /// What they begin with, each about as many; none if there are few keys.
    beginnings: Vec<String>,
}

impl KeyNames {
    /// Short names, at most a hundred.
    pub(super) fn few(keys: u64) -> KeyNames {
        KeyNames { keys, beginnings: Vec::new() }
    }

    /// Names with few beginnings: none, and others that share a long part.
    pub(super) fn many(keys: u64, rng: &mut Rng) -> KeyNames {
        let shared = "/".repeat(rng.below(MAX_SHARED_BYTES) as usize);
        let mut beginnings = vec![String::new()];
        for number in 0..rng.between(2, 5) {
            let own = ".".repeat(rng.below(MAX_OWN_BYTES) as usize);
            beginnings.push(format!("{{{shared}{number}{own}"));
        }
        KeyNames { keys, beginnings }
    }

    /// Whether there are so many that trees, checkpoints and snapshots have many parts.
    pub(crate) fn are_many(&self) -> bool {
        !self.beginnings.is_empty()
    }

    /// The name with a number below [`keys`](Self::keys).
    pub(crate) fn name(&self, number: u64) -> String {
        if !self.are_many() {
            return format!("k{number:02}");
        }
        let each = self.keys.div_ceil(self.beginnings.len() as u64);
        let mut name = self.beginnings[(number / each) as usize].clone();
        name.extend((0..LETTERS).rev().map(|power| letter(number / 26_u64.pow(power) % 26)));
        let padding = match number % LONG_NAME_EVERY {
            0 => LONG_NAME_BYTES - name.len(),
            _ => (number % MAX_PADDING) as usize,
        };
        name + &"-".repeat(padding)
    }
}

fn letter(number: u64) -> char {
    char::from(b'a' + number as u8)
}

#[cfg(test)]
mod tests {
    //! Order and lengths of names.

    use super::*;
    use crate::rng::RngStream;

    #[test]
    fn names_are_in_the_order_of_their_numbers() {
        for seed in 0..20 {
            let names = KeyNames::many(5_000, &mut Rng::new(seed, RngStream::Keys));
            let all: Vec<String> = (0..names.keys).map(|number| names.name(number)).collect();
            assert!(all.is_sorted_by(|a, b| a < b), "seed {seed}");
            let lengths = all.iter().map(String::len);
            assert_eq!(
                (lengths.clone().min(), lengths.max()),
                (Some(LETTERS as usize), Some(LONG_NAME_BYTES))
            );
        }
    }
}
