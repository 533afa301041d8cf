//! What recovery found that the operator should know.

use std::path::PathBuf;

/// A finding of recovery that the operator should know. The log works.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Warning {
    /// The log ended in an invalid record, which has been cut off: most likely a write that a crash tore before it was
    /// acknowledged. Nothing proves that it was durable.
    TornTail {
        /// The segment.
        path: PathBuf,
        /// Where it was cut.
        offset: u64,
        /// Bytes of the file after that offset.
        bytes: u64,
    },
    /// An entry that must be replayed is damaged, and can be fetched from a peer.
    DamagedEntry {
        /// The segment.
        path: PathBuf,
        /// Where its record begins.
        offset: u64,
        /// Its index.
        index: u64,
    },
    /// The header of a file is damaged, or an entry that only a follower could need. Records and values have checksums
    /// of their own.
    Damaged {
        /// The file.
        path: PathBuf,
        /// Where.
        offset: u64,
    },
}

impl std::fmt::Display for Warning {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Warning::TornTail { path, offset, bytes } => write!(
                out,
                "{} ended in a record that fails its checksum, as a write torn by a crash does: cut at offset \
                 {offset}, with the {bytes} bytes after it",
                path.display()
            ),
            Warning::DamagedEntry { path, offset, index } => {
                write!(out, "{} is damaged at offset {offset}: entry {index} cannot be read", path.display())
            }
            Warning::Damaged { path, offset } => {
                write!(out, "{} is damaged at offset {offset}; nothing there is needed", path.display())
            }
        }
    }
}
