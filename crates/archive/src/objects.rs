//! The objects of one archive.

use std::sync::Arc;

use api::stelepb::{BackupEntriesResponse, BackupPoint};
use bytes::Bytes;
use futures_util::TryStreamExt;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt, PutMode, PutOptions, WriteMultipart};
use prost::Message;

use crate::error::ArchiveError;
use crate::key::SecretKey;
use crate::location::Location;
use crate::names::{self, BaseName};
use crate::sealed::{ObjectKind, Opener, Sealer};

/// Parts of a base that are on their way at once; each is in memory.
const MAX_PARTS: usize = 4;

/// An archive.
#[derive(Clone)]
pub struct Archive {
    store: Arc<dyn ObjectStore>,
    key: Option<SecretKey>,
}

/// What a log object holds: what a member answered, in order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LogObject {
    /// The answers, with entries and points.
    pub answers: Vec<BackupEntriesResponse>,
}

impl LogObject {
    /// The last entry.
    pub fn last_index(&self) -> Option<u64> {
        self.answers.iter().rev().find_map(|answer| answer.entries.last()).map(|entry| entry.index)
    }

    /// The last point.
    pub fn point(&self) -> Option<&BackupPoint> {
        self.answers.iter().rev().find_map(|answer| answer.point.as_ref())
    }
}

impl Archive {
    /// Opens an archive. A directory is created if `creates`.
    ///
    /// # Errors
    /// The address has another form, or names nothing that can be opened.
    pub fn open(url: &str, key: Option<SecretKey>, creates: bool) -> Result<Archive, ArchiveError> {
        Ok(Archive { store: Location::parse(url)?.open(creates)?, key })
    }

    /// Whether its objects are encrypted.
    pub fn is_encrypted(&self) -> bool {
        self.key.is_some()
    }

    /// Whose archive it is; `None` if it is empty.
    ///
    /// # Errors
    /// It cannot be read, has another key, or is something else.
    pub async fn owner(&self) -> Result<Option<BackupPoint>, ArchiveError> {
        let Some(bytes) = self.get(names::OWNER).await? else { return Ok(None) };
        match Opener::begin(ObjectKind::Owner, &bytes, self.key.as_ref()) {
            Ok((opener, point, at)) => {
                opener.content(&bytes, at).map_err(|why| ArchiveError::damaged(names::OWNER, why))?;
                Ok(Some(point))
            }
            Err(why) => Err(ArchiveError::Foreign(format!("the archive cannot be opened: {why}"))),
        }
    }

    /// Makes it the archive of a cluster, or checks that it is that already.
    ///
    /// # Errors
    /// It is another cluster's, or the store failed.
    pub async fn claim(&self, point: &BackupPoint) -> Result<(), ArchiveError> {
        if self.owner().await?.is_none() {
            let owner = BackupPoint {
                cluster_id: point.cluster_id,
                lineage: point.lineage,
                time_ms: point.time_ms,
                ..BackupPoint::default()
            };
            let bytes = self.seal(names::OWNER, ObjectKind::Owner, &owner, b"")?;
            match self.put(names::OWNER, bytes, PutMode::Create).await {
                // Another process was first; who it is for is checked below.
                Ok(()) | Err(ArchiveError::Exists(_)) => {}
                Err(error) => return Err(error),
            }
        }
        match self.owner().await? {
            Some(owner) => check_owner(&owner, point),
            None => Err(ArchiveError::damaged(names::OWNER, "it was deleted right after it was written")),
        }
    }

    /// All bases, oldest first.
    ///
    /// # Errors
    /// The store failed.
    pub async fn bases(&self) -> Result<Vec<BaseName>, ArchiveError> {
        let mut bases: Vec<BaseName> =
            self.list(names::BASES).await?.iter().filter_map(|file| BaseName::parse(file)).collect();
        bases.sort_unstable();
        Ok(bases)
    }

    /// The first entries of all log objects, in order.
    ///
    /// # Errors
    /// The store failed.
    pub async fn logs(&self) -> Result<Vec<u64>, ArchiveError> {
        let mut logs: Vec<u64> =
            self.list(names::LOGS).await?.iter().filter_map(|file| names::parse_log(file)).collect();
        logs.sort_unstable();
        Ok(logs)
    }

