//! The notices of a member as log lines, in etcd's words where etcd has them.

use std::time::Instant;

use member::{Notice, SnapshotEvent};
use parking_lot::Mutex;

use super::repeated_failures::RepeatedFailures;

/// Logs the notices of one member.
pub(crate) struct NoticeLog {
    /// Its id in hexadecimal, as the log shows it.
    local: String,
    failures: Mutex<RepeatedFailures>,
}

impl NoticeLog {
    /// The notices of `member_id`.
    pub(crate) fn new(member_id: u64) -> NoticeLog {
        NoticeLog { local: format!("{member_id:x}"), failures: Mutex::default() }
    }

    /// Logs a notice, unless it is a failure that was logged lately.
    pub(crate) fn report(&self, notice: &Notice) {
        let local = &self.local;
        match notice {
            Notice::Leadership { term, leader: 0, .. } => {
                tracing::info!(local_member_id = local, term, "lost leader");
            }
            Notice::Leadership { term, leader, leading: true } => {
                tracing::info!(
                    local_member_id = local,
                    leader = format!("{leader:x}"),
                    term,
                    "became leader"
                );
            }
            Notice::Leadership { term, leader, leading: false } => {
                tracing::info!(
                    local_member_id = local,
                    leader = format!("{leader:x}"),
                    term,
                    "elected leader"
                );
            }
            Notice::TickLate(late_ns) => tracing::warn!(
                local_member_id = local,
                exceeded_duration = format!("{}ms", late_ns / 1_000_000),
                "leader failed to send out heartbeat on time; took too long, leader is overloaded likely from slow disk"
            ),
            Notice::BadFrame { from, reason } => {
                tracing::warn!(remote_peer_id = format!("{from:x}"), reason, "dropped an invalid frame");
            }
            Notice::Checkpoint { index } => tracing::info!(snapshot_index = index, "saved snapshot"),
            Notice::HashStored(_) | Notice::Scrubbed(_) => report_background(notice),
            Notice::Snapshot { peer, event } => report_snapshot(*peer, event),
            Notice::Repaired { text } => tracing::warn!(damage = text, "repaired damaged data"),
            Notice::Relocated { file } => {
                tracing::info!(file = format!("{file:08x}"), "relocated the values of a file")
            }
            Notice::Damage { text } => tracing::error!(damage = text, "found damaged data"),
            Notice::MemoryLimit { exceeded, accounted_bytes, limit_bytes, largest } => {
                let memory = (*accounted_bytes, *limit_bytes);
                self.report_memory(*exceeded, memory, largest);
            }
            Notice::Failure { text } => self.report_failure(text),
            Notice::Space { is_low: true } => tracing::warn!(
                "disk nearly full: rejecting writes that grow the store; deletes and compaction continue"
            ),
            Notice::Space { is_low: false } => tracing::info!("the disk has room again"),
            Notice::MembershipRequest { request, outcome: Ok(()) } => tracing::info!(
                local_member_id = local,
                request = format!("{request:?}"),
                "applied a configuration change through raft"
            ),
            Notice::MembershipRequest { request, outcome: Err(error) } => tracing::warn!(
                local_member_id = local,
                request = format!("{request:?}"),
                %error,
                "Validation on configuration change failed"
            ),
            Notice::Diverged { peer, index } => {
                tracing::error!(
                    remote_peer_id = format!("{peer:x}"),
                    index,
                    "found data inconsistency with peer"
                )
            }
        }
    }

    fn report_memory(&self, exceeded: bool, (accounted_bytes, limit_bytes): (u64, u64), largest: &str) {
        let local = &self.local;
        if exceeded {
            tracing::warn!(
                local_member_id = local,
                accounted_bytes,
                limit_bytes,
                largest,
                "memory limit reached: writes that grow the store are refused as if space were exceeded"
            );
        } else {
            tracing::info!(
                local_member_id = local,
                accounted_bytes,
                limit_bytes,
                "accounted memory is below its limit again: writes go on once the alarm is disarmed"
            );
        }
    }

    fn report_failure(&self, text: &str) {
        if let Some(times) = self.failures.lock().due(text, Instant::now()) {
            tracing::warn!(reason = text, times, "background work failed, retrying");
        }
    }

    /// A frame for `peer` is longer than frames may be: what it carries, and what must follow it, never arrives.
    pub(crate) fn unsendable(&self, peer: u64, bytes: usize) {
        if let Some(times) = self.failures.lock().due("unsendable", Instant::now()) {
            tracing::error!(
                remote_peer_id = format!("{peer:x}"),
                bytes,
                times,
                "cannot send a frame to the peer: it is larger than a frame may be"
            );
        }
    }
}

fn report_background(notice: &Notice) {
    match notice {
        Notice::HashStored(hash) => tracing::info!(
            hash = hash.hash,
            revision = hash.revision,
            compact_revision = hash.compact_revision,
            "storing new hash"
        ),
        Notice::Scrubbed(totals) => tracing::info!(
            bytes = totals.bytes,
            damaged = totals.damaged,
            "read all entries and values again"
        ),
        _ => {}
    }
}

fn report_snapshot(peer: u64, event: &SnapshotEvent) {
    let peer = format!("{peer:x}");
    match event {
        SnapshotEvent::Sending { index } => {
            tracing::info!(remote_peer_id = peer, snapshot_index = index, "sending database snapshot");
        }
        SnapshotEvent::Sent { index } => {
            tracing::info!(remote_peer_id = peer, snapshot_index = index, "sent database snapshot");
        }
        SnapshotEvent::NotSent { index, reason } => tracing::warn!(
            remote_peer_id = peer,
            snapshot_index = index,
            reason,
            "failed to send database snapshot"
        ),
        SnapshotEvent::Receiving { index } => {
            tracing::info!(
                remote_peer_id = peer,
                incoming_snapshot_index = index,
                "receiving database snapshot"
            );
        }
        SnapshotEvent::Installed { index } => {
            tracing::info!(remote_peer_id = peer, incoming_snapshot_index = index, "applied snapshot");
        }
    }
}
