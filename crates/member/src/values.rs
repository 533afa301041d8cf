//! The log as the store's place of values.
//!
//! A read pins the log for its own duration. Whoever looks a reference up first must hold a pin from before the look-up, or
//! the file could be given back in between.

use std::sync::Arc;

use bytes::Bytes;
use log::{ReadError, Reader, Stored};
use store::{Damaged, ValueRef, Values};

/// Reads values from the log and keeps its count of references.
pub(crate) struct LogValues {
    reader: Reader,
}

impl LogValues {
    /// Values of the log that `reader` reads.
    pub(crate) fn new(reader: Reader) -> LogValues {
        LogValues { reader }
    }
}

/// The reference as the log has it.
pub(crate) fn stored(value: &ValueRef) -> Stored {
    Stored { place: value.place, len: value.len, checksum: value.checksum }
}

fn damaged(value: &ValueRef, error: &ReadError) -> Damaged {
    Damaged { place: value.place, len: value.len, reason: Arc::from(error.to_string()) }
}

impl Values for LogValues {
    fn read(&self, value: &ValueRef) -> Result<Bytes, Damaged> {
        let read = self.reader.pin().read(value.place, value.len, value.checksum);
        read.map_err(|error| damaged(value, &error))
    }

    fn read_many(&self, values: &[ValueRef]) -> Result<Vec<Bytes>, Damaged> {
        let wanted: Vec<Stored> = values.iter().map(stored).collect();
        let read = self.reader.pin().read_many(&wanted);
        read.into_iter()
            .zip(values)
            .map(|(bytes, value)| bytes.map_err(|error| damaged(value, &error)))
            .collect()
    }

    fn retain(&self, value: &ValueRef) {
        self.reader.retain(value.place, value.len);
    }

    fn release(&self, value: &ValueRef) {
        self.reader.release(value.place, value.len);
    }
}
