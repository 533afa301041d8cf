//! How much history automatic compaction keeps.

use std::time::Duration;

use super::duration;

/// How much history is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompactionPolicy {
    /// The changes within this time.
    Periodic(Duration),
    /// This many of the newest revisions.
    Revision(i64),
}

impl CompactionPolicy {
    /// Reads `--auto-compaction-mode` and `--auto-compaction-retention`; none when retention is zero.
    ///
    /// # Errors
    /// An unknown mode, or a retention that does not fit it.
    pub fn parse(mode: &str, retention: &str) -> Result<Option<CompactionPolicy>, String> {
        let whole = if retention.is_empty() { Some(0) } else { whole_number(retention) };
        let unreadable = |why: String| format!("error parsing CompactionRetention: {why}");
        match (mode, whole) {
            ("periodic" | "revision", Some(0)) => Ok(None),
            ("periodic", Some(hours)) => {
                let seconds = hours.checked_mul(3600).filter(|&seconds| seconds < i64::MAX / 1_000_000_000);
                let seconds = seconds.ok_or_else(|| unreadable(format!("{retention} hours are too long")))?;
                Ok(Some(CompactionPolicy::Periodic(Duration::from_secs(seconds.unsigned_abs()))))
            }
            ("periodic", None) => {
                let period = duration::parse(retention).map_err(unreadable)?;
                Ok(Some(CompactionPolicy::Periodic(period)).filter(|_| !period.is_zero()))
            }
            ("revision", Some(count)) => Ok(Some(CompactionPolicy::Revision(count))),
            ("revision", None) => Err(unreadable(format!(
                "{retention:?} is no number of revisions, which mode 'revision' needs"
            ))),
            ("", _) => Err("undefined auto-compaction-mode".to_owned()),
            (unknown, _) => Err(format!("unknown auto-compaction-mode {unknown:?}")),
        }
    }
}

/// A whole number without a sign.
fn whole_number(text: &str) -> Option<i64> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if is_number { text.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    //! Both flags together, as etcd reads them.

    use super::*;

    #[test]
    fn retention_is_read_by_mode() {
        let hour = Duration::from_secs(3600);
        let cases = [
            ("periodic", "0", Ok(None)),
            ("revision", "0", Ok(None)),
            ("periodic", "", Ok(None)),
            ("periodic", "5", Ok(Some(CompactionPolicy::Periodic(5 * hour)))),
            ("periodic", "90m", Ok(Some(CompactionPolicy::Periodic(Duration::from_secs(5400))))),
            ("periodic", "0s", Ok(None)),
            ("revision", "5000", Ok(Some(CompactionPolicy::Revision(5000)))),
        ];
        for (mode, retention, expected) in cases {
            assert_eq!(CompactionPolicy::parse(mode, retention), expected, "{mode} {retention}");
        }
    }

    #[test]
    fn bad_retentions_and_modes_are_refused() {
        let error = |mode, retention| CompactionPolicy::parse(mode, retention).expect_err(retention);
        assert_eq!(error("", "0"), "undefined auto-compaction-mode");
        assert_eq!(error("weekly", "1"), "unknown auto-compaction-mode \"weekly\"");
        assert!(error("periodic", "-1h").starts_with("error parsing CompactionRetention: "));
        assert!(error("periodic", "soon").starts_with("error parsing CompactionRetention: "));
        assert!(error("periodic", "99999999999").starts_with("error parsing CompactionRetention: "));
        assert!(error("revision", "5m").starts_with("error parsing CompactionRetention: "));
    }
}
