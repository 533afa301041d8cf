//! Copies a cluster into an archive, as it goes on.
//!
//! Two things happen beside each other, so that a large base does not hold up the entries:
//!
//! ```text
//! entries   every interval: ask for all entries behind the last one, write them as log objects
//! bases     when one is due: copy the state, then remove what is too old
//! ```
//!
//! Where to go on is read from the archive, so a writer that was interrupted loses nothing but what it had not written.
//! If the member's log has lost the next entry meanwhile, or the last log object is damaged, a new base is taken and
//! entries are copied from there on: the states in between cannot be restored, and a warning says so.

mod bases;
mod entries;
mod source;
mod status;
#[cfg(test)]
mod tests;

use std::cell::Cell;
use std::time::Duration;

use api::stelepb::BackupPoint;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::error::ArchiveError;
use crate::objects::Archive;

pub use source::{BackupSource, BasePart, BaseStream, SourceError};
pub use status::{FollowStatus, wall_clock_ms};

/// Pause after the first failure; it doubles with each further one.
const MIN_PAUSE: Duration = Duration::from_millis(250);

/// The longest pause after a failure.
const MAX_PAUSE: Duration = Duration::from_secs(30);

/// How a cluster is copied.
#[derive(Clone, Debug)]
pub struct FollowSettings {
    /// Time between two copies of new entries: what is lost at most with the cluster, besides the time that a copy
    /// takes.
    pub interval: Duration,
    /// Time between two bases.
    pub base_interval: Duration,
    /// For how long states can be restored; `None` forever.
    pub keep: Option<Duration>,
    /// Ends when the archive has all that the cluster had at the start.
    pub once: bool,
}

/// One copy. See the module.
pub struct BackupFollower<'a, S> {
    archive: &'a Archive,
    source: &'a S,
    settings: FollowSettings,
    status: &'a FollowStatus,
    /// There is a new base.
    base_taken: Notify,
    /// When this copy took its last base.
    last_base: Cell<Option<Instant>>,
}

/// Why a copy ended, or a step of it failed.
#[derive(Debug)]
enum StepError {
    Archive(ArchiveError),
    Source(SourceError),
}

impl From<ArchiveError> for StepError {
    fn from(error: ArchiveError) -> StepError {
        StepError::Archive(error)
    }
}

impl From<SourceError> for StepError {
    fn from(error: SourceError) -> StepError {
        StepError::Source(error)
    }
}

impl std::fmt::Display for StepError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            StepError::Archive(error) => error.fmt(f),
            StepError::Source(
                SourceError::Gone(why) | SourceError::Passing(why) | SourceError::Final(why),
            ) => f.write_str(why),
        }
    }
}

impl StepError {
    /// Whether the store rejects the credentials. With `once` the copy fails instead of waiting for new ones.
    fn is_denied(&self) -> bool {
        matches!(self, StepError::Archive(error) if error.is_denied())
    }

    fn is_passing(&self) -> bool {
        match self {
            StepError::Archive(error) => error.is_passing(),
            StepError::Source(error) => matches!(error, SourceError::Passing(_)),
        }
    }
}

impl<'a, S: BackupSource> BackupFollower<'a, S> {
    /// A copy of `source` into `archive`, which shows what it does in `status`.
    pub fn new(
        archive: &'a Archive,
        source: &'a S,
        settings: FollowSettings,
        status: &'a FollowStatus,
    ) -> BackupFollower<'a, S> {
        let (base_taken, last_base) = Default::default();
        BackupFollower { archive, source, settings, status, base_taken, last_base }
    }

    /// Copies until the end that is set, or forever. Failures that may pass are noted in the status, and the step is
    /// repeated.
    ///
    /// # Errors
    /// What does not pass: an archive of another cluster or with another key, a permission that is missing.
    pub async fn run(&self) -> Result<(), ArchiveError> {
        let owner = self.patiently(|| self.begin()).await?;
        let (entries, bases) = (self.copy_entries(&owner), self.take_bases());
        let ended = tokio::try_join!(entries, bases);
        ended.map(|_| ())
    }

    /// Asks the cluster who it is, and claims the archive for it.
    async fn begin(&self) -> Result<BackupPoint, StepError> {
        let answer = self.source.entries(0).await?;
        let point = answer.point.ok_or_else(|| {
            SourceError::Final(
                "the member returned no backup point: it runs an incompatible release".to_owned(),
            )
        })?;
        self.archive.claim(&point).await?;
        Ok(point)
    }

    /// Repeats a step until it succeeds, or fails for good.
    async fn patiently<T, F: Future<Output = Result<T, StepError>>>(
        &self,
        step: impl Fn() -> F,
    ) -> Result<T, ArchiveError> {
        let mut pause = MIN_PAUSE;
        loop {
            let error = match step().await {
                Ok(done) => return Ok(done),
                Err(error) => error,
            };
            if !error.is_passing() || self.settings.once && error.is_denied() {
                self.status.count_failure();
                return Err(match error {
                    StepError::Archive(error) => error,
                    StepError::Source(_) => ArchiveError::Wrong(error.to_string()),
                });
            }
            self.status.failed(&error.to_string());
            tokio::time::sleep(pause).await;
            pause = (2 * pause).min(MAX_PAUSE);
        }
    }
}
