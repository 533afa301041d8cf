//! `Admin.Reload`: this member reads its configuration again, as at `SIGHUP`. A method of our own: etcd has none for
//! it.

use api::stelepb::{ReloadRequest, ReloadResponse};
use bytes::Bytes;

use crate::grpc::{EncodedMessage, Failure};
use crate::live_settings::ReloadError;
use crate::node::Node;
use crate::rpc::call::{Call, decode};

/// Waits for the reload, and answers with what it changed.
///
/// # Errors
/// The configuration is wrong, too many reloads wait, or the member stops. Nothing has changed then.
pub(in crate::rpc) async fn reload(node: &Node, _: &Call, body: Bytes) -> Result<EncodedMessage, Failure> {
    decode::<ReloadRequest>(body)?;
    match node.reloads.ask().await {
        Ok(changes) => {
            let (changed, needs_restart) = (changes.effective, changes.at_restart);
            Ok(EncodedMessage::message(&ReloadResponse { changed, needs_restart }))
        }
        // What was wrong is for who wrote the configuration; the member goes on with the one before.
        Err(ReloadError::Refused(why)) => Err(Failure::new(
            api::Code::FailedPrecondition,
            format!("stele: cannot reload the configuration, nothing changed: {why}"),
        )),
        Err(ReloadError::Busy) => Err(api::Error::TooManyRequests.into()),
        Err(ReloadError::Stopping) => Err(api::Error::Stopped.into()),
    }
}
