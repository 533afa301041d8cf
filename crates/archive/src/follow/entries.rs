//! Entries into log objects.

use std::time::Duration;

use api::stelepb::BackupPoint;
use tokio::time::Instant;

use super::{BackupFollower, BackupSource, MAX_PAUSE, MIN_PAUSE, SourceError, StepError};
use crate::error::ArchiveError;
use crate::objects::{Archive, LogObject, check_owner};

/// Bytes of payload in a log object at most, besides one answer of any size. It is in memory as a whole.
const MAX_LOG_BYTES: usize = 16 << 20;

/// Time after which it is noted that there were no more entries.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(30);

/// How far the copy of entries is.
struct EntryPosition {
    /// The next entry to copy.
    next: u64,
    /// Since when nothing was written.
    quiet_since: Option<Instant>,
}

impl<S: BackupSource> BackupFollower<'_, S> {
    /// Copies entries until the end that is set, or forever.
    pub(super) async fn copy_entries(&self, owner: &BackupPoint) -> Result<(), ArchiveError> {
        let mut position = EntryPosition { next: self.first().await?, quiet_since: None };
        loop {
            let began = Instant::now();
            let next = position.next;
            let copied = self.patiently(|| self.copy_available(owner, next)).await?;
            match copied {
                CopiedEntries::UpTo(last, point) => self.note(&mut position, last, point).await?,
                CopiedEntries::Gone(why) => {
                    position.next = self.behind_base(next, &why).await?;
                    continue;
                }
                CopiedEntries::Elsewhere => {
                    self.status.say("warning: another process writes the same archive".to_owned());
                    position.next = self.first().await?;
                }
            }
            if self.settings.once {
                return Ok(());
            }
            tokio::time::sleep_until(began + self.settings.interval).await;
        }
    }

    /// The entry to resume with: after the last one in the archive, else after its first base, which it waits for.
    pub(super) async fn first(&self) -> Result<u64, ArchiveError> {
        loop {
            let taken = self.base_taken.notified();
            match self.patiently(|| async { Ok(end_of(self.archive).await?) }).await? {
                ArchiveEnd::Nothing => taken.await,
                ArchiveEnd::Entry { last, covered } => {
                    let BackupPoint { time_ms, index, revision, .. } = covered;
                    self.status.covered(time_ms, index, revision);
                    return Ok(last + 1);
                }
                ArchiveEnd::Damaged { first, why } => return self.behind_base(first, &why).await,
            }
        }
    }

    /// The entry to resume with when `next` cannot be had: the one after the newest base, or after a new one.
    async fn behind_base(&self, next: u64, why: &str) -> Result<u64, ArchiveError> {
        let mut pause = MIN_PAUSE;
        let mut is_taken = false;
        loop {
            let bases = self.patiently(|| async { Ok(self.archive.bases().await?) }).await?;
            if let Some(base) = bases.last().filter(|base| base.index >= next) {
                self.status.say(format!(
                    "warning: {why}: no state between entry {} and the base at revision {} can be restored",
                    next - 1,
                    base.revision
                ));
                return Ok(base.index + 1);
            }
            if is_taken {
                // It is of a member that lags behind the one whose entries are in the archive.
                self.status.failed("the member's state is older than the archive's end");
                tokio::time::sleep(pause).await;
                pause = (2 * pause).min(MAX_PAUSE);
            }
            self.patiently(|| self.take_base()).await?;
            is_taken = true;
        }
    }

    async fn note(
        &self,
        position: &mut EntryPosition,
        last: u64,
        point: BackupPoint,
    ) -> Result<(), ArchiveError> {
        self.status.covered(point.time_ms, last, point.revision);
        if last >= position.next {
            *position = EntryPosition { next: last + 1, quiet_since: Some(Instant::now()) };
            return Ok(());
        }
        let is_due = position.quiet_since.is_none_or(|since| since.elapsed() >= PROGRESS_INTERVAL);
        if is_due || self.settings.once {
            self.patiently(|| async { Ok(self.archive.put_progress(&point).await?) }).await?;
            position.quiet_since = Some(Instant::now());
        }
        Ok(())
    }

    /// Copies all entries that there are.
    async fn copy_available(&self, owner: &BackupPoint, first: u64) -> Result<CopiedEntries, StepError> {
        let mut next = first;
        loop {
            let (mut log, mut bytes, mut end) = (LogObject::default(), 0, next);
            while bytes < MAX_LOG_BYTES {
                let answer = match self.source.entries(end).await {
                    Ok(answer) => answer,
                    // What was read before is written first.
                    Err(SourceError::Gone(_)) if end > next => break,
                    Err(SourceError::Gone(why)) => return Ok(CopiedEntries::Gone(why)),
                    Err(error) => return Err(error.into()),
                };
                if let Some(point) = &answer.point {
                    check_owner(owner, point)?;
                }
                let is_end = answer.point.is_some() || answer.entries.is_empty();
                bytes += answer.entries.iter().map(|entry| entry.payload.len()).sum::<usize>();
                end = answer.entries.last().map_or(end, |entry| entry.index + 1);
                log.answers.push(answer);
                if is_end {
                    break;
                }
            }
            let point = log.point().copied();
            if end > next {
                match self.archive.put_log(next, owner, &log).await {
                    Ok(length) => self.status.wrote_log(length, end - 1),
                    Err(ArchiveError::Exists(_)) => return Ok(CopiedEntries::Elsewhere),
                    Err(error) => return Err(error.into()),
                }
                next = end;
            }
            if let Some(point) = point {
                return Ok(CopiedEntries::UpTo(next - 1, point));
            }
        }
    }
}

