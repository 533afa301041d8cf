//! What a person can try next after an error. Scripts do not see hints: they are for terminals.

use crate::client::CallError;

/// Texts of errors, and what to do about them.
const HINTS: [(&str, &str); 9] = [
    (
        "etcdserver: mvcc: database space exceeded",
        "compact old revisions, `defrag` each member, then `alarm disarm`",
    ),
    (
        "etcdserver: mvcc: required revision has been compacted",
        "that revision is gone: drop --rev, or use a later one",
    ),
    (
        "etcdserver: mvcc: required revision is a future revision",
        "`get` any key with -w fields to see the revision",
    ),
    (
        "etcdserver: requested lease not found",
        "it expired or was revoked: `lease list` shows those that live",
    ),
    (
        "etcdserver: permission denied",
        "`user get NAME --detail` shows what a user may do; --user names another",
    ),
    ("etcdserver: authentication is not enabled", "drop --user, or `auth enable`"),
    ("etcdserver: user name is empty", "authentication is enabled: give --user NAME:PASSWORD"),
    ("etcdserver: member not found", "`member list` shows the ids"),
    ("etcdserver: no leader", "`endpoint status --cluster -w table` shows which members are reachable"),
];

/// What to try after this error.
pub(crate) fn hint(error: &CallError) -> Option<String> {
    match error {
        CallError::Deadline => {
            Some("`endpoint health` asks each endpoint; --command-timeout allows more time".to_owned())
        }
        CallError::Unreachable(why) => Some(format!(
            "no connection could be made ({why}): does a member listen at --endpoints, and with TLS or without?"
        )),
        CallError::Status { .. } => {
            HINTS.iter().find(|(text, _)| error.says(text)).map(|(_, hint)| (*hint).to_owned())
        }
    }
}
