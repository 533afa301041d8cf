//! Invariant (Raft's log matching): if two logs have an entry of equal index and term, that entry and all before it are
//! equal.
//!
//! Checked in every append that is sent, and in every log that a power loss leaves behind. It is enough to compare each
//! entry with its predecessor's term; equality of the rest follows by induction.

use std::collections::BTreeMap;

use consensus::{Body, Message};

use crate::report::trace::Violation;

const CHECK: &str = "log matching";

/// All entries that were sent or found in a log.
#[derive(Default)]
pub(crate) struct LogMatching {
    /// (index, term) -> (checksum, term of the entry before it)
    entries: BTreeMap<(u64, u64), (u32, u64)>,
}

impl LogMatching {
    /// An append is sent.
    pub(crate) fn sent(&mut self, message: &Message) -> Result<(), Violation> {
        let Body::Append { previous_term, entries, .. } = &message.body else { return Ok(()) };
        let mut before = *previous_term;
        for entry in entries {
            self.compare(entry.index, entry.term, entry.checksum(), before)?;
            before = entry.term;
        }
        Ok(())
    }

    /// A log was read after a power loss: its entries as (index, term, checksum), and the term before the first, if it
    /// is known.
    pub(crate) fn read(&mut self, before: Option<u64>, entries: &[(u64, u64, u32)]) -> Result<(), Violation> {
        let mut before = before;
        for &(index, term, checksum) in entries {
            if let Some(before) = before {
                self.compare(index, term, checksum, before)?;
            }
            before = Some(term);
        }
        Ok(())
    }

    fn compare(&mut self, index: u64, term: u64, checksum: u32, before: u64) -> Result<(), Violation> {
        let known = *self.entries.entry((index, term)).or_insert((checksum, before));
        if known != (checksum, before) {
            let text = format!(
                "entry {index} of term {term} has checksum {checksum:08x} after term {before}, elsewhere {:08x} \
                 after term {}",
                known.0, known.1
            );
            return Violation::err(CHECK, text);
        }
        Ok(())
    }
}
