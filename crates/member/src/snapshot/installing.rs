//! The follower's side once a snapshot is received: from consensus's decision to a store that holds it.
//!
//! ```text
//! arrived      durable, and stepped into consensus; its ready says in the same step whether the snapshot is wanted
//! wanted       the installation begins when no checkpoint of the old state is being written
//! Job::Install commits the new state on disk; later writes of consensus are held meanwhile
//! waiting      the disk had no space for the commit: it is tried again at each tick
//! installed    log, store and watchers switch to the new state; the held writes follow
//! ```

use consensus::{SnapshotMeta, Write};
use log::{InstallDone, JobError, SnapshotInstaller};

use super::receiver::{ReceivedState, Receiver, WholeSnapshot};
use crate::io::{Notice, Output};
use crate::jobs::Job;

/// An installation that consensus wants.
pub(crate) struct Installation {
    /// The sender.
    pub(crate) from: u64,
    pub(crate) meta: SnapshotMeta,
    /// The write that asked for it.
    pub(crate) write: Write,
    /// Here until it begins.
    installer: Option<Box<SnapshotInstaller>>,
    pub(crate) state: ReceivedState,
}

/// See the module.
#[derive(Default)]
pub(crate) struct SnapshotInstalling {
    /// Received and stepped; consensus decides before the end of the same step.
    arrived: Option<Box<Receiver>>,
    current: Option<Installation>,
    /// The commit found no space: it is tried again at the next tick.
    waiting: Option<Box<SnapshotInstaller>>,
    /// Operators know that it waits.
    is_wait_known: bool,
    /// The result of the job; the switch to the new state follows when the log can begin a segment.
    ended: Option<InstallDone>,
    /// Writes that come after the installation.
    held: Vec<Write>,
}

impl SnapshotInstalling {
    /// Whether the state is about to be replaced: writes wait, and no checkpoint begins.
    pub(crate) fn is_running(&self) -> bool {
        self.current.is_some()
    }

    /// Whether the state is about to be replaced, or may be once consensus has decided: it may have the snapshot's
    /// configuration already.
    pub(crate) fn is_expected(&self) -> bool {
        self.arrived.is_some() || self.is_running()
    }

    /// A whole snapshot was stepped into consensus. An earlier one that consensus has not decided on is abandoned.
    pub(crate) fn arrived(&mut self, receiver: Box<Receiver>, out: &mut Output) {
        self.abandon_unwanted(out);
        self.arrived = Some(receiver);
    }

    /// Consensus wants the snapshot it heard of installed, before everything that it writes later.
    pub(crate) fn want(&mut self, meta: &SnapshotMeta, write: Write) {
        let arrived = self.arrived.take().expect("consensus wants only a snapshot that it heard of");
        assert!(arrived.meta() == meta, "consensus wants another snapshot than it heard of");
        let WholeSnapshot { from, meta, installer, state } = arrived.into_whole();
        self.current = Some(Installation { from, meta, write, installer: Some(installer), state });
    }

    /// Holds a write that comes after the installation.
    pub(crate) fn hold(&mut self, write: Write) {
        self.held.push(write);
    }

    /// Abandons a snapshot that consensus did not want: it had the entries, or a newer leader.
    pub(crate) fn abandon_unwanted(&mut self, out: &mut Output) {
        out.background.extend(self.arrived.take().map(Job::AbandonSnapshot));
    }

    /// Whether an installation waits for the end of a checkpoint.
    pub(crate) fn waits_to_begin(&self) -> bool {
        self.current.as_ref().is_some_and(|current| current.installer.is_some())
    }

    /// Begins an installation that waits to begin. No checkpoint of the old state may be under way.
    pub(crate) fn begin(&mut self, out: &mut Output) {
        let installer = self.current.as_mut().and_then(|current| current.installer.take());
        out.background.extend(installer.map(Job::Install));
    }

    /// There was no space to commit it. Consensus counts on it, so it is tried again.
    pub(crate) fn wait(&mut self, installer: Box<SnapshotInstaller>, error: &JobError, out: &mut Output) {
        self.waiting = Some(installer);
        if !std::mem::replace(&mut self.is_wait_known, true) {
            let text = format!("the snapshot is not installed yet: {error}");
            out.notices.push(Notice::Failure { text });
        }
    }

    /// A tick passed: there may be space now for an installation that waits for it.
    pub(crate) fn tick(&mut self, out: &mut Output) {
        out.background.extend(self.waiting.take().map(Job::Install));
    }

    /// The job has ended.
    pub(crate) fn ended(&mut self, done: InstallDone) {
        self.ended = Some(done);
    }

    /// The result of the job, if it has ended.
    pub(crate) fn take_ended(&mut self) -> Option<InstallDone> {
        self.ended.take()
    }

    /// The installation is committed on disk.
    pub(crate) fn finish(&mut self) -> Installation {
        self.is_wait_known = false;
        self.current.take().expect("an installation ends once")
    }

    /// The writes that were held.
    pub(crate) fn take_held(&mut self) -> Vec<Write> {
        std::mem::take(&mut self.held)
    }
}
