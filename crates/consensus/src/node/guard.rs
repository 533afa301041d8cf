//! Checks every message before the raft library steps it: the library aborts on input that it holds impossible, and
//! what a peer sends must never abort us.
//!
//! Every abort of raft-rs 0.7.0 that a message can reach, and what prevents it:
//!
//! | in the library | reached by | prevented by |
//! |---|---|---|
//! | `RaftLog::commit_to`: commit beyond the last index | heartbeat | commit <= last index |
//! | `RaftLog::maybe_append`: conflict with a committed entry | append | entries consecutive; none contradicts a committed one |
//! | `Unstable::must_check_outofbounds`, `slice` arithmetic | append beyond the log that "matches" with term 0; gaps | previous term 0 only at index 0; entries consecutive |
//! | `RaftLog::append` before the commit index | append | the same |
//! | `handle_append_entries`: hint term missing | append | the view knows all terms from the commit index on |
//! | `Progress::maybe_decr_to`: `hint + 1` overflows; progress beyond the log | append response | hint <= index <= last index |
//! | `confchange::restore` fails, or restores something else | snapshot | `ConfState::flaw` |
//! | `restore`: progress of ourselves missing | snapshot | it names us |
//! | `RawNode::ready`: snapshot below what was handed out; entries gone that `hup` reads | snapshot, then timeout-now | snapshot > commit; one at a time; no campaign while one is installed |
//! | `become_leader`: last index not persisted, or a record with entries | vote not asked for; timeout-now to a sole voter | votes only after our requests left; a sole voter campaigns only with nothing under way |
//! | `become_leader`, `maybe_commit`, `on_persist_entries`: progress of ourselves missing | votes and responses after our removal | `apply_conf_change` steps down when a conf change removes us |
//! | `campaign` by a node without configuration: wins at once | timeout-now | only voters campaign |
//! | `term + 1` overflows | any message with a huge term | `MAX_TERM` |
//! | `step` with an empty proposal, foreign protobuf bytes | propose, read index | `Message` has no such kinds |
//! | `Storage` errors it does not expect | append response | `LogView` gives only those it expects |
//!
//! *Accepted senders.* Responses count only from members. Requests (append, heartbeat, snapshot, vote) are also taken
//! from a member that our configuration does not name: our configuration may be the old one, and refusing the leader
//! would keep it old forever (Raft thesis, 4.1). The owner's handshake, which knows removed ids, decides whether the
//! sender belongs to the cluster; `from` is the id that it established. But as long as this node leads, or hears from a
//! leader that its configuration names, that configuration is in use and such requests are ignored: they may come from
//! a member of the cluster that this one was before `--force-new-cluster`, which must not depose it. A node that lags
//! behind a cluster without any member that it knows hears of no such leader after an election timeout at the latest.

use raft::{RawNode, StateRole};

use crate::entry::{Entry, EntryKind};
use crate::error::Rejected;
use crate::log_view::LogView;
use crate::membership::ConfChange;
use crate::message::{Body, Message, SnapshotMeta};

/// The largest term accepted from a peer. An election each nanosecond would not reach it within 30 years, and `+ 1` is
/// far from overflowing.
pub const MAX_TERM: u64 = 1 << 60;

/// What to do with a message that passed the checks.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Step it.
    Step,
    /// Drop it: it is late, or this node must not act on it now.
    Ignore,
}

/// Checks a message that came over the connection to `from`.
pub(crate) fn check(
    node: &RawNode<LogView>,
    from: u64,
    message: &Message,
    changes_log: bool,
) -> Result<Verdict, Rejected> {
    let raft = &node.raft;
    if message.from != from || message.to != raft.id || from == raft.id || from == 0 {
        return Err(Rejected::Misaddressed { from: message.from, to: message.to });
    }
    if message.term == 0 || message.term > MAX_TERM {
        return Err(Rejected::Term { term: message.term });
    }
    if is_response(&message.body) && raft.prs().get(from).is_none() {
        // A late response of a member that was just removed.
        return Ok(Verdict::Ignore);
    }
    if raft.prs().get(from).is_none() && hears_its_leader(node) {
        return Ok(Verdict::Ignore);
    }
    let is_current = message.term >= raft.term;
    match &message.body {
        Body::Append { previous_index, previous_term, entries, .. } => {
            check_entries(*previous_index, *previous_term, entries, message.term)?;
            if is_current {
                check_leader(node, message)?;
                check_committed(node, *previous_index, *previous_term, entries)?;
            }
        }
        Body::Heartbeat { commit } if is_current => {
            check_leader(node, message)?;
            check_within(node, *commit)?;
        }
        Body::Snapshot(meta) if is_current => {
            check_leader(node, message)?;
            check_snapshot(node, meta, message.term)?;
            if is_installing(node) {
                // Another leader's, while the first is on its way to our disk; it will be offered again.
                return Ok(Verdict::Ignore);
            }
        }
        Body::AppendAccepted { index, .. } if leads(node, message) => check_within(node, *index)?,
        Body::AppendRejected { index, hint_index, .. } if leads(node, message) => {
            check_within(node, *index)?;
            if hint_index > index {
                return Err(Rejected::Malformed("a rejection hints beyond what it rejects"));
            }
        }
        Body::VoteResponse { pre: false, granted: true, .. } => {
            let is_candidate = raft.state == StateRole::Candidate && message.term == raft.term;
            if is_candidate && (changes_log || !is_all_persisted(node)) {
                return Err(Rejected::VoteNotAsked);
            }
        }
        Body::TimeoutNow => {
            let is_asked = message.term == raft.term && raft.leader_id == from;
            if !is_asked || !may_campaign(node, changes_log) {
                return Ok(Verdict::Ignore);
            }
        }
        _ => {}
    }
    Ok(Verdict::Step)
}

