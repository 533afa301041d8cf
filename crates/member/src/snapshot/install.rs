//! The follower's side, once a snapshot is here: from consensus's wish to a store that has it.

use consensus::{SnapshotMeta, Write};
use log::{InstallDone, SnapshotInstaller};
use store::Restored;

use crate::background::Job;
use crate::io::{Fatal, Notice, Now, Output, SnapshotEvent};
use crate::member::Member;

/// A whole snapshot that consensus has heard of.
pub(super) struct Arrived {
    pub(super) from: u64,
    pub(super) meta: SnapshotMeta,
    pub(super) installer: Box<SnapshotInstaller>,
    pub(super) restored: Restored,
}

/// An installation that consensus wants.
pub(super) struct Installing {
    from: u64,
    meta: SnapshotMeta,
    write: Write,
    /// Here until it may begin.
    installer: Option<Box<SnapshotInstaller>>,
    restored: Restored,
}

impl Member {
    /// Consensus wants the snapshot it heard of installed, before everything that it wants written later.
    pub(crate) fn want_install(&mut self, meta: SnapshotMeta, write: Write) {
        let arrived = self.snapshots.arrived.take().expect("consensus wants only what it was told of");
        assert!(arrived.meta == meta, "consensus wants another snapshot than it was told of");
        let Arrived { from, meta, installer, restored } = arrived;
        self.snapshots.installing =
            Some(Installing { from, meta, write, installer: Some(installer), restored });
    }

    /// A write that comes after the installation.
    pub(crate) fn hold_write(&mut self, write: Write) {
        self.snapshots.held.push(write);
    }

    /// Begins what may begin, and gives up what consensus did not want: it had the entries, or a newer leader.
    pub(crate) fn drive_install(&mut self, out: &mut Output) {
        if let Some(arrived) = self.snapshots.arrived.take() {
            out.background.push(Job::AbandonInstall(arrived.installer));
        }
        // A checkpoint of the old state must not be under way when the state is replaced.
        if self.upkeep.is_checkpoint_running() {
            return;
        }
        if let Some(installer) =
            self.snapshots.installing.as_mut().and_then(|under_way| under_way.installer.take())
        {
            out.background.push(Job::Install(installer));
        }
    }

    /// The commit is durable: log, store, watchers and backlog go over to the new state.
    pub(crate) fn on_installed(
        &mut self,
        now: Now,
        done: InstallDone,
        out: &mut Output,
    ) -> Result<(), Fatal> {
        let Installing { from, meta, write, restored, .. } =
            self.snapshots.installing.take().expect("an installation ends once");
        let mut hard_state = self.newest_hard_state(&write);
        hard_state.commit = hard_state.commit.max(meta.index);
        let installed =
            self.log.install_done(done, hard_state).map_err(|source| Fatal::Install { source })?;
        let mut position = installed.position;
        out.writes.push(installed.job);
        self.store.install(restored);
        self.log.install_switched();
        self.backlog.jump(meta.index, meta.term);
        self.hub.snapshot_installed(self.reader.current_revision());
        self.upkeep.installed();
        self.forget_reclaiming();
        self.forget_repairs(out);
        if !write.entries.is_empty() {
            let append = self.log.append(None, crate::agree::to_log_entries(write.entries));
            position = append.position;
            out.writes.push(append.job);
        }
        self.note_write(now, write.number, position);
        let event = SnapshotEvent::Installed { index: meta.index };
        out.notices.push(Notice::Snapshot { peer: from, event });
        for write in std::mem::take(&mut self.snapshots.held) {
            self.write(now, write, out);
        }
        Ok(())
    }

    /// An installation that came to nothing has left its files to be removed.
    pub(crate) fn install_abandoned(&mut self, done: InstallDone) {
        let hard_state = self.log.hard_state();
        // Nothing was committed, so nothing is planned.
        let _ = self.log.install_done(done, hard_state);
    }
}