    /// Bytes of all bases and log objects.
    ///
    /// # Errors
    /// The store failed.
    pub async fn stored_bytes(&self) -> Result<u64, ArchiveError> {
        let mut bytes = 0;
        for folder in [names::BASES, names::LOGS] {
            let listed = self.store.list(Some(&Path::from(folder)));
            let sizes = listed.try_fold(0, |sum, object| async move { Ok(sum + object.size) });
            bytes += sizes.await.map_err(ArchiveError::store("list", folder))?;
        }
        Ok(bytes)
    }

    /// Writes a log object. Returns its length.
    ///
    /// # Errors
    /// [`ArchiveError::Exists`] if there is one that begins with the same entry; the store failed.
    pub async fn put_log(
        &self,
        first: u64,
        owner: &BackupPoint,
        log: &LogObject,
    ) -> Result<u64, ArchiveError> {
        let name = names::log_path(first);
        let point = BackupPoint { index: first, ..*owner };
        let mut content = Vec::new();
        for answer in &log.answers {
            // A vector grows as it must.
            answer
                .encode_length_delimited(&mut content)
                .map_err(|why| ArchiveError::Wrong(why.to_string()))?;
        }
        let bytes = self.seal(&name, ObjectKind::Log, &point, &content)?;
        let length = bytes.len() as u64;
        self.put(&name, bytes, PutMode::Create).await?;
        Ok(length)
    }

    /// Reads a log object, of the cluster of `owner`.
    ///
    /// # Errors
    /// It is missing, damaged or foreign; the store failed.
    pub async fn log(&self, first: u64, owner: &BackupPoint) -> Result<LogObject, ArchiveError> {
        let name = names::log_path(first);
        let damaged = |why: String| ArchiveError::damaged(&name, why);
        let bytes = self.get(&name).await?.ok_or_else(|| damaged("it is missing".to_owned()))?;
        let (opener, point, at) =
            Opener::begin(ObjectKind::Log, &bytes, self.key.as_ref()).map_err(damaged)?;
        check_owner(owner, &point)?;
        let mut content = Bytes::from(opener.content(&bytes, at).map_err(damaged)?);
        let mut answers = Vec::new();
        while !content.is_empty() {
            let answer = BackupEntriesResponse::decode_length_delimited(&mut content);
            answers.push(answer.map_err(|error| damaged(format!("its entries: {error}")))?);
        }
        let log = LogObject { answers };
        check_entries(first, &log).map_err(damaged)?;
        Ok(log)
    }

    /// Notes that the state at a point is the newest one.
    ///
    /// # Errors
    /// The store failed.
    pub async fn put_progress(&self, point: &BackupPoint) -> Result<(), ArchiveError> {
        let bytes = self.seal(names::PROGRESS, ObjectKind::Progress, point, b"")?;
        self.put(names::PROGRESS, bytes, PutMode::Overwrite).await
    }

    /// The last state that was noted as the newest one.
    ///
    /// # Errors
    /// It is damaged, or the store failed.
    pub async fn progress(&self) -> Result<Option<BackupPoint>, ArchiveError> {
        let damaged = |why: String| ArchiveError::damaged(names::PROGRESS, why);
        let Some(bytes) = self.get(names::PROGRESS).await? else { return Ok(None) };
        let opened = Opener::begin(ObjectKind::Progress, &bytes, self.key.as_ref());
        let (opener, point, at) = opened.map_err(damaged)?;
        opener.content(&bytes, at).map_err(damaged)?;
        Ok(Some(point))
    }

    /// Begins to write a base.
    ///
    /// # Errors
    /// The store failed.
    pub(crate) async fn begin_base(&self, point: &BackupPoint) -> Result<BaseWriter, ArchiveError> {
        let path = BaseName::of(point).path();
        let begun = Sealer::begin(ObjectKind::Base, point, self.key.as_ref());
        let (sealer, bytes) = begun.map_err(ArchiveError::Wrong)?;
        let upload = self.store.put_multipart(&Path::from(path.as_str())).await;
        let mut upload = WriteMultipart::new(upload.map_err(ArchiveError::store("write", &path))?);
        upload.put(bytes.into());
        Ok(BaseWriter { path, sealer, upload, bytes: 0 })
    }

    /// Removes an object; one that does not exist is no error.
    ///
    /// # Errors
    /// The store failed.
    pub(crate) async fn remove(&self, name: &str) -> Result<(), ArchiveError> {
        match self.store.delete(&Path::from(name)).await {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(ArchiveError::store("remove", name)(error)),
        }
    }

    /// A part of an object, which may be shorter if the object is.
    ///
    /// # Errors
    /// The object does not exist, or the store failed.
    pub(crate) async fn part(&self, name: &str, range: std::ops::Range<u64>) -> Result<Bytes, ArchiveError> {
        let read = self.store.get_range(&Path::from(name), range).await;
        read.map_err(ArchiveError::store("read", name))
    }