/// Whether this node may start an election now without making the library abort (see the module's table).
pub(crate) fn may_campaign(node: &RawNode<LogView>, changes_log: bool) -> bool {
    let raft = &node.raft;
    raft.promotable() && !is_installing(node) && !(is_alone(node) && (changes_log || !is_all_persisted(node)))
}

/// Whether our vote alone is a quorum: as the sole voter, or as the sole voter of both halves of a joint configuration.
pub(crate) fn is_alone(node: &RawNode<LogView>) -> bool {
    node.raft.prs().has_quorum(&[node.raft.id].into_iter().collect())
}

/// Whether the log begins beyond what is applied: a snapshot is on its way to the disk.
pub(super) fn is_installing(node: &RawNode<LogView>) -> bool {
    node.raft.raft_log.first_index() > node.raft.raft_log.applied + 1
}

fn is_all_persisted(node: &RawNode<LogView>) -> bool {
    node.raft.raft_log.last_index() == node.raft.raft_log.persisted
}

/// Whether this node leads, or heard within an election timeout from a leader that its configuration names.
fn hears_its_leader(node: &RawNode<LogView>) -> bool {
    let raft = &node.raft;
    let is_heard =
        raft.prs().get(raft.leader_id).is_some() && raft.election_elapsed < raft.election_timeout();
    raft.state == StateRole::Leader || is_heard
}

fn is_response(body: &Body) -> bool {
    matches!(
        body,
        Body::AppendAccepted { .. }
            | Body::AppendRejected { .. }
            | Body::VoteResponse { .. }
            | Body::HeartbeatResponse { .. }
            | Body::LeadershipCheckResponse { .. }
    )
}

/// Whether we lead the message's term: only then its response is looked at.
fn leads(node: &RawNode<LogView>, message: &Message) -> bool {
    node.raft.state == StateRole::Leader && message.term == node.raft.term
}

/// A term has one leader.
fn check_leader(node: &RawNode<LogView>, message: &Message) -> Result<(), Rejected> {
    let leader = node.raft.leader_id;
    if message.term == node.raft.term && leader != 0 && leader != message.from {
        return Err(Rejected::TwoLeaders { from: message.from, leader, term: message.term });
    }
    Ok(())
}

fn check_within(node: &RawNode<LogView>, index: u64) -> Result<(), Rejected> {
    let last = node.raft.raft_log.last_index();
    if index > last { Err(Rejected::BeyondLog { index, last }) } else { Ok(()) }
}

/// Entries follow each other from (`index`, `term`), in terms that never fall nor exceed the leader's.
fn check_entries(index: u64, term: u64, entries: &[Entry], leader_term: u64) -> Result<(), Rejected> {
    if (index == 0) != (term == 0) {
        return Err(Rejected::Malformed("term 0 belongs to index 0 and only there"));
    }
    let mut previous = (index, term);
    for entry in entries {
        if previous.0.checked_add(1) != Some(entry.index) {
            return Err(Rejected::Malformed("entries are not consecutive"));
        }
        if entry.term == 0 || entry.term < previous.1 {
            return Err(Rejected::Malformed("terms of entries fall"));
        }
        if (entry.kind == EntryKind::Empty) != entry.payload.is_empty() {
            return Err(Rejected::Malformed("exactly an empty entry has no payload"));
        }
        if entry.kind == EntryKind::ConfChange && ConfChange::decode(entry.payload.clone()).is_err() {
            return Err(Rejected::Malformed("a conf change that cannot be read"));
        }
        previous = (entry.index, entry.term);
    }
    if previous.1 > leader_term {
        return Err(Rejected::Malformed("an entry of a term after its leader's"));
    }
    Ok(())
}

/// A leader of our term or a later one has every entry we know committed.
fn check_committed(
    node: &RawNode<LogView>,
    previous_index: u64,
    previous_term: u64,
    entries: &[Entry],
) -> Result<(), Rejected> {
    let log = &node.raft.raft_log;
    let claimed = entries.iter().map(|entry| (entry.index, entry.term));
    for (index, term) in std::iter::once((previous_index, previous_term)).chain(claimed) {
        if index > log.committed {
            break;
        }
        if index + 1 >= log.first_index() && !log.match_term(index, term) {
            return Err(Rejected::Conflict { index });
        }
    }
    Ok(())
}

fn check_snapshot(node: &RawNode<LogView>, meta: &SnapshotMeta, leader_term: u64) -> Result<(), Rejected> {
    let log = &node.raft.raft_log;
    if meta.index == 0 || meta.index == u64::MAX {
        return Err(Rejected::Malformed("a snapshot at no index"));
    }
    if meta.term == 0 || meta.term > leader_term {
        return Err(Rejected::Malformed("a snapshot of no term, or one after its leader's"));
    }
    if let Some(flaw) = meta.conf_state.flaw() {
        return Err(Rejected::Malformed(flaw));
    }
    if !meta.conf_state.contains(node.raft.id) {
        return Err(Rejected::Malformed("a snapshot that does not name us"));
    }
    if meta.index == log.committed && !log.match_term(meta.index, meta.term) {
        return Err(Rejected::Conflict { index: meta.index });
    }
    // To a snapshot below the commit index the library responds with our commit index, which the leader needs to know.
    Ok(())
}
