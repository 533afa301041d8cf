//! The beginning of a copy: what is requested, and whether it is a new one, or one that was interrupted.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use api::{etcdserverpb as pb, mvccpb};
use bytes::Bytes;

use super::calls::{FollowHalt, PatientClient};
use super::state::{FollowPosition, FollowState};
use crate::exit::{Exit, code};
use crate::own::pages::under;
use crate::shell::Shell;

/// The revision of a cluster that was never written to.
const FIRST_REVISION: i64 = 1;

/// What the command line asks for.
#[derive(Default)]
pub(super) struct FollowWish {
    pub(super) prefix: Bytes,
    pub(super) state_key: Bytes,
    /// Puts and deletes of one transaction, beside the put of the state key.
    pub(super) max_operations: usize,
    pub(super) keeps_revisions: bool,
    pub(super) replaces: bool,
    pub(super) until_caught_up: bool,
    pub(super) verifies: bool,
    pub(super) finishes: bool,
    pub(super) interval: Duration,
}

impl FollowWish {
    /// Reads the flags.
    ///
    /// # Errors
    ///
    /// Flags that do not fit together.
    pub(super) fn read(shell: &Shell) -> Result<Self, Exit> {
        let values = &shell.values;
        let bytes = |name| Bytes::copy_from_slice(values.text(name).as_bytes());
        let max_operations = usize::try_from(values.uint("max-txn-ops")).unwrap_or(usize::MAX);
        let wish = Self {
            prefix: bytes("prefix"),
            state_key: bytes("state-key"),
            max_operations: max_operations.saturating_sub(1),
            keeps_revisions: values.switch("keep-revisions"),
            replaces: values.switch("replace"),
            until_caught_up: values.switch("until-caught-up"),
            verifies: values.switch("verify"),
            finishes: values.switch("finish"),
            interval: values.duration("interval").max(Duration::from_millis(50)),
        };
        let wrong = match &wish {
            wish if wish.state_key.is_empty() => "--state-key must not be empty",
            wish if wish.max_operations == 0 => "--max-txn-ops must be at least 2: one is for the state key",
            wish if wish.finishes && !wish.until_caught_up => "--finish needs --until-caught-up",
            wish if wish.keeps_revisions && !wish.prefix.is_empty() => {
                "--keep-revisions copies all keys: it cannot be combined with --prefix"
            }
            _ => return Ok(wish),
        };
        Err(Exit::bad_args(wrong))
    }
}

/// Decides where the copy begins. Returns its state, and how often the state key was put.
///
/// # Errors
///
/// The destination has data, belongs to another copy, or a side refused.
pub(super) async fn begin(
    source: &PatientClient,
    destination: &PatientClient,
    wish: &FollowWish,
) -> Result<(FollowState, i64), FollowHalt> {
    let (at_source, source_header) = source.get(&wish.state_key).await?;
    let (stored, header) = destination.get(&wish.state_key).await?;
    if let (Some(left), Some(right)) = (&at_source, &stored)
        && source_header.cluster_id == header.cluster_id
        && left == right
    {
        return Err(wrong("the source and the destination are the same cluster").into());
    }
    match stored {
        Some(stored) => {
            let state = resumed(&stored, &source_header, &header, wish)?;
            Ok((state, stored.version))
        }
        None => {
            let (keys, revision) = destination.count(under(&wish.prefix)).await?;
            let source = (source_header.cluster_id, source_header.revision);
            Ok((new(source, (keys, revision), wish)?, 0))
        }
    }
}

/// The state of a copy that goes on.
fn resumed(
    stored: &mvccpb::KeyValue,
    source: &pb::ResponseHeader,
    destination: &pb::ResponseHeader,
    wish: &FollowWish,
) -> Result<FollowState, Exit> {
    let key = String::from_utf8_lossy(&wish.state_key);
    let state = FollowState::decode(&stored.value).ok_or_else(|| {
        wrong(format!("the state key {key:?} of the destination has another value than this release writes"))
    })?;
    if state.source != source.cluster_id {
        return Err(wrong(format!(
            "the destination has a copy of cluster {:x}, and the source is {:x}: to begin again, delete its state key \
             {key:?} and give --replace",
            state.source, source.cluster_id
        )));
    }
    if state.prefix != wish.prefix || state.keeps_revisions != wish.keeps_revisions {
        return Err(wrong(format!(
            "the copy was begun with another --prefix or --keep-revisions: give the same, or delete the state key \
             {key:?} and begin again"
        )));
    }
    if state.keeps_revisions && stored.mod_revision != destination.revision {
        return Err(wrong(format!(
            "the destination is at revision {}, and the copy wrote its last one at {}: another client wrote to it, so \
             revisions cannot be kept",
            destination.revision, stored.mod_revision
        )));
    }
    let (FollowPosition::Copied { revision } | FollowPosition::Copying { revision, .. }) = state.position;
    if revision > source.revision {
        return Err(wrong(format!(
            "the copy has come to revision {revision}, and the source is at {}: it was restored from a backup",
            source.revision
        )));
    }
    Ok(FollowState { run: run_id(), ..state })
}