/// What a step came to.
enum CopiedEntries {
    /// All entries up to this one are in the archive, and the state after it is known.
    UpTo(u64, BackupPoint),
    /// The next entry has left the log.
    Gone(String),
    /// Another process has written the next entry.
    Elsewhere,
}

/// How far an archive goes.
pub(super) enum ArchiveEnd {
    /// It has no base yet.
    Nothing,
    /// It has all entries up to `last`, and nothing that was acknowledged before the time of `covered` is missing.
    Entry { last: u64, covered: BackupPoint },
    /// Its last log object, which begins with entry `first`, is damaged.
    Damaged { first: u64, why: String },
}

/// Finds how far an archive goes: to its last log object, or without one to its newest base.
pub(super) async fn end_of(archive: &Archive) -> Result<ArchiveEnd, ArchiveError> {
    let newest = archive.bases().await?.last().copied();
    let (Some(base), Some(owner)) = (newest, archive.owner().await?) else { return Ok(ArchiveEnd::Nothing) };
    let mut covered = BackupPoint {
        time_ms: base.time_ms,
        index: base.index,
        revision: base.revision,
        ..BackupPoint::default()
    };
    let mut last = base.index;
    if let Some(first) = archive.logs().await?.last() {
        let log = match archive.log(*first, &owner).await {
            Err(error @ ArchiveError::Damaged { .. }) => {
                return Ok(ArchiveEnd::Damaged { first: *first, why: error.to_string() });
            }
            log => log?,
        };
        // An object without entries is damaged.
        last = log.last_index().unwrap_or(*first);
        covered = log.point().copied().into_iter().fold(covered, newer);
    }
    // A damaged note is written again.
    let noted = match archive.progress().await {
        Err(ArchiveError::Damaged { .. }) => None,
        noted => noted?,
    };
    let noted = noted.filter(|noted| noted.index <= last.max(base.index));
    Ok(ArchiveEnd::Entry { last, covered: noted.into_iter().fold(covered, newer) })
}

fn newer(left: BackupPoint, right: BackupPoint) -> BackupPoint {
    if right.time_ms > left.time_ms { right } else { left }
}
