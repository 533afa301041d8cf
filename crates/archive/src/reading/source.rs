//! The archive that is read, and the runtime in which it is: one thread, which also reads ahead.

use api::stelepb::BackupPoint;
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;

use crate::error::ArchiveError;
use crate::key::SecretKey;
use crate::objects::Archive;

/// An archive, and whose it is.
pub(super) struct ArchiveSource {
    pub(super) runtime: Runtime,
    pub(super) archive: Archive,
    pub(super) owner: BackupPoint,
}

impl ArchiveSource {
    /// Opens an archive.
    ///
    /// # Errors
    /// There is none, it cannot be reached, or has another key.
    pub(super) fn open(url: &str, key: Option<SecretKey>) -> Result<ArchiveSource, ArchiveError> {
        // A thread of its own reads ahead.
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        let runtime = runtime.worker_threads(1).thread_name("stele-archive").enable_all().build();
        let runtime =
            runtime.map_err(|error| ArchiveError::Wrong(format!("cannot begin to read: {error}")))?;
        let archive = Archive::open(url, key, false)?;
        let owner = runtime.block_on(archive.owner())?;
        let owner = owner.ok_or_else(|| {
            ArchiveError::Wrong(format!("{url} holds no archive: `stele ctl backup {url}` makes one"))
        })?;
        Ok(ArchiveSource { runtime, archive, owner })
    }

    /// Begins to read the part with this number.
    pub(super) fn begin<T: Send + 'static>(
        &self,
        number: u64,
        read: impl Future<Output = Result<T, ArchiveError>> + Send + 'static,
    ) -> PartAhead<T> {
        PartAhead { number, read: self.runtime.spawn(read) }
    }

    /// Waits for a part.
    ///
    /// # Errors
    /// Those of reading it.
    pub(super) fn wait<T>(&self, mut part: PartAhead<T>) -> Result<T, ArchiveError> {
        let read = self.runtime.block_on(&mut part.read);
        read.unwrap_or_else(|why| Err(ArchiveError::Wrong(format!("cannot read ahead: {why}"))))
    }
}

/// A part of an archive on its way. One that no caller waits for any more is not read.
pub(super) struct PartAhead<T> {
    pub(super) number: u64,
    read: JoinHandle<Result<T, ArchiveError>>,
}

impl<T> Drop for PartAhead<T> {
    fn drop(&mut self) {
        self.read.abort();
    }
}
