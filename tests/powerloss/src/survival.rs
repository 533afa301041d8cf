//! What is left of unsynced changes after a power loss: some extreme cases, and random ones.

use log::{MemDisk, Unsynced};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

/// How an image is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Survival {
    /// All of it.
    Everything,
    /// None of it.
    Nothing,
    /// All but the end of the last write.
    LastTorn,
    /// The last chunk written, and nothing before it.
    LastOnly,
    /// Each chunk at random.
    Chance,
    /// All of it, still unsynced: the process was killed, and power is lost later.
    Killed,
}

impl Survival {
    pub(crate) const ALL: [Survival; 6] = [
        Survival::Everything,
        Survival::Nothing,
        Survival::LastTorn,
        Survival::LastOnly,
        Survival::Chance,
        Survival::Killed,
    ];

    /// Whether the image differs from that of [`Survival::Everything`] when nothing waits for a sync.
    pub(crate) fn needs_unsynced(self) -> bool {
        self != Survival::Everything
    }

    /// The disk after the power loss; `seed` decides the random cases.
    pub(crate) fn image(self, disk: &MemDisk, seed: u64) -> MemDisk {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let mut below = move |n: u64| random.next_u64() % n;
        match self {
            Survival::Everything => disk.lose_power(&mut all),
            Survival::Nothing => disk.lose_power(&mut |_| 0),
            Survival::Killed => disk.fork(),
            Survival::Chance => disk.lose_power(&mut |unsynced| match unsynced {
                Unsynced::Bytes(bytes) => match below(4) {
                    0 => below(bytes + 1),
                    1 => 0,
                    _ => bytes,
                },
                Unsynced::Length => below(2),
                Unsynced::Names(changes) => below(changes + 1),
            }),
            Survival::LastTorn | Survival::LastOnly => {
                let chunks = chunks(disk);
                let mut at = 0;
                disk.lose_power(&mut |unsynced| {
                    at += u64::from(matches!(unsynced, Unsynced::Bytes(_)));
                    match (unsynced, self) {
                        (Unsynced::Bytes(bytes), Survival::LastTorn) if at == chunks => below(bytes),
                        (Unsynced::Bytes(_), Survival::LastOnly) if at < chunks => 0,
                        (Unsynced::Names(changes), _) => below(changes + 1),
                        (other, _) => all(other),
                    }
                })
            }
        }
    }
}

fn all(unsynced: Unsynced) -> u64 {
    match unsynced {
        Unsynced::Bytes(amount) | Unsynced::Names(amount) => amount,
        Unsynced::Length => 1,
    }
}

/// Number of chunks written and not synced.
fn chunks(disk: &MemDisk) -> u64 {
    let mut chunks = 0;
    disk.lose_power(&mut |unsynced| {
        chunks += u64::from(matches!(unsynced, Unsynced::Bytes(_)));
        all(unsynced)
    });
    chunks
}

/// Whether there are unsynced changes.
pub(crate) fn has_unsynced(disk: &MemDisk) -> bool {
    let mut found = false;
    disk.lose_power(&mut |unsynced| {
        found = true;
        all(unsynced)
    });
    found
}
