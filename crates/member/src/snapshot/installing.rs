//! The follower's side once a snapshot is received: from consensus's decision to a store that holds it.
//!
//! ```text
//! arrived      stepped into consensus; its ready says in the same step whether the snapshot is wanted
//! wanted       the installation begins when no checkpoint of the old state is being written
//! Job::Install commits the new state on disk; later writes of consensus are held meanwhile
//! installed    log, store and watchers switch to the new state; the held writes follow
//! ```

use consensus::{SnapshotMeta, Write};
use log::{InstallDone, SnapshotInstaller};
use store::Restored;

use crate::io::Output;
use crate::jobs::Job;

/// A whole snapshot that consensus has heard of.
pub(crate) struct ArrivedSnapshot {
    pub(super) from: u64,
    pub(super) meta: SnapshotMeta,
    pub(super) installer: Box<SnapshotInstaller>,
    pub(super) restored: Restored,
}

/// An installation that consensus wants.
pub(crate) struct Installation {
    /// The sender.
    pub(crate) from: u64,
    pub(crate) meta: SnapshotMeta,
    /// The write that asked for it.
    pub(crate) write: Write,
    /// Here until it begins.
    installer: Option<Box<SnapshotInstaller>>,
    pub(crate) restored: Restored,
}

/// See the module.
#[derive(Default)]
pub(crate) struct SnapshotInstalling {
    /// Received and stepped; consensus decides before the end of the same step.
    arrived: Option<ArrivedSnapshot>,
    current: Option<Installation>,
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

    /// A snapshot was stepped into consensus. An earlier one that consensus has not decided on is abandoned.
    pub(crate) fn arrived(&mut self, snapshot: ArrivedSnapshot, out: &mut Output) {
        self.abandon_unwanted(out);
        self.arrived = Some(snapshot);
    }

    /// Consensus wants the snapshot it heard of installed, before everything that it writes later.
    pub(crate) fn want(&mut self, meta: &SnapshotMeta, write: Write) {
        let arrived = self.arrived.take().expect("consensus wants only a snapshot that it heard of");
        assert!(arrived.meta == *meta, "consensus wants another snapshot than it heard of");
        let ArrivedSnapshot { from, meta, installer, restored } = arrived;
        self.current = Some(Installation { from, meta, write, installer: Some(installer), restored });
    }

    /// Holds a write that comes after the installation.
    pub(crate) fn hold(&mut self, write: Write) {
        self.held.push(write);
    }

    /// Abandons a snapshot that consensus did not want: it had the entries, or a newer leader.
    pub(crate) fn abandon_unwanted(&mut self, out: &mut Output) {
        if let Some(arrived) = self.arrived.take() {
            out.background.push(Job::AbandonInstall(arrived.installer));
        }
    }

    /// Begins an installation that waits to begin. No checkpoint of the old state may be under way.
    pub(crate) fn begin(&mut self, out: &mut Output) {
        if let Some(installer) = self.current.as_mut().and_then(|current| current.installer.take()) {
            out.background.push(Job::Install(installer));
        }
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
        self.current.take().expect("an installation ends once")
    }

    /// The writes that were held.
    pub(crate) fn take_held(&mut self) -> Vec<Write> {
        std::mem::take(&mut self.held)
    }
}
