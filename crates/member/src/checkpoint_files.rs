//! The files of a chain of checkpoints, as the store reads them: in each the first chunk is the member's own, its head;
//! the others are the store's.

use std::sync::Arc;

use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use log::{Checkpoint, FileChunks, OpenError};
use parking_lot::Mutex;

/// The opened files of a chain, or of checkpoints that follow each other in one.
pub(crate) struct ChainFiles {
    /// The head of the last one; empty if there is none.
    pub(crate) head: Bytes,
    /// The store's chunks of each, oldest first.
    pub(crate) chain: Vec<StoreChunks>,
    error: Arc<Mutex<Option<OpenError>>>,
}

/// A request to stop reading files, which a thread may make while another reads.
#[derive(Clone, Debug, Default)]
pub(crate) struct GiveUp(Arc<AtomicBool>);

impl GiveUp {
    /// Makes the request.
    pub(crate) fn ask(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether it was made.
    pub(crate) fn is_asked(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// The store's chunks of a file. They end early at an error, which [`ChainFiles::take_error`] returns, and when they
/// are given up.
#[derive(Clone)]
pub(crate) struct StoreChunks {
    file: FileChunks,
    error: Arc<Mutex<Option<OpenError>>>,
    give_up: GiveUp,
}

impl ChainFiles {
    /// Opens the files and reads their heads. A reader that is asked to `give_up` finds no chunk more.
    ///
    /// # Errors
    /// A file cannot be read, or is damaged.
    pub(crate) fn open(checkpoint: &Checkpoint, give_up: &GiveUp) -> Result<ChainFiles, OpenError> {
        let error = Arc::new(Mutex::new(None));
        let mut head = Bytes::new();
        let mut chain = Vec::new();
        for mut file in checkpoint.files()? {
            head = file.next().transpose()?.unwrap_or_default();
            chain.push(StoreChunks { file, error: error.clone(), give_up: give_up.clone() });
        }
        Ok(ChainFiles { head, chain, error })
    }

    /// The first error of a file.
    pub(crate) fn take_error(&self) -> Option<OpenError> {
        self.error.lock().take()
    }
}

impl Iterator for StoreChunks {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        if self.give_up.is_asked() {
            return None;
        }
        match self.file.next()? {
            Ok(chunk) => Some(chunk),
            Err(error) => {
                self.error.lock().get_or_insert(error);
                None
            }
        }
    }
}
