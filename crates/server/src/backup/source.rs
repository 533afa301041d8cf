//! This member, as the archive asks it: what a client gets from `Backup.Base` and `Backup.Entries`, without a network.

use std::sync::Arc;

use api::Code;
use api::stelepb::BackupEntriesResponse;
use archive::{BackupSource, BasePart, BaseStream, SourceError};
use tokio::sync::mpsc;

use crate::grpc::Failure;
use crate::node::Node;
use crate::rpc::{BackupPart, backup_file_bytes, backup_point, begin_backup, read_entries};

/// This member.
pub(super) struct MemberSource {
    node: Arc<Node>,
}

/// The state, as it is made.
pub(super) struct MadeBase {
    node: Arc<Node>,
    parts: mpsc::Receiver<BackupPart>,
    is_whole: bool,
}

impl MemberSource {
    pub(super) fn new(node: Arc<Node>) -> MemberSource {
        MemberSource { node }
    }
}

impl BackupSource for MemberSource {
    type Base = MadeBase;

    async fn entries(&self, from: u64) -> Result<BackupEntriesResponse, SourceError> {
        read_entries(&self.node, from, 0).await.map_err(source_error)
    }

    async fn base(&self) -> Result<MadeBase, SourceError> {
        let parts = begin_backup(&self.node).map_err(source_error)?;
        Ok(MadeBase { node: self.node.clone(), parts, is_whole: false })
    }
}

impl BaseStream for MadeBase {
    async fn next(&mut self) -> Result<Option<BasePart>, SourceError> {
        if self.is_whole {
            return Ok(None);
        }
        match self.parts.recv().await {
            Some(BackupPart::Begin { bytes, state, time_ms, .. }) => {
                let point = backup_point(&self.node, state, time_ms);
                Ok(Some(BasePart::Begin(point, backup_file_bytes(bytes))))
            }
            Some(BackupPart::Chunk(chunk)) => Ok(Some(BasePart::Bytes(chunk))),
            Some(BackupPart::Sum(sum)) => {
                self.is_whole = true;
                Ok(Some(BasePart::Bytes(sum)))
            }
            Some(BackupPart::Failed(failure)) => Err(source_error(failure)),
            None => Err(SourceError::Passing("the copy of the state was cut short".to_owned())),
        }
    }
}

/// Another member may lead soon, or a disk have room again: all but an entry that is gone may pass.
fn source_error(failure: Failure) -> SourceError {
    match failure.code {
        Code::OutOfRange => SourceError::Gone(failure.message.into_owned()),
        _ => SourceError::Passing(failure.message.into_owned()),
    }
}
