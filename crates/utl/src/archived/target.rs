//! Which state of an archive is requested, and which bases it can begin with.
//!
//! ```text
//! entries              901          902          903                 904
//! they make            12, 13       a lease      14                  15, 16
//! their clock          18:30:00     18:30:01     18:30:01            18:30:05
//!
//! --to-revision 13     901, up to the command that makes 13
//! --to-time 18:30:04   901, 902, 903: all up to the first entry with a later clock
//! ```
//!
//! A batch has the clock of the leader that proposed it, so a new leader whose clock is behind gives an entry an
//! earlier time than the one before it. What comes behind the first later one is left out, whatever its time.

use archive::BaseName;

use super::shown_time;
use crate::line::{CommandLine, Refusal};

/// A state of an archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RestoreTarget {
    /// The newest one.
    Newest,
    /// The state after the command that made this revision.
    Revision(i64),
    /// The state after all entries up to the first one with a later clock, in milliseconds since 1970.
    Time(u64),
}

impl RestoreTarget {
    /// Reads `--to-revision` and `--to-time`.
    ///
    /// # Errors
    /// Both are given, or one is wrong.
    pub(super) fn of_flags(line: &CommandLine) -> Result<RestoreTarget, Refusal> {
        let (revision, time) = (line.values.uint("to-revision"), line.values.text("to-time"));
        match (line.values.on_line("to-revision"), time) {
            (true, "") => {
                let revision = i64::try_from(revision).ok().filter(|revision| *revision > 0);
                revision.map(RestoreTarget::Revision).ok_or_else(|| {
                    Refusal::bad_args("--to-revision must be between 1 and 9223372036854775807")
                })
            }
            (true, _) => Err(Refusal::bad_args("--to-revision and --to-time are both given: choose one")),
            (false, "") => Ok(RestoreTarget::Newest),
            (false, time) => parse_time(time).map(RestoreTarget::Time).ok_or_else(|| {
                Refusal::bad_args(format!(
                    "--to-time {time:?} is no time since 1970 with its zone, such as 2026-11-23T18:30:00Z"
                ))
            }),
        }
    }

    /// The bases from which the state is reached, the newest first: at least one.
    ///
    /// # Errors
    /// There is none: the state is older than the archive.
    pub(super) fn bases(self, bases: &[BaseName]) -> Result<Vec<BaseName>, Refusal> {
        let Some(oldest) = bases.first() else {
            return Err(Refusal::error("the archive holds no copy of a state yet: let the backup go on"));
        };
        let reaches = |base: &&BaseName| match self {
            RestoreTarget::Newest => true,
            // Behind the command that makes a revision there may be others that make none.
            RestoreTarget::Revision(revision) => base.revision < revision,
            RestoreTarget::Time(time_ms) => base.time_ms <= time_ms,
        };
        let is_its_revision = |base: &&BaseName| RestoreTarget::Revision(base.revision) == self;
        let mut found: Vec<BaseName> = bases.iter().rev().filter(reaches).copied().collect();
        // It has the revision, and perhaps changes after it that make none.
        found.extend(bases.iter().find(is_its_revision));
        if found.is_empty() {
            return Err(Refusal::error(format!(
                "the archive begins at revision {}, {}: it cannot restore {}",
                oldest.revision,
                shown_time(oldest.time_ms),
                self.shown()
            )));
        }
        Ok(found)
    }

    /// The revision to stop at.
    pub(super) fn revision(self) -> Option<i64> {
        if let RestoreTarget::Revision(revision) = self { Some(revision) } else { None }
    }

    /// Whether an entry with this clock comes too late.
    pub(super) fn is_before(self, clock_ms: u64) -> bool {
        matches!(self, RestoreTarget::Time(time_ms) if time_ms < clock_ms)
    }

    /// For messages.
    pub(super) fn shown(self) -> String {
        match self {
            RestoreTarget::Newest => "the newest state".to_owned(),
            RestoreTarget::Revision(revision) => format!("revision {revision}"),
            RestoreTarget::Time(time_ms) => shown_time(time_ms),
        }
    }
}

fn parse_time(text: &str) -> Option<u64> {
    let time: jiff::Timestamp = text.parse().ok()?;
    u64::try_from(time.as_millisecond()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn base(index: u64) -> BaseName {
        BaseName { index, revision: index as i64 / 10, time_ms: index * 100 }
    }

    #[test]
    fn the_newest_base_before_the_target_comes_first() {
        let bases = [base(100), base(200), base(300)];
        for (target, expected) in [
            (RestoreTarget::Newest, vec![300, 200, 100]),
            (RestoreTarget::Revision(31), vec![300, 200, 100]),
            (RestoreTarget::Revision(30), vec![200, 100, 300]),
            (RestoreTarget::Revision(10), vec![100]),
            (RestoreTarget::Revision(9), vec![]),
            (RestoreTarget::Time(30_000), vec![300, 200, 100]),
            (RestoreTarget::Time(29_999), vec![200, 100]),
            (RestoreTarget::Time(9_999), vec![]),
        ] {
            let found = target.bases(&bases).unwrap_or_default();
            assert_eq!(found.iter().map(|base| base.index).collect::<Vec<_>>(), expected, "{target:?}");
        }
        assert!(RestoreTarget::Newest.bases(&[]).is_err());
    }

    #[test]
    fn times_have_a_zone() {
        assert_eq!(parse_time("1970-01-01T00:00:01.5Z"), Some(1_500));
        assert_eq!(parse_time("1970-01-01T01:00:00+01:00"), Some(0));
        for wrong in ["", "1970-01-01", "1970-01-01T00:00:00", "1960-01-01T00:00:00Z", "yesterday"] {
            assert_eq!(parse_time(wrong), None, "{wrong}");
        }
    }
}
