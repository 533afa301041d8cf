//! The events of one batch that one group of watchers gets: matched once, encoded once.

use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;

use super::encode::{self, EncodedEvents};
use crate::types::Event;
use crate::values::{Damaged, Values};

/// Events of a published batch; at least one.
pub(super) struct EventBlock {
    batch: Arc<[Event]>,
    /// Positions in `batch`, ascending.
    picked: Box<[u32]>,
    prev_kv: bool,
    encoded: OnceLock<EncodedEvents>,
    /// Held while encoding, so that the values are read once.
    encoding: Mutex<()>,
}

impl EventBlock {
    pub(super) fn new(batch: Arc<[Event]>, picked: Box<[u32]>, prev_kv: bool) -> Self {
        assert!(!picked.is_empty(), "a block has events");
        Self { batch, picked, prev_kv, encoded: OnceLock::new(), encoding: Mutex::new(()) }
    }

    /// Divides the picked events of a batch into blocks of about `max_bytes` each, between revisions only.
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

    /// Approximate length of the encoding.
    pub(super) fn weight(&self) -> usize {
        self.events().map(|event| encode::weight(event, self.prev_kv)).sum()
    }

    /// The encoded events. The first caller encodes them; concurrent callers wait for it.
    ///
    /// # Errors
    /// [`Damaged`] when a value could not be read. The next caller tries again.
    pub(super) fn encoded(&self, values: &dyn Values) -> Result<&EncodedEvents, Damaged> {
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