    /// The length of an object.
    ///
    /// # Errors
    /// The object does not exist, or the store failed.
    pub(crate) async fn length(&self, name: &str) -> Result<u64, ArchiveError> {
        let head = self.store.head(&Path::from(name)).await;
        Ok(head.map_err(ArchiveError::store("read", name))?.size)
    }

    pub(crate) fn key(&self) -> Option<&SecretKey> {
        self.key.as_ref()
    }

    fn seal(
        &self,
        name: &str,
        kind: ObjectKind,
        point: &BackupPoint,
        content: &[u8],
    ) -> Result<Vec<u8>, ArchiveError> {
        let begun = Sealer::begin(kind, point, self.key.as_ref());
        let (mut sealer, mut bytes) =
            begun.map_err(|why| ArchiveError::Wrong(format!("cannot write {name}: {why}")))?;
        sealer.frames(content, &mut bytes);
        Ok(bytes)
    }

    async fn put(&self, name: &str, bytes: Vec<u8>, mode: PutMode) -> Result<(), ArchiveError> {
        let options = PutOptions { mode, ..PutOptions::default() };
        let put = self.store.put_opts(&Path::from(name), bytes.into(), options).await;
        put.map(drop).map_err(ArchiveError::store("write", name))
    }

    async fn get(&self, name: &str) -> Result<Option<Bytes>, ArchiveError> {
        let read = match self.store.get(&Path::from(name)).await {
            Ok(found) => found.bytes().await,
            Err(object_store::Error::NotFound { .. }) => return Ok(None),
            Err(error) => Err(error),
        };
        read.map(Some).map_err(ArchiveError::store("read", name))
    }

    /// The last parts of the names below one.
    async fn list(&self, folder: &str) -> Result<Vec<String>, ArchiveError> {
        let listed = self.store.list(Some(&Path::from(folder)));
        let files =
            listed.try_filter_map(|object| async move { Ok(object.location.filename().map(str::to_owned)) });
        files.try_collect().await.map_err(ArchiveError::store("list", folder))
    }
}

/// A base that is being written. It has no name until it is whole.
pub(crate) struct BaseWriter {
    path: String,
    sealer: Sealer,
    upload: WriteMultipart,
    bytes: u64,
}

impl BaseWriter {
    /// Adds a frame; all but the last are full.
    ///
    /// # Errors
    /// The store failed.
    pub(crate) async fn frame(&mut self, body: &[u8], is_last: bool) -> Result<(), ArchiveError> {
        let room = self.upload.wait_for_capacity(MAX_PARTS).await;
        room.map_err(ArchiveError::store("write", &self.path))?;
        let mut bytes = Vec::new();
        self.sealer.frame(body, is_last, &mut bytes);
        self.bytes += bytes.len() as u64;
        self.upload.put(bytes.into());
        Ok(())
    }

    /// Gives it its name. Returns its length.
    ///
    /// # Errors
    /// The store failed.
    pub(crate) async fn finish(self) -> Result<u64, ArchiveError> {
        let finished = self.upload.finish().await;
        finished.map_err(ArchiveError::store("write", &self.path))?;
        Ok(self.bytes)
    }

    /// Gives it up. Best effort: what is left has no name.
    pub(crate) async fn abandon(self) {
        let _ = self.upload.abort().await;
    }
}

/// Checks that an object belongs to the cluster of an archive.
pub(crate) fn check_owner(owner: &BackupPoint, point: &BackupPoint) -> Result<(), ArchiveError> {
    if (owner.cluster_id, owner.lineage) == (point.cluster_id, point.lineage) {
        return Ok(());
    }
    Err(ArchiveError::Foreign(format!(
        "the archive is that of cluster {:x} (lineage {:x}), and this is of cluster {:x} (lineage {:x}): a restored or \
         forced cluster needs an archive of its own",
        owner.cluster_id, owner.lineage, point.cluster_id, point.lineage
    )))
}

/// Checks that entries follow each other, from the first one on.
fn check_entries(first: u64, log: &LogObject) -> Result<(), String> {
    let entries = log.answers.iter().flat_map(|answer| &answer.entries);
    let mut next = first;
    for entry in entries {
        if entry.index != next {
            return Err(format!("entry {} stands where {next} should", entry.index));
        }
        next += 1;
    }
    if next == first { Err("it has no entries".to_owned()) } else { Ok(()) }
}
