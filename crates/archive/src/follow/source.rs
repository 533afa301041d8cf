//! Where bases and entries come from: a client of a cluster, or a member itself.

use api::stelepb::{BackupEntriesResponse, BackupPoint};
use bytes::Bytes;

/// Why the cluster gave nothing.
#[derive(Debug)]
pub enum SourceError {
    /// The first entry that was asked for has left the log.
    Gone(String),
    /// It may answer later.
    Passing(String),
    /// It will not: a permission is missing, or it knows no backups.
    Final(String),
}

/// A part of a base.
#[derive(Debug)]
pub enum BasePart {
    /// What it is of, and its length in bytes. The first part.
    Begin(BackupPoint, u64),
    /// Bytes.
    Bytes(Bytes),
}

/// A base as it comes.
pub trait BaseStream {
    /// The next part; `None` behind the last.
    ///
    /// # Errors
    /// No more parts come.
    fn next(&mut self) -> impl Future<Output = Result<Option<BasePart>, SourceError>>;
}

/// A cluster that is copied.
pub trait Source {
    /// What a base comes through.
    type Base: BaseStream;

    /// Entries from an index on, as `Backup.Entries` answers.
    ///
    /// # Errors
    /// There are none for now, or not any more.
    fn entries(&self, from: u64) -> impl Future<Output = Result<BackupEntriesResponse, SourceError>>;

    /// The state as it is now.
    ///
    /// # Errors
    /// It cannot be had.
    fn base(&self) -> impl Future<Output = Result<Self::Base, SourceError>>;
}
