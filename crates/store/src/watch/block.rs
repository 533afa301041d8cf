//! The events of one batch that one group of watchers gets: matched once, encoded once.
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;

use super::encode::{self, Encoded};
use crate::{Damaged, Event, Values};

/// Part of a published batch. Never empty.
pub(super) struct Block {
    batch: Arc<[Event]>,
    /// Positions in `batch`, rising.
    picked: Box<[u32]>,
    prev_kv: bool,
    encoded: OnceLock<Encoded>,
    /// Held while encoding, so that values are read once.
    encoding: Mutex<()>,
}

impl Block {
    pub(super) fn new(batch: Arc<[Event]>, picked: Box<[u32]>, prev_kv: bool) -> Self {
        assert!(!picked.is_empty(), "a block has events");
        Self { batch, picked, prev_kv, encoded: OnceLock::new(), encoding: Mutex::new(()) }
    }

    /// Cuts the picked events of a batch into blocks of about `max_bytes` each, between revisions only.
    pub(super) fn cut(batch: &Arc<[Event]>, picked: &[u32], prev_kv: bool, max_bytes: usize) -> Vec<Self> {
        let event = |position: &u32| &batch[*position as usize];
        let mut blocks = Vec::new();
        let mut rest = picked;
        while !rest.is_empty() {
            let count = encode::fitting(rest.iter().map(event), prev_kv, max_bytes);
            let (now, later) = rest.split_at(count);
            blocks.push(Self::new(batch.clone(), now.into(), prev_kv));
            rest = later;
        }
        blocks
    }

    pub(super) fn first_revision(&self) -> i64 {
        self.events().next().map_or(0, |event| event.kv.mod_revision.main)
    }

    pub(super) fn last_revision(&self) -> i64 {
        self.events().next_back().map_or(0, |event| event.kv.mod_revision.main)
    }

    pub(super) fn len(&self) -> usize {
        self.picked.len()
    }

    /// About as many bytes as the encoding will have.
    pub(super) fn weight(&self) -> usize {
        self.events().map(|event| encode::weight(event, self.prev_kv)).sum()
    }

    /// The encoded events; the first caller encodes, callers at the same moment wait for it.
    ///
    /// # Errors
    /// A value could not be read; the next caller tries again.
    pub(super) fn encoded(&self, values: &dyn Values) -> Result<&Encoded, Damaged> {
        if let Some(encoded) = self.encoded.get() {
            return Ok(encoded);
        }
        let _guard = self.encoding.lock();
        if let Some(encoded) = self.encoded.get() {
            return Ok(encoded);
        }
        let encoded = encode::events(self.events(), self.prev_kv, values)?;
        Ok(self.encoded.get_or_init(|| encoded))
    }

    fn events(&self) -> impl DoubleEndedIterator<Item = &Event> + Clone {
        self.picked.iter().map(|position| &self.batch[*position as usize])
    }
}
