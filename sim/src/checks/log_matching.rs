//! Log matching: two logs that have an entry of the same index and term have the same entry there, and the
//! same before it.
//! Looked at in every append on its way and in every log that a crash leaves behind.

use std::collections::BTreeMap;

use consensus::{Body, Message};

use crate::report::Violation;

const CHECK: &str = "log matching";

/// All entries ever seen.
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
            self.seen(entry.index, entry.term, entry.checksum(), before)?;
            before = entry.term;
        }
        Ok(())
    }

    /// A log was read after a crash: its entries as (index, term, checksum), and the term before the first,
    /// if that is
    /// known.
    pub(crate) fn read(&mut self, before: Option<u64>, entries: &[(u64, u64, u32)]) -> Result<(), Violation> {
        let mut before = before;
        for &(index, term, checksum) in entries {
            if let Some(before) = before {
                self.seen(index, term, checksum, before)?;
            }
            before = Some(term);
        }
        Ok(())
    }

    fn seen(&mut self, index: u64, term: u64, checksum: u32, before: u64) -> Result<(), Violation> {
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
