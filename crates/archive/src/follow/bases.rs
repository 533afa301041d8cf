//! Bases: when one is due, and copying it.

use std::time::Duration;

use tokio::time::Instant;

use super::{BackupFollower, BackupSource, BasePart, BaseStream, SourceError, StepError, wall_clock_ms};
use crate::error::ArchiveError;
use crate::objects::BaseWriter;
use crate::prune::prune;
use crate::sealed::CHUNK_BYTES;

/// Time between two looks at what is due and what is too old: clocks are set, and days are long.
const MAX_LOOK_INTERVAL: Duration = Duration::from_secs(3600);

impl<S: BackupSource> BackupFollower<'_, S> {
    /// Takes bases until the end that is set, or forever.
    pub(super) async fn take_bases(&self) -> Result<(), ArchiveError> {
        loop {
            let wait = self.patiently(|| async { Ok(self.until_due().await?) }).await?;
            if wait.is_zero() {
                self.patiently(|| self.take_base()).await?;
                self.base_taken.notify_waiters();
            }
            self.remove_old().await;
            if self.settings.once {
                return Ok(());
            }
            tokio::time::sleep(wait.min(MAX_LOOK_INTERVAL)).await;
        }
    }

    /// The time until the next base is due: `base_interval` after the newest one in the archive, and after the last one
    /// of this copy. The clock that stamps bases is the member's, and may differ from the one here: while a base has a
    /// time that has not come, only the last one of this copy counts.
    async fn until_due(&self) -> Result<Duration, ArchiveError> {
        let Some(newest) = self.archive.bases().await?.last().copied() else { return Ok(Duration::ZERO) };
        let age_ms = wall_clock_ms().checked_sub(newest.time_ms);
        let age = age_ms.map_or(Duration::MAX, Duration::from_millis);
        let since_own = self.last_base.get().map_or(Duration::MAX, |taken| taken.elapsed());
        Ok(self.settings.base_interval.saturating_sub(age.min(since_own)))
    }

    /// Copies the state as it is now.
    pub(super) async fn take_base(&self) -> Result<(), StepError> {
        let mut stream = self.source.base().await?;
        let Some(BasePart::Begin(point, total)) = stream.next().await? else {
            return Err(SourceError::Passing("the base has no beginning".to_owned()).into());
        };
        self.archive.claim(&point).await?;
        let mut writer = self.archive.begin_base(&point).await?;
        let copied = self.copy_base(&mut stream, &mut writer, total).await;
        self.status.base_at(0, 0);
        if let Err(error) = copied {
            writer.abandon().await;
            return Err(error);
        }
        let bytes = writer.finish().await?;
        self.last_base.set(Some(Instant::now()));
        self.status.wrote_base(bytes);
        self.status.say(format!("copied the state at revision {}, {total} bytes", point.revision));
        Ok(())
    }

    async fn copy_base(
        &self,
        stream: &mut S::Base,
        writer: &mut BaseWriter,
        total: u64,
    ) -> Result<(), StepError> {
        let (mut waiting, mut done) = (Vec::with_capacity(2 * CHUNK_BYTES), 0);
        self.status.base_at(0, total);
        while let Some(part) = stream.next().await? {
            let BasePart::Bytes(bytes) = part else {
                return Err(SourceError::Passing("the base begins twice".to_owned()).into());
            };
            done += bytes.len() as u64;
            waiting.extend_from_slice(&bytes);
            while waiting.len() >= CHUNK_BYTES {
                writer.frame(&waiting[..CHUNK_BYTES], false).await?;
                waiting.drain(..CHUNK_BYTES);
            }
            self.status.base_at(done, total);
        }
        if done != total {
            let why = format!("the base ended after {done} of {total} bytes");
            return Err(SourceError::Passing(why).into());
        }
        Ok(writer.frame(&waiting, true).await?)
    }

    /// Removes what is too old. What cannot be removed now is removed the next time.
    async fn remove_old(&self) {
        let Some(keep) = self.settings.keep else { return };
        let before_ms = wall_clock_ms().saturating_sub(keep.as_millis() as u64);
        match prune(self.archive, before_ms).await {
            Ok(0) => {}
            Ok(removed) => self.status.say(format!("removed {removed} objects that are too old")),
            Err(error) => self.status.failed(&format!("cannot remove what is too old: {error}")),
        }
    }
}
