//! Which requests are refused because they would wait for too long, or because their client has had its share.
//!
//! | request | refused when |
//! |---|---|
//! | raft messages, questions about leases, progress notifications, reads of this member alone | never here |
//! | a command that frees or keeps something: leases, compaction, alarms | entries are applied too late, as in etcd |
//! | any other command | also when it would wait longer than `--max-request-wait` |
//! | a linearizable read | it would wait longer than that |
//! | both of these | a share, while their RPC worker is further behind than that |
//! | a long range | the same, for its turn to be encoded |
//!
//! While an RPC worker has no time to spare it refuses only as many commands and reads as take a tenth of it, unless
//! they would wait for more than two seconds. A long range takes far more time than to refuse it, so that has no such
//! limit.

use std::time::{Duration, Instant};

use member::batch::CommandKind;
use store::Caller;

use super::Node;
use crate::auth::Credentials;
use crate::grpc::{AnswerRoom, Failure};
use crate::overload::{ClientName, ExceededLimit, OpenCall, admit_on_own_worker, may_refuse};

/// Committed entries that are not applied yet beyond which commands are refused; etcd's number.
const MAX_APPLY_LAG: u64 = 5_000;

/// The same for what has priority, if the gate `PriorityRequest` is open; etcd's number.
const MAX_PRIORITY_APPLY_LAG: u64 = 2 * MAX_APPLY_LAG;

impl Node {
    /// etcd's own rule: refuses commands while this member applies far behind what is committed.
    ///
    /// # Errors
    /// [`api::Error::TooManyRequests`].
    pub(super) fn check_apply_lag(&self, kind: CommandKind) -> Result<(), api::Error> {
        let (committed, applied) = (self.status.committed_index(), self.status.applied_index());
        if !applies_too_late(committed, applied, kind, self.limits.has_priorities) {
            return Ok(());
        }
        self.metrics.own.refusals.apply_lag.inc();
        Err(api::Error::TooManyRequests)
    }

    /// Refuses a client's command that would wait for too long.
    ///
    /// # Errors
    /// `too many requests`, with a hint.
    pub(crate) fn admit_command(&self, kind: CommandKind) -> Result<(), Failure> {
        if may_be_late(kind) {
            return Ok(());
        }
        self.check_own_worker()?;
        self.check_wait(self.handoff.waits().commands()).inspect_err(|_| {
            self.metrics.own.refusals.command_wait.inc();
        })
    }

    /// Refuses a client's linearizable read that would wait for too long.
    ///
    /// # Errors
    /// `too many requests`, with a hint.
    pub(crate) fn admit_read(&self) -> Result<(), Failure> {
        self.check_own_worker()?;
        self.check_wait(self.handoff.waits().reads()).inspect_err(|_| {
            self.metrics.own.refusals.read_wait.inc();
        })
    }

    /// Refuses a long range that would wait for too long.
    ///
    /// # Errors
    /// `too many requests`, with a hint.
    pub(crate) fn admit_large_range(&self, room: &AnswerRoom) -> Result<(), Failure> {
        let wait = self.large_ranges.expected_wait(room);
        // However busy the worker is: a long range takes far more time than to refuse it.
        if !self.is_too_long(wait) {
            return Ok(());
        }
        self.metrics.own.refusals.range_wait.inc();
        Err(Failure::too_many_requests(wait))
    }

    /// Refuses a part of the requests of an RPC worker that reads them later than `--max-request-wait`.
    fn check_own_worker(&self) -> Result<(), Failure> {
        let Some(max) = self.live.max_request_wait() else { return Ok(()) };
        admit_on_own_worker(max).map_err(|wait| {
            self.metrics.own.refusals.worker_wait.inc();
            Failure::too_many_requests(wait)
        })
    }

    /// Refuses a request that would wait so long, if that is too long and this worker has time for refusals.
    fn check_wait(&self, wait: Duration) -> Result<(), Failure> {
        match self.is_too_long(wait) && may_refuse(wait) {
            true => Err(Failure::too_many_requests(wait)),
            false => Ok(()),
        }
    }

