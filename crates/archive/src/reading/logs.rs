//! Log objects in order: the next one is read, checked and decrypted while the caller works on one. Two of them are in
//! memory, each of some 16 MiB.

use super::source::{ArchiveSource, PartAhead};
use crate::error::ArchiveError;
use crate::objects::LogObject;

/// Reads log objects, each while the caller works on the one before it.
pub struct LogReader<'a> {
    source: &'a ArchiveSource,
    firsts: std::vec::IntoIter<u64>,
    /// The next one.
    ahead: Option<PartAhead<LogObject>>,
}

impl<'a> LogReader<'a> {
    /// Of the objects that begin with these entries.
    pub(super) fn new(source: &'a ArchiveSource, firsts: Vec<u64>) -> LogReader<'a> {
        LogReader { source, firsts: firsts.into_iter(), ahead: None }
    }

    /// Begins to read the next one.
    fn begin(&mut self) -> Option<PartAhead<LogObject>> {
        let first = self.firsts.next()?;
        let (archive, owner) = (self.source.archive.clone(), self.source.owner);
        Some(self.source.begin(first, async move { archive.log(first, &owner).await }))
    }
}

impl Iterator for LogReader<'_> {
    /// The first entry of an object, and the object, unless it is missing, damaged or foreign, or the store failed.
    type Item = (u64, Result<LogObject, ArchiveError>);

    fn next(&mut self) -> Option<Self::Item> {
        let part = self.ahead.take().or_else(|| self.begin())?;
        let (first, read) = (part.number, self.source.wait(part));
        self.ahead = self.begin();
        Some((first, read))
    }
}

#[cfg(test)]
mod tests {
    use api::stelepb::{BackupEntriesResponse, BackupEntry, BackupPoint};

    use super::*;
    use crate::objects::Archive;

    #[test]
    fn the_next_log_object_is_read_while_one_is_used() {
        let dir = tempfile::tempdir().expect("a directory");
        let url = dir.path().display().to_string();
        let archive = Archive::open(&url, None, true).expect("it is made");
        let owner = BackupPoint { cluster_id: 7, index: 1, ..Default::default() };
        let object = |index| {
            let entries = vec![BackupEntry { index, term: 1, ..Default::default() }];
            LogObject { answers: vec![BackupEntriesResponse { entries, ..Default::default() }] }
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            archive.claim(&owner).await.expect("it is ours");
            for first in 1..=3 {
                archive.put_log(first, &owner, &object(first)).await.expect("it is written");
            }
        });
        let source = ArchiveSource::open(&url, None).expect("there is one");
        let mut logs = LogReader::new(&source, vec![1, 2, 9, 3]);
        let ahead = |logs: &LogReader<'_>| logs.ahead.as_ref().map(|ahead| ahead.number);
        let mut next = || (logs.next().map(|(first, log)| (first, log.ok())), ahead(&logs));
        assert_eq!(next(), (Some((1, Some(object(1)))), Some(2)));
        assert_eq!(next(), (Some((2, Some(object(2)))), Some(9)));
        assert_eq!(next(), (Some((9, None)), Some(3)), "there is no such object");
        assert_eq!(next(), (Some((3, Some(object(3)))), None));
        assert_eq!(next(), (None, None));
    }
}