/// The state of a new copy, of a source with this id and revision, into a destination with so many keys.
fn new(
    (source, revision): (u64, i64),
    (keys, there): (u64, i64),
    wish: &FollowWish,
) -> Result<FollowState, Exit> {
    if wish.keeps_revisions && (keys > 0 || there != FIRST_REVISION) {
        return Err(wrong(format!(
            "--keep-revisions needs a new destination: this one is at revision {there} and has {keys} keys"
        )));
    }
    if keys > 0 && !wish.replaces {
        return Err(wrong(format!(
            "the destination has {keys} keys there and no state of a copy: give --replace to make it equal to the \
             source, which deletes what the source lacks"
        )));
    }
    let position = match wish.keeps_revisions {
        true => FollowPosition::Copied { revision: FIRST_REVISION },
        false => FollowPosition::Copying { revision, last: Bytes::new() },
    };
    let (prefix, keeps_revisions) = (wish.prefix.clone(), wish.keeps_revisions);
    Ok(FollowState { run: run_id(), source, prefix, keeps_revisions, position })
}

fn wrong(why: impl Into<String>) -> Exit {
    Exit::new(code::ERROR, why)
}

/// A number that no other process has.
fn run_id() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    format!("{:x}.{:x}", now.as_nanos(), std::process::id())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wish(keeps_revisions: bool) -> FollowWish {
        FollowWish { state_key: Bytes::from("state"), keeps_revisions, ..FollowWish::default() }
    }

    fn message<T>(result: Result<T, Exit>) -> String {
        result.err().and_then(|exit| exit.message).unwrap_or_default()
    }

    #[test]
    fn a_destination_with_keys_is_replaced_only_if_that_is_wished() {
        let copying = FollowPosition::Copying { revision: 9, last: Bytes::new() };
        assert!(new((7, 9), (0, 5), &wish(false)).is_ok_and(|state| state.position == copying));
        assert!(message(new((7, 9), (3, 5), &wish(false))).contains("has 3 keys there"));
        assert!(new((7, 9), (3, 5), &FollowWish { replaces: true, ..wish(false) }).is_ok());
    }

    #[test]
    fn revisions_are_kept_in_a_new_destination_alone() {
        let copied = FollowPosition::Copied { revision: 1 };
        assert!(new((7, 9), (0, 1), &wish(true)).is_ok_and(|state| state.position == copied));
        assert!(message(new((7, 9), (0, 2), &wish(true))).contains("needs a new destination"));
        let replacing = FollowWish { replaces: true, ..wish(true) };
        assert!(message(new((7, 9), (1, 3), &replacing)).contains("needs a new destination"));
    }

    #[test]
    fn a_copy_goes_on_with_the_same_source_and_flags() {
        let state = |position, keeps_revisions| {
            let (run, prefix) = ("1".to_owned(), Bytes::new());
            let state = FollowState { run, source: 7, prefix, keeps_revisions, position };
            mvccpb::KeyValue { value: state.encode(), mod_revision: 4, ..Default::default() }
        };
        let header = |cluster_id, revision| pb::ResponseHeader { cluster_id, revision, ..Default::default() };
        let copied = FollowPosition::Copied { revision: 4 };
        let stored = state(copied.clone(), false);
        let (source, there) = (header(7, 9), header(8, 6));
        assert!(
            resumed(&stored, &source, &there, &wish(false))
                .is_ok_and(|state| state.position == copied && state.run != "1")
        );
        assert!(message(resumed(&stored, &header(6, 9), &there, &wish(false))).contains("copy of cluster 7"));
        assert!(message(resumed(&stored, &header(7, 3), &there, &wish(false))).contains("from a backup"));
        assert!(message(resumed(&stored, &source, &there, &wish(true))).contains("another --prefix"));
        let kept = state(copied, true);
        assert!(message(resumed(&kept, &source, &there, &wish(true))).contains("another client wrote"));
        assert!(resumed(&kept, &source, &header(8, 4), &wish(true)).is_ok());
        let foreign = mvccpb::KeyValue { value: Bytes::from("x"), ..Default::default() };
        assert!(message(resumed(&foreign, &source, &there, &wish(false))).contains("another value"));
    }
}
