//! Names of objects: where they begin, in digits that sort as the numbers do.
//!
//! ```text
//! base/00000000000000000900-r12345-t1790000000000        entry 900, revision 12345, taken at that time
//! log/00000000000000000901                               its first entry is 901
//! ```
//!
//! The name of a log object does not say where it ends: two writers that have read differently far then want the same
//! name, and only one gets it.

use api::stelepb::BackupPoint;

/// The object that says whose archive it is.
pub(crate) const OWNER: &str = "stele-backup";

/// The object that says until when there were no more entries.
pub(crate) const PROGRESS: &str = "progress";

/// Where bases are.
pub(crate) const BASES: &str = "base";

/// Where log objects are.
pub(crate) const LOGS: &str = "log";

/// Digits of an index: those of the largest number.
const INDEX_DIGITS: usize = 20;

/// What the name of a base says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BaseName {
    /// The entry that it is the state after.
    pub index: u64,
    /// Its revision.
    pub revision: i64,
    /// When it was taken, in milliseconds since 1970.
    pub time_ms: u64,
}

impl BaseName {
    /// The name of the state at a point.
    pub(crate) fn of(point: &BackupPoint) -> BaseName {
        BaseName { index: point.index, revision: point.revision, time_ms: point.time_ms }
    }

    /// The name in the archive.
    pub(crate) fn path(&self) -> String {
        let BaseName { index, revision, time_ms } = self;
        format!("{BASES}/{index:020}-r{revision}-t{time_ms}")
    }

    /// Reads the last part of a path; `None` if it is no base's.
    pub(crate) fn parse(file: &str) -> Option<BaseName> {
        let (index, rest) = file.split_once("-r")?;
        let (revision, time_ms) = rest.split_once("-t")?;
        let name = BaseName {
            index: parse_log(index)?,
            revision: revision.parse().ok().filter(|revision| *revision > 0)?,
            time_ms: time_ms.parse().ok()?,
        };
        name.path().ends_with(&format!("/{file}")).then_some(name)
    }
}

/// The name of the log object that begins with an entry.
pub(crate) fn log_path(first: u64) -> String {
    format!("{LOGS}/{first:020}")
}

/// Reads the last part of a path; `None` if it is no log object's.
pub(crate) fn parse_log(file: &str) -> Option<u64> {
    let is_number = file.len() == INDEX_DIGITS && file.bytes().all(|byte| byte.is_ascii_digit());
    if is_number { file.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        let name = BaseName { index: 900, revision: 12345, time_ms: 1_790_000_000_000 };
        let path = name.path();
        assert_eq!(path, "base/00000000000000000900-r12345-t1790000000000");
        assert_eq!(BaseName::parse(path.strip_prefix("base/").expect("it is a base")), Some(name));
        assert_eq!(parse_log(log_path(901).strip_prefix("log/").expect("it is a log object")), Some(901));
        for foreign in ["", "900-r1-t1", "00000000000000000900-r01-t1", "00000000000000000900-r1-t1.tmp"] {
            assert_eq!(BaseName::parse(foreign), None, "{foreign}");
        }
        assert_eq!(parse_log("0000000000000000090x"), None);
    }
}
