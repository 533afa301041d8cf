//! A continuous backup: what it is made of, how it is written, and how it is read.
//!
//! An archive is a directory, or a part of an S3-compatible store. It holds copies of the state of one cluster, and the
//! entries of its log between them, so the state after any entry can be made again:
//!
//! ```text
//! stele-backup                                    whose archive it is
//! base/00000000000000000900-...                   the state after entry 900
//! log/00000000000000000901                        entries 901 to 950, and what the state after 950 is
//! log/00000000000000000951                        entries 951 to 990, ...
//! base/00000000000000000980-...
//! progress                                        until when 990 was the last entry
//!
//! the state after 985 = base 980, then 981 to 985; or base 900, then 901 to 985
//! ```
//!
//! Objects are written once and whole, under names that say where they begin. Two writers of the same entries write the
//! same name, and the second sees that and goes on behind the first.
//!
//! | module | does |
//! |---|---|
//! | `location` | where an archive is: a directory, or a bucket and a prefix |
//! | `names` | names of objects |
//! | `key`, `sealed` | the bytes of an object: frames with checksums, encrypted if there is a key |
//! | `objects` | the objects of one archive: lists, reads, writes |
//! | `follow` | copies a cluster into an archive as it goes on |
//! | `prune` | removes what is older than it must be |
//! | `reading` | reads an archive for a restore, and checks it; blocks |
//! | `error` | why an archive cannot be read or written |
//!
//! It knows neither servers nor what an entry means. The format to the byte: `docs/internals/archive.md`.

mod error;
mod follow;
mod key;
mod location;
mod names;
mod objects;
mod prune;
mod reading;
mod sealed;

pub use error::ArchiveError;
pub use follow::{
    BackupFollower, BackupSource, BasePart, BaseStream, FollowSettings, FollowStatus, SourceError,
    wall_clock_ms,
};
pub use key::SecretKey;
pub use names::BaseName;
pub use objects::{Archive, LogObject};
pub use reading::{ArchiveReader, BaseReader, CheckedSpan, LogReader};