    /// Whether a wait is longer than `--max-request-wait`.
    fn is_too_long(&self, wait: Duration) -> bool {
        // In this order, because a wait is zero nearly always.
        !wait.is_zero() && self.live.max_request_wait().is_some_and(|max| wait > max)
    }

    /// Counts a call of a client, if there are limits for clients.
    ///
    /// # Errors
    /// `too many requests`, with a hint, when the client is past one of them.
    pub(crate) fn admit_client(&self, credentials: &Credentials) -> Result<Option<OpenCall>, Failure> {
        let Some(limits) = self.live.client_limits() else { return Ok(None) };
        let admitted = self.clients.admit(self.client_name(credentials), limits, Instant::now());
        admitted.map(Some).map_err(|(limit, wait)| {
            let refusals = &self.metrics.own.refusals;
            match limit {
                ExceededLimit::Requests => refusals.client_requests.inc(),
                ExceededLimit::Bytes => refusals.client_bytes.inc(),
                ExceededLimit::Streams => refusals.client_streams.inc(),
            }
            Failure::too_many_requests(wait)
        })
    }

    /// Who a client is to its limits. A token that is not valid, or was not checked yet, names no user: what it may do
    /// is decided later.
    fn client_name(&self, credentials: &Credentials) -> ClientName {
        if self.reader.is_auth_enabled()
            && let Some(Ok(Caller::User { name, .. })) = self.identify_now(credentials)
        {
            return ClientName::User(name);
        }
        credentials
            .certificate()
            .cloned()
            .map_or(ClientName::Address(credentials.source()), ClientName::Certificate)
    }
}

/// Whether more entries are committed and not applied than may be when a command of this kind is proposed. As in etcd,
/// revoking a lease has priority if the gate is open: it frees what makes the member slow.
fn applies_too_late(committed: u64, applied: u64, kind: CommandKind, has_priorities: bool) -> bool {
    let max = match has_priorities && kind == CommandKind::LeaseRevoke {
        true => MAX_PRIORITY_APPLY_LAG,
        false => MAX_APPLY_LAG,
    };
    committed.saturating_sub(applied) > max
}

/// Whether a command is better late than refused: sessions live by leases, and compaction and alarms free space.
fn may_be_late(kind: CommandKind) -> bool {
    matches!(
        kind,
        CommandKind::LeaseGrant | CommandKind::LeaseRevoke | CommandKind::Compaction | CommandKind::Alarm
    )
}

#[cfg(test)]
mod tests {
    //! Which commands are refused when entries are applied late, and which when they would wait, by kind and gate.
    use super::*;

    #[test]
    fn only_revoking_a_lease_has_priority_and_only_if_the_gate_is_open() {
        for kind in CommandKind::ALL {
            for has_priorities in [false, true] {
                let most: u64 =
                    if has_priorities && kind == CommandKind::LeaseRevoke { 10_000 } else { 5_000 };
                let is_refused = |lag: u64| applies_too_late(7 + lag, 7, kind, has_priorities);
                assert!(!is_refused(most) && is_refused(most + 1), "{kind:?}, {has_priorities}");
            }
        }
        // The two indexes are read one after the other.
        assert!(!applies_too_late(7, 8, CommandKind::Put, false));
    }

    #[test]
    fn commands_that_keep_sessions_or_free_space_are_never_refused_for_their_wait() {
        let kinds: Vec<_> = CommandKind::ALL.into_iter().filter(|kind| may_be_late(*kind)).collect();
        let expected = {
            use CommandKind::{Alarm, Compaction, LeaseGrant, LeaseRevoke};
            [LeaseGrant, LeaseRevoke, Compaction, Alarm]
        };
        assert!(kinds.len() == 4 && expected.iter().all(|kind| kinds.contains(kind)), "{kinds:?}");
    }
}
