//! The header of every file, 64 bytes: type, format version, file number, and the identity of the data directory.

use std::path::Path;

use super::record::{read_u32, read_u64};
use crate::error::OpenError;
use crate::types::Identity;

/// Bytes of a file header.
pub(crate) const HEADER_BYTES: u64 = 64;
/// The format version of every file; there is only one so far.
pub(crate) const FORMAT_VERSION: u32 = 1;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FileType {
    Segment,
    DataSegment,
    Checkpoint,
    Manifest,
}

impl FileType {
    fn magic(self) -> &'static [u8; 8] {
        match self {
            FileType::Segment => b"STELESEG",
            FileType::DataSegment => b"STELEDAT",
            FileType::Checkpoint => b"STELECKP",
            FileType::Manifest => b"STELEMAN",
        }
    }

    fn name(self) -> &'static str {
        match self {
            FileType::Segment => "a log segment",
            FileType::DataSegment => "a data segment",
            FileType::Checkpoint => "a checkpoint",
            FileType::Manifest => "a manifest",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileHeader {
    pub(crate) file_type: FileType,
    pub(crate) number: u32,
    pub(crate) identity: Identity,
}

impl FileHeader {
    pub(crate) fn encode(&self) -> [u8; HEADER_BYTES as usize] {
        let mut bytes = [0; HEADER_BYTES as usize];
        bytes[..8].copy_from_slice(self.file_type.magic());
        bytes[8..12].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.number.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.identity.cluster_id.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.identity.member_id.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.identity.incarnation.to_le_bytes());
        let crc = crc32c::crc32c(&bytes[..60]);
        bytes[60..].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// Decodes the header of a file of this type. The version is checked before the checksum: a later format may have
    /// another header, which must not be reported as damage. A version that does not fit, in a header whose checksum
    /// fits the known one, is damage.
    pub(crate) fn decode(bytes: &[u8], file_type: FileType, path: &Path) -> Result<FileHeader, OpenError> {
        if (bytes.len() as u64) < HEADER_BYTES {
            let (length, what) = (bytes.len() as u64, file_type.name());
            return Err(OpenError::TooShort { path: path.to_owned(), length, what });
        }
        let bytes = &bytes[..HEADER_BYTES as usize];
        if &bytes[..8] != file_type.magic() {
            let found = bytes[..8].try_into().expect("eight bytes");
            return Err(OpenError::BadMagic { path: path.to_owned(), what: file_type.name(), found });
        }
        let version = read_u32(bytes, 8);
        let known = [&bytes[..8], &FORMAT_VERSION.to_le_bytes(), &bytes[12..60]].concat();
        let is_of_known_version = crc32c::crc32c(&known) == read_u32(bytes, 60);
        if version != FORMAT_VERSION && !is_of_known_version {
            let path = path.to_owned();
            return Err(OpenError::UnknownVersion { path, found: version, known: FORMAT_VERSION });
        }
        if version != FORMAT_VERSION || !is_of_known_version {
            return Err(OpenError::corrupt(path, 0, "the checksum of its header does not match"));
        }
        let identity = Identity {
            cluster_id: read_u64(bytes, 16),
            member_id: read_u64(bytes, 24),
            incarnation: read_u64(bytes, 32),
        };
        Ok(FileHeader { file_type, number: read_u32(bytes, 12), identity })
    }

    /// Checks that the file belongs to this data directory and has the number that its name says.
    pub(crate) fn check(&self, identity: &Identity, number: u32, path: &Path) -> Result<(), OpenError> {
        let pairs = [
            ("cluster", self.identity.cluster_id, identity.cluster_id),
            ("member", self.identity.member_id, identity.member_id),
            ("incarnation", self.identity.incarnation, identity.incarnation),
        ];
        for (what, found, expected) in pairs {
            if found != expected {
                return Err(OpenError::Foreign { path: path.to_owned(), what, found, expected });
            }
        }
        match self.number == number {
            true => Ok(()),
            false => Err(OpenError::Misnamed { path: path.to_owned(), found: self.number }),
        }
    }
}
