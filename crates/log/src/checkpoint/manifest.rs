//! The manifest: the identity of the data directory, and the chain of checkpoints. Recovery begins with it.
//!
//! It is small, and is always replaced as a whole: written under an unfinished name, synced, renamed. Only the first of
//! these steps needs space, and nothing has happened until the last.

use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};

use crate::disk::Disk;
use crate::error::OpenError;
use crate::format::{
    FileHeader, FileType, HEADER_BYTES, Layout, UNFINISHED_SUFFIX, file_name, read_u32, read_u64,
};
use crate::types::{Identity, LogId, MAX_INDEX};

const LINK_BYTES: usize = 32;
/// Next number, count.
const MANIFEST_HEAD_BYTES: usize = 8;

/// What a checkpoint holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum CheckpointKind {
    /// The whole state.
    Base = 1,
    /// What changed since the checkpoint before it.
    Delta = 2,
}

impl CheckpointKind {
    fn suffix(self) -> &'static str {
        match self {
            CheckpointKind::Base => "base",
            CheckpointKind::Delta => "delta",
        }
    }

    fn from_byte(byte: u8) -> Option<CheckpointKind> {
        match byte {
            1 => Some(CheckpointKind::Base),
            2 => Some(CheckpointKind::Delta),
            _ => None,
        }
    }
}

/// One checkpoint of the chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ManifestLink {
    pub(crate) number: u32,
    pub(crate) kind: CheckpointKind,
    pub(crate) id: LogId,
    /// Bytes of the file.
    pub(crate) length: u64,
}

impl ManifestLink {
    pub(crate) fn path(&self, layout: &Layout) -> PathBuf {
        layout.checkpoint.join(file_name(self.number, self.kind.suffix()))
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Manifest {
    pub(crate) identity: Identity,
    /// All files to come have this number or a higher one.
    pub(crate) next_number: u32,
    /// A base and the deltas after it, or nothing.
    pub(crate) chain: Vec<ManifestLink>,
}

impl Manifest {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let header = FileHeader { file_type: FileType::Manifest, number: 0, identity: self.identity };
        let mut bytes = header.encode().to_vec();
        bytes.extend(self.next_number.to_le_bytes());
        bytes.extend((self.chain.len() as u32).to_le_bytes());
        for link in &self.chain {
            bytes.extend(link.number.to_le_bytes());
            bytes.extend([link.kind as u8, 0, 0, 0]);
            bytes.extend(link.id.index.to_le_bytes());
            bytes.extend(link.id.term.to_le_bytes());
            bytes.extend(link.length.to_le_bytes());
        }
        let crc = crc32c::crc32c(&bytes[HEADER_BYTES as usize..]);
        bytes.extend(crc.to_le_bytes());
        bytes
    }

    pub(crate) fn decode(bytes: &[u8], path: &Path) -> Result<Manifest, OpenError> {
        let identity = FileHeader::decode(bytes, FileType::Manifest, path)?.identity;
        let corrupt = |what: &str| OpenError::corrupt(path, HEADER_BYTES, what);
        let body = &bytes[HEADER_BYTES as usize..];
        if body.len() < MANIFEST_HEAD_BYTES + 4 {
            return Err(corrupt("it is cut short"));
        }
        let (body, crc) = body.split_at(body.len() - 4);
        if crc32c::crc32c(body) != read_u32(crc, 0) {
            return Err(corrupt("its checksum does not match"));
        }
        let links = &body[MANIFEST_HEAD_BYTES..];
        if read_u32(body, 4) as usize * LINK_BYTES != links.len() {
            return Err(corrupt("its count of checkpoints does not match its length"));
        }
        let chain: Option<Vec<ManifestLink>> = links.chunks_exact(LINK_BYTES).map(decode_link).collect();
        let chain = chain.ok_or_else(|| corrupt("it names a checkpoint of an unknown kind"))?;
        let well_formed =
            chain.iter().enumerate().all(|(at, link)| (at == 0) == (link.kind == CheckpointKind::Base));
        if !well_formed {
            return Err(corrupt("its checkpoints are not one base and the deltas after it"));
        }
        if chain.iter().any(|link| link.id.index > MAX_INDEX) {
            return Err(corrupt("a checkpoint is of an entry that no log has"));
        }
        Ok(Manifest { identity, next_number: read_u32(body, 0), chain })
    }

    pub(crate) fn read(disk: &dyn Disk, path: &Path) -> Result<Manifest, OpenError> {
        let file = disk.open(path).map_err(OpenError::io("open", path))?;
        let length = file.length().map_err(OpenError::io("measure", path))?;
        // A chain has some dozens of links at most; a far longer file is not a manifest.
        let mut bytes = vec![0; length.min(1 << 20) as usize];
        let count = file.read_at(&mut bytes, 0).map_err(OpenError::io("read", path))?;
        Manifest::decode(&bytes[..count], path)
    }

    /// Writes it under the unfinished name, durably. After an error, the disk has the old manifest.
    pub(crate) fn write_unfinished(&self, disk: &dyn Disk, layout: &Layout) -> io::Result<()> {
        let unfinished = unfinished_path(layout);
        if disk.exists(&unfinished)? {
            disk.remove(&unfinished)?;
        }
        let file = disk.create_new(&unfinished)?;
        file.write_at(&[IoSlice::new(&self.encode())], 0)?;
        file.sync_data()
    }

    /// Makes the unfinished manifest the manifest, durably. After an error, the disk may have the old one or the new
    /// one.
    pub(crate) fn replace_by_unfinished(disk: &dyn Disk, layout: &Layout) -> io::Result<()> {
        disk.rename(&unfinished_path(layout), &layout.manifest())?;
        disk.sync_dir(&layout.checkpoint)
    }
}

fn unfinished_path(layout: &Layout) -> PathBuf {
    layout.manifest().with_extension(UNFINISHED_SUFFIX)
}

fn decode_link(bytes: &[u8]) -> Option<ManifestLink> {
    Some(ManifestLink {
        number: read_u32(bytes, 0),
        kind: CheckpointKind::from_byte(bytes[4])?,
        id: LogId { index: read_u64(bytes, 8), term: read_u64(bytes, 16) },
        length: read_u64(bytes, 24),
    })
}
